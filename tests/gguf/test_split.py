"""Models split into several GGUF files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from strata_runtime.errors import UserError
from strata_runtime.gguf.files import open_gguf
from support.gguf_files import ARRAY, FORMATS, TEXT, gguf_bytes, key, split_keys, tensor, write_split


def test_all_parts_are_one_model(tmp_path: Path) -> None:
    parts = write_split(tmp_path, count=3)
    file = open_gguf(parts[0], FORMATS)
    assert file.parts == tuple(parts)
    assert file.bytes == sum(part.stat().st_size for part in parts)
    assert file.metadata.text("general.architecture") == "qwen3moe"
    for number, part in enumerate(parts):
        found = file.tensors[f"t{number}"]
        assert found.path == part
        assert np.array_equal(np.frombuffer(found.data, np.float32), np.full(8, number, np.float32))


def test_parts_as_the_library_writes_them(tmp_path: Path) -> None:
    weights = {f"w{index}": np.full((2, 32), index, np.float32) for index in range(5)}
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen3moe", split_max_tensors=2)
    for name, value in weights.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = open_gguf(tmp_path / "m-00001-of-00003.gguf", FORMATS)
    assert [bytes(file.tensors[name].data) for name in weights] == [value.tobytes() for value in weights.values()]


def test_a_stem_may_look_like_a_part(tmp_path: Path) -> None:
    parts = write_split(tmp_path, stem="a-00002-of-00009", count=2)
    assert len(open_gguf(parts[0], FORMATS).tensors) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_another_part_than_the_first_says_which_to_open(tmp_path: Path, number: int) -> None:
    parts = write_split(tmp_path)
    expected = rf"00003.gguf: this is part {number + 1} of 3; open the first, model-00001-of-00003.gguf$"
    with pytest.raises(UserError, match=expected):
        open_gguf(parts[number], FORMATS)


def rewrite(path: Path, keys: list[bytes], name: str = "t1") -> None:
    path.write_bytes(gguf_bytes(keys, [tensor(name, [8])], bytes(32)))


def rename(parts: list[Path], name: str) -> None:
    parts[0].rename(parts[0].with_name(name))
    parts[0] = parts[0].with_name(name)


def swap(parts: list[Path]) -> None:
    second, third = parts[1].read_bytes(), parts[2].read_bytes()
    parts[1].write_bytes(third)
    parts[2].write_bytes(second)


def link(parts: list[Path]) -> None:
    parts[1].unlink()
    parts[1].symlink_to(parts[0])


CASES: dict[str, tuple[Callable[[list[Path]], object], str]] = {
    "a missing part": (lambda p: p[2].unlink(), "part 3 of 3 is missing: fetch model-00003-of-00003.gguf too"),
    "a part repeated": (lambda p: shutil.copy(p[1], p[2]), "must be part 3 of 3, but says it is part 2 of 3: fetch it"),
    "parts swapped": (swap, "must be part 2 of 3, but says it is part 3 of 3"),
    "a part that leads back to the first": (link, "must be part 2 of 3, but says it is part 1 of 3"),
    "a truncated part": (lambda p: p[1].write_bytes(p[1].read_bytes()[:-1]), "tensor 't1' takes 32 bytes at offset 0"),
    "an empty part": (lambda p: p[1].write_bytes(b""), "00002-of-00003.gguf: not a GGUF file"),
    "a part that is a folder": (lambda p: (p[1].unlink(), p[1].mkdir()), "Is a directory"),
    "a whole file as a part": (
        lambda p: rewrite(p[1], []),
        "must be part 2 of 3, but says it is not a part of a split",
    ),
    "a part of a larger set": (lambda p: rewrite(p[1], split_keys(1, 4, 3)), "but says it is part 2 of 4"),
    "a part of a set of other tensors": (
        lambda p: rewrite(p[1], split_keys(1, 3, 7)),
        "'split.tensors.count' is not what it is in model-00001-of-00003.gguf: they belong to two files",
    ),
    "a part of another architecture": (
        lambda p: rewrite(p[1], [*split_keys(1, 3, 3), key("general.architecture", TEXT, "llama")]),
        "'general.architecture' is not what it is in model-00001-of-00003.gguf",
    ),
    "a part with metadata of its own": (
        lambda p: rewrite(p[1], [*split_keys(1, 3, 3), key("a", ARRAY, (4, [1]))]),
        "'a' is not what it is in model-00001-of-00003.gguf",
    ),
    "a tensor in two parts": (
        lambda p: rewrite(p[1], split_keys(1, 3, 3), "t0"),
        "00002-of-00003.gguf: the tensor 't0' is also in model-00001-of-00003.gguf",
    ),
    "a count of tensors that is not true": (
        lambda p: [rewrite(path, split_keys(number, 3, 4), f"t{number}") for number, path in enumerate(p)],
        "'split.tensors.count' is 4, but the files hold 3 tensors",
    ),
    "a first part that was renamed": (
        lambda p: rename(p, "x.gguf"),
        "must be named NAME-00001-of-00003.gguf and so on",
    ),
    "a first part named as the second": (
        lambda p: rename(p, "model-00002-of-00003.gguf"),
        "this is part 1 of 3, but its name says otherwise",
    ),
    "a name with another count": (
        lambda p: rename(p, "model-00001-of-00004.gguf"),
        "must be named NAME-00001-of-00003.gguf and so on",
    ),
    "a number beyond the count": (
        lambda p: rewrite(p[0], split_keys(3, 3, 3)),
        "'split.no' must be from 0 to 2, found 3",
    ),
    "no number": (lambda p: rewrite(p[0], split_keys(0, 3, 3)[1:]), "'split.no' is missing, but 'split.count' is 3"),
    "a number without a count": (
        lambda p: rewrite(p[0], [key("split.no", 2, 1)]),
        "'split.no' must be 0 in a file that",
    ),
    "a count of 2^32": (lambda p: rewrite(p[0], [key("split.count", 10, 2**32)]), "must be from 0 to 65535"),
    "a negative count": (lambda p: rewrite(p[0], [key("split.count", 11, -1)]), "must be from 0 to 65535, found -1"),
    "a count that is text": (
        lambda p: rewrite(p[0], [key("split.count", TEXT, "3")]),
        "must be a whole number, found '3'",
    ),
    "65535 parts": (
        lambda p: rewrite(p[0], split_keys(0, 65535, 1)) or rename(p, "model-00001-of-65535.gguf"),
        "part 2 of 65535 is missing",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_parts_that_do_not_belong_together(tmp_path: Path, case: str) -> None:
    change, expected = CASES[case]
    parts = write_split(tmp_path)
    change(parts)
    with pytest.raises(UserError) as caught:
        open_gguf(parts[0], FORMATS)
    assert str(caught.value).startswith(f"{tmp_path}/")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 1])
def test_a_set_of_one_is_a_whole_file(tmp_path: Path, count: int) -> None:
    path = tmp_path / "any.gguf"
    rewrite(path, split_keys(0, count, 1))
    assert open_gguf(path, FORMATS).parts == (path,)


def test_parts_may_be_aligned_differently_and_repeat_metadata(tmp_path: Path) -> None:
    parts = write_split(tmp_path, count=2)
    shared = [key("w", ARRAY, (TEXT, ["a"])), key("general.architecture", TEXT, "qwen3moe")]
    rewrite(parts[0], [*split_keys(0, 2, 2), *shared], "t0")
    keys = [*split_keys(1, 2, 2), *shared, key("general.alignment", 4, 64)]
    parts[1].write_bytes(gguf_bytes(keys, [tensor("t1", [8])], bytes(range(32)), alignment=64))
    assert bytes(open_gguf(parts[0], FORMATS).tensors["t1"].data) == bytes(range(32))
