"""Sound GGUF files, read as they were written: by hand, by the `gguf` package, and by llama.cpp."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from strata_runtime.errors import UserError
from strata_runtime.gguf.files import GgufFile, open_gguf
from strata_runtime.gguf.metadata import Array
from support.gguf_files import (
    ARRAY,
    F16,
    F32,
    FORMATS,
    Q4_0,
    Q4_K,
    Q8_0,
    TEXT,
    gguf_bytes,
    key,
    sound_file,
    sound_keys,
    tensor,
    write_with_library,
)

REFERENCE = Path(__file__).parent / "reference"
NAMES = ("glm4moe-e2-f32", "qwen3moe-e16-q4_k")


def opened(folder: Path, content: bytes) -> GgufFile:
    path = folder / "x.gguf"
    path.write_bytes(content)
    return open_gguf(path, FORMATS)


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_of_metadata(tmp_path: Path, version: int) -> None:
    metadata = opened(tmp_path, gguf_bytes(sound_keys(), version=version)).metadata
    assert metadata["general.architecture"] == "qwen3moe"
    assert [metadata[f"x.{kind}"] for kind in (0, 1, 2, 3, 4, 5, 6, 10, 11, 12)] == [1, 1, 1, 1, 1, 1, 1.0, 1, 1, 1.0]
    assert metadata["x.bool"] is True
    assert isinstance(metadata["x.6"], float)
    assert isinstance(metadata["x.10"], int)


def test_arrays_are_read_when_asked_for(tmp_path: Path) -> None:
    metadata = opened(tmp_path, gguf_bytes(sound_keys())).metadata
    words, numbers, flags, nested = (metadata.array(f"x.{name}") for name in ("words", "numbers", "flags", "nested"))
    assert words is not None
    assert numbers is not None
    assert flags is not None
    assert nested is not None
    assert words.texts() == words.values() == ["a", "", "größer"]
    assert numbers.numbers().tolist() == [0.5, -1.0]
    assert not numbers.numbers().flags.writeable
    assert flags.values() == [True, False]
    first, second, third = nested.values()
    assert isinstance(first, Array)
    assert isinstance(second, Array)
    assert isinstance(third, Array)
    assert first.values() == [1, 2]
    assert second.values() == ["b"]
    (inner,) = third.values()
    assert isinstance(inner, Array)
    assert (inner.type, len(inner), inner.values()) == ("u8", 0, [])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (0, 255), (1, -128), (2, 65535), (3, -32768), (4, 2**32 - 1), (5, -(2**31)), (6, -0.5), (6, float("inf")),
        (7, False), (10, 2**64 - 1), (11, -(2**63)), (12, 1e300), (TEXT, ""), (TEXT, "zwölf €"),
    ],
)  # fmt: skip
def test_extreme_values(tmp_path: Path, kind: int, value: object) -> None:
    found = opened(tmp_path, gguf_bytes([key("k", kind, value)])).metadata["k"]
    assert (found, type(found)) == (value, type(value))


def test_typed_getters_name_what_they_found(tmp_path: Path) -> None:
    keys = [
        key("n", 4, 7),
        key("t", TEXT, "x" * 100),
        key("b", 7, True),
        key("f", 6, 1.5),
        key("a", ARRAY, (TEXT, ["w"])),
    ]
    metadata = opened(tmp_path, gguf_bytes(keys)).metadata
    assert (metadata.whole("n"), metadata.text("t"), metadata.flag("b")) == (7, "x" * 100, True)
    assert (metadata.whole("-"), metadata.text("-"), metadata.flag("-"), metadata.array("-")) == (None,) * 4
    for read, expected in (
        (lambda: metadata.whole("b"), "'b' must be a whole number, found true"),
        (lambda: metadata.whole("f"), "'f' must be a whole number, found 1.5"),
        (lambda: metadata.whole("t"), "'t' must be a whole number, found 'xxxxx"),
        (lambda: metadata.flag("n"), "'n' must be true or false, found 7"),
        (lambda: metadata.text("a"), "'a' must be text, found an array of text"),
        (lambda: metadata.array("n"), "'n' must be an array, found 7"),
        (lambda: metadata.array("a").numbers(), "'a' must be an array of numbers, but is one of text"),
    ):
        with pytest.raises(UserError) as caught:
            read()
        assert expected in str(caught.value)
        assert len(str(caught.value)) < len(str(metadata.path)) + 90


def test_tensors_have_row_major_shapes_and_lie_in_the_map(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32)
    entries = [tensor("a", [4, 3, 2], F32, 0), tensor("b", [32, 2], Q8_0, 96), tensor("s", [], F32, 192)]
    file = opened(tmp_path, gguf_bytes((), entries, values.tobytes() + bytes(range(96)) + b"\0\0\x80?"))
    a, b, s = (file.tensors[name] for name in "abs")
    assert (a.shape, a.type, a.bytes) == ((2, 3, 4), "F32", 96)
    assert (b.shape, b.type, b.bytes) == ((2, 32), "Q8_0", 68)
    assert (s.shape, s.bytes) == ((), 4)
    assert np.array_equal(np.frombuffer(a.data, np.float32).reshape(a.shape), values.reshape(2, 3, 4))
    assert bytes(b.data) == bytes(range(68))
    assert a.data.readonly
    assert b.address - a.address == 96
    assert b.data.obj is a.data.obj


def test_tensors_may_lie_in_any_order_with_gaps_and_be_empty(tmp_path: Path) -> None:
    entries = [tensor("late", [8], F32, 256), tensor("early", [8], F32, 32), tensor("none", [0, 5], F32, 32)]
    file = opened(tmp_path, gguf_bytes((), entries, bytes(288)))
    assert [(name, t.bytes) for name, t in file.tensors.items()] == [("late", 32), ("early", 32), ("none", 0)]
    assert file.tensors["none"].data == b""
    assert file.bytes == (tmp_path / "x.gguf").stat().st_size


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_the_file_sets_the_alignment(tmp_path: Path, alignment: int) -> None:
    entries = [tensor("a", [2], F32, 0), tensor("b", [2], F32, alignment)]
    data = bytes(alignment) + b"12345678"
    file = opened(tmp_path, gguf_bytes([key("general.alignment", 4, alignment)], entries, data, alignment=alignment))
    assert bytes(file.tensors["b"].data) == b"12345678"
    assert file.tensors["b"].start % alignment == 0


@pytest.mark.parametrize(("number", "name"), [(Q4_0, "Q4_0"), (5, "type 5"), (2**32 - 1, "type 4294967295")])
def test_a_foreign_type_is_an_error_when_its_data_is_asked_for(tmp_path: Path, number: int, name: str) -> None:
    file = opened(tmp_path, gguf_bytes((), [tensor("w", [7, 3], number)], b"x"))
    assert (file.tensors["w"].type, file.tensors["w"].shape, file.tensors["w"].bytes) == (name, (3, 7), None)
    with pytest.raises(
        UserError, match=f"tensor 'w' is stored as {name}, which cannot be read; what can be: F32, F16, BF"
    ):
        _ = file.tensors["w"].data
    with pytest.raises(UserError, match="what can be: nothing"):
        _ = open_gguf(file.path, ()).tensors["w"].address


def test_what_the_library_writes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {
        "blk.0.w": random.standard_normal((5, 64)).astype(np.float32),
        "h": random.standard_normal((3, 32)).astype(np.float16),
    }

    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_custom_alignment(64)
        writer.add_array("n", [1, 2, 3])
        writer.add_array("w", ["x", "y"])
        writer.add_uint16("u", 9)
        for name, value in weights.items():
            writer.add_tensor(name, value)
        writer.add_tensor("q", gguf.quants.quantize(weights["blk.0.w"], gguf.GGMLQuantizationType.Q8_0), raw_dtype=8)

    file = open_gguf(write_with_library(tmp_path / "x.gguf", fill), FORMATS)
    assert (file.metadata.text("general.architecture"), file.metadata.whole("u")) == ("qwen3moe", 9)
    for name, value in weights.items():
        assert file.tensors[name].shape == value.shape
        assert bytes(file.tensors[name].data) == value.tobytes()
    assert (file.tensors["q"].shape, file.tensors["q"].type) == ((5, 64), "Q8_0")


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_files_read_as_the_library_reads_them(name: str) -> None:
    file = open_gguf(REFERENCE / f"{name}.gguf", FORMATS)
    library = gguf.GGUFReader(REFERENCE / f"{name}.gguf")
    expected = {key: field for key, field in library.fields.items() if not key.startswith("GGUF.")}
    assert list(file.metadata) == list(expected)
    for field, value in file.metadata.items():
        own = value.values() if isinstance(value, Array) else value
        # The library reads an empty array as nothing.
        assert own == (expected[field].contents() if own != [] else [])
    assert [tensor.name for tensor in library.tensors] == list(file.tensors)
    for stored in library.tensors:
        own_tensor = file.tensors[stored.name]
        assert own_tensor.shape == tuple(reversed(stored.shape.tolist()))
        assert own_tensor.type == stored.tensor_type.name
        assert own_tensor.start == stored.data_offset
        assert bytes(own_tensor.data) == stored.data.tobytes()


def large_file(path: Path, tokens: int = 152_000, size: int = 2 << 30) -> Path:
    """A sparse file with a vocabulary and a tensor to its end."""
    words = [f"token {index}" for index in range(tokens)]
    keys = [key(f"tokenizer.ggml.{name}", ARRAY, (TEXT, words)) for name in ("tokens", "merges")]
    head = gguf_bytes(keys, [tensor("w", [(size >> 2) - (8 << 20)])])
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


def test_opening_a_large_file_is_quick_and_takes_no_memory(tmp_path: Path) -> None:
    path = large_file(tmp_path / "large.gguf")
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        file = open_gguf(path, FORMATS)
        seconds.append(time.perf_counter() - start)
    assert file.bytes == 2 << 30
    assert min(seconds) < 0.3
    tracemalloc.start()
    file = open_gguf(path, FORMATS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    tokens = file.metadata.array("tokenizer.ggml.tokens")
    assert tokens is not None
    assert tokens.texts()[-1] == "token 151999"


def test_a_sound_file_stays_sound_when_it_is_longer(tmp_path: Path) -> None:
    file = opened(tmp_path, sound_file() + bytes(1000))
    assert list(file.tensors) == ["a", "b", "c"]


def test_half_precision_rows_of_any_length(tmp_path: Path) -> None:
    file = opened(tmp_path, gguf_bytes((), [tensor("h", [3, 5], F16)], bytes(30)))
    assert file.tensors["h"].bytes == 30


def test_super_blocks(tmp_path: Path) -> None:
    file = opened(tmp_path, gguf_bytes((), [tensor("q", [512, 2, 3], Q4_K)], bytes(144 * 12)))
    assert file.tensors["q"].bytes == 144 * 12
