"""GGUF files that lie: each is one clear error, and nothing is allocated on their word."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.errors import UserError
from strata_runtime.gguf.files import open_gguf
from strata_runtime.gguf.metadata import KEYS_AT_MOST
from strata_runtime.gguf.reader import formats_by_name, parse
from strata_runtime.gguf.tensors import TENSORS_AT_MOST
from support.checkpoints import make_config
from support.gguf_files import (
    ARRAY,
    F32,
    FORMATS,
    Q4_0,
    Q8_0,
    TEXT,
    array,
    exercise,
    gguf_bytes,
    key,
    sound_file,
    sound_keys,
    tensor,
    text,
)
from support.gguf_models import metadata
from support.reference_provider import FORMATS as PACKAGE_FORMATS
from support.reference_provider import generated_families

HUGE = 2**64 - 1
TABLE = formats_by_name(FORMATS)


def nested(depth: int) -> bytes:
    return struct.pack("<IQ", ARRAY, 1) * depth + struct.pack("<IQ", 0, 0)


def two(first: bytes, second: bytes, data: int = 1024) -> bytes:
    return gguf_bytes((), [first, second], bytes(data))


CASES: dict[str, tuple[bytes, str]] = {
    # the header
    "empty": (b"", "not a GGUF file: it begins with b''"),
    "three bytes": (b"GGU", "not a GGUF file: it begins with b'GGU'"),
    "another kind of file": (b"PK\3\4" + bytes(100), r"not a GGUF file: it begins with b'PK\x03\x04'"),
    "a safetensors file": (struct.pack("<Q", 2) + b"{}", "not a GGUF file"),
    "nothing but the magic": (b"GGUF", "the file ends within the version"),
    "version 1": (gguf_bytes(version=1), "GGUF version 1 cannot be read, only 2 and 3"),
    "version 4": (gguf_bytes(version=4), "GGUF version 4 cannot be read"),
    "version 0": (gguf_bytes(version=0), "GGUF version 0 cannot be read"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "the file is big-endian"),
    "2^64 keys": (gguf_bytes(key_count=HUGE), "the metadata claims 18446744073709551615 items, but only 0 bytes"),
    "2^64 tensors": (gguf_bytes(tensor_count=HUGE), "the tensor table claims 18446744073709551615 items"),
    "one key too many": (gguf_bytes([key("a", 4, 1)], key_count=2), "the metadata claims 2 items, but only 17 bytes"),
    "one tensor too many": (gguf_bytes((), [tensor("a", [1])], tensor_count=2), "tensor table claims 2 items, but"),
    "more keys than anyone needs": (gguf_bytes(key_count=KEYS_AT_MOST + 1, data=bytes(1_000_000)), "65537 keys, more"),
    "more tensors than anyone needs": (
        gguf_bytes(tensor_count=TENSORS_AT_MOST + 1, data=bytes(8_000_000)),
        "262145 entries, more than 262144",
    ),
    # keys
    "key length of 2^64": (
        gguf_bytes([text("a", HUGE) + bytes(20)]),
        "the name of metadata key 0 is 18446744073709551615 bytes long, more than 65535",
    ),
    "key longer than the file": (gguf_bytes([text("a", 60_000) + bytes(20)]), "ends within the name of metadata key 0"),
    "key is no UTF-8": (gguf_bytes([key(b"a\xff", 4, 1)]), "the name of metadata key 0 is not UTF-8 text (byte 1)"),
    "key is empty": (gguf_bytes([key("", 4, 1)]), "the name of metadata key 0 is ''"),
    "key with a line break": (gguf_bytes([key("a\nb", 4, 1)]), r"the name of metadata key 0 is 'a\nb'"),
    "a key twice": (gguf_bytes([key("a", 4, 1), key("a", 4, 1)]), "the key 'a' is given twice"),
    "unknown value type": (gguf_bytes([key("a", 13, bytes(8))]), "'a': unknown value type 13"),
    "value type of 2^32": (gguf_bytes([key("a", 2**32 - 1, bytes(8))]), "'a': unknown value type 4294967295"),
    "a number cut short": (gguf_bytes([key("a", 10, bytes(7))]), "the file ends within 'a'"),
    "a text of 2^64 bytes": (gguf_bytes([key("a", TEXT, "")[:-8] + text("x", HUGE)]), "more than 67108864"),
    "a text of 2^63 bytes": (gguf_bytes([key("a", TEXT, "")[:-8] + text("x", 2**63)]), "more than 67108864: the file"),
    "a text longer than the file": (gguf_bytes([key("a", TEXT, "")[:-8] + text("x", 9)]), "the file ends within 'a'"),
    "a text that is no UTF-8": (gguf_bytes([key("a", TEXT, b"\xc3")]), "'a' is not UTF-8 text (byte 0)"),
    "neither true nor false": (gguf_bytes([key("a", 7, b"\2")]), "'a' is neither true nor false but 2"),
    # arrays
    "array of an unknown type": (gguf_bytes([key("a", ARRAY, struct.pack("<IQ", 99, 1))]), "unknown value type 99"),
    "array without a count": (gguf_bytes([key("a", ARRAY, struct.pack("<I", 4))]), "the file ends within 'a'"),
    "array of 2^64 bytes": (gguf_bytes([key("a", ARRAY, array(0, [], HUGE))]), "'a' claims 18446744073709551615 items"),
    "array of 2^61 numbers": (gguf_bytes([key("a", ARRAY, array(10, [], 2**61))]), "'a' claims 2305843009213693952"),
    "array of 2^64 texts": (gguf_bytes([key("a", ARRAY, array(TEXT, [], HUGE))]), "'a' claims 18446744073709551615"),
    "array of 2^60 arrays": (gguf_bytes([key("a", ARRAY, array(ARRAY, [], 2**60))]), "'a' claims 1152921504606846976"),
    "array of one text too many": (
        gguf_bytes([key("a", ARRAY, array(TEXT, ["x" * 9], 2))]),
        "the file ends within 'a'",
    ),
    "text in an array of 2^64 bytes": (
        gguf_bytes([key("a", ARRAY, array(TEXT, [], 2) + text("", HUGE) + text(""))]),
        "the file ends within 'a'",
    ),
    "last text in an array of 2^63 bytes": (
        gguf_bytes([key("a", ARRAY, array(TEXT, [], 1) + text("", 2**63))]),
        "the file ends within 'a'",
    ),
    "arrays nested five deep": (gguf_bytes([key("a", ARRAY, nested(5))]), "'a': arrays are nested more than 4 deep"),
    "arrays nested without end": (gguf_bytes([key("a", ARRAY, nested(100_000))]), "nested more than 4 deep"),
    "array of more arrays than anyone needs": (
        gguf_bytes([key("a", ARRAY, array(ARRAY, [(0, [])] * 300_000))]),
        "'a' has too many items",
    ),
    "array of neither true nor false": (
        gguf_bytes([key("a", ARRAY, array(7, [], 2) + b"\1\2")]),
        "'a': an item is neither true nor false",
    ),
    # alignment
    "alignment of 0": (gguf_bytes([key("general.alignment", 4, 0)]), "must be a power of two from 8 to 1073741824"),
    "alignment of 24": (gguf_bytes([key("general.alignment", 4, 24)]), "must be a power of two from 8 to 1073741824"),
    "alignment of 1": (gguf_bytes([key("general.alignment", 4, 1)]), "must be a power of two from 8 to 1073741824"),
    "alignment of 2^31": (gguf_bytes([key("general.alignment", 4, 2**31)]), "found 2147483648"),
    "alignment of -32": (gguf_bytes([key("general.alignment", 5, -32)]), "found -32"),
    "alignment is text": (gguf_bytes([key("general.alignment", TEXT, "32")]), "must be a whole number, found '32'"),
    "alignment is true": (gguf_bytes([key("general.alignment", 7, True)]), "must be a whole number, found true"),
    # tensors
    "tensor name of 2^64 bytes": (gguf_bytes((), [text("a", HUGE) + bytes(40)]), "the name of tensor 0 is 184467"),
    "tensor name is no UTF-8": (gguf_bytes((), [tensor(b"\xff", [1])], bytes(4)), "the name of tensor 0 is not UTF-8"),
    "tensor name is empty": (gguf_bytes((), [tensor("", [1])], bytes(4)), "the name of tensor 0 is ''"),
    "a tensor twice": (two(tensor("a", [1]), tensor("a", [1], F32, 32)), "the tensor 'a' is given twice"),
    "five dimensions": (gguf_bytes((), [tensor("a", [1] * 5)], bytes(4)), "tensor 'a' has 5 dimensions, more than 4"),
    "2^32 dimensions": (
        gguf_bytes((), [tensor("a", [1], rank=2**32 - 1)], bytes(4)),
        "tensor 'a' has 4294967295 dimensions",
    ),
    "a dimension of 2^64": (gguf_bytes((), [tensor("a", [HUGE])], bytes(4)), "tensor 'a' claims the shape [1844674407"),
    "dimensions that overflow": (
        gguf_bytes((), [tensor("a", [2**32, 2**32])], bytes(4)),
        "tensor 'a' claims the shape [4294967296, 4294967296]",
    ),
    "dimensions that overflow to a small size": (
        gguf_bytes((), [tensor("a", [2**33, 2**31, 2])], bytes(4)),
        "tensor 'a' claims the shape [2, 2147483648, 8589934592]",
    ),
    "dimensions that overflow beside a zero": (
        gguf_bytes((), [tensor("a", [2**63, 4, 0])], bytes(4)),
        "tensor 'a' claims the shape",
    ),
    "more rows than the file": (
        gguf_bytes((), [tensor("a", [32, 2**40], Q8_0)], bytes(1024)),
        "tensor 'a' takes 37383395344384 bytes at offset 0, but the file holds 1024 bytes of tensors",
    ),
    "rows that are no whole blocks": (
        gguf_bytes((), [tensor("a", [33, 2], Q8_0)], bytes(1024)),
        "tensor 'a' has rows of 33 values, which blocks of Q8_0 (32 values) do not divide",
    ),
    "rows shorter than a block": (gguf_bytes((), [tensor("a", [2, 32], Q8_0)], bytes(1024)), "has rows of 2 values"),
    "a single number in blocks": (gguf_bytes((), [tensor("a", [], Q8_0)], bytes(1024)), "has rows of 1 values"),
    "offset of 2^64": (gguf_bytes((), [tensor("a", [1], F32, 2**64 - 32)], bytes(4)), "but the file holds 4 bytes"),
    "offset beyond the file": (
        gguf_bytes((), [tensor("a", [1], F32, 64)], bytes(64)),
        "tensor 'a' takes 4 bytes at offset 64, but the file holds 64 bytes of tensors: it is truncated or damaged",
    ),
    "offset of a foreign type beyond the file": (
        gguf_bytes((), [tensor("a", [32], Q4_0, 64)], bytes(64)),
        "tensor 'a' has its data at offset 64, but the file holds 64 bytes of tensors: it is truncated or damaged",
    ),
    "offset that is not aligned": (
        gguf_bytes((), [tensor("a", [1], F32, 4)], bytes(64)),
        "tensor 'a' is at offset 4, no multiple of 32",
    ),
    "one byte short": (gguf_bytes((), [tensor("a", [16])], bytes(63)), "takes 64 bytes at offset 0, but the file"),
    "no data at all": (gguf_bytes((), [tensor("a", [16])])[:-1], "but the file holds 0 bytes of tensors"),
    "overlap": (two(tensor("a", [9]), tensor("b", [1], F32, 32)), "the bytes of tensors 'a' and 'b' overlap"),
    "overlap in reverse": (two(tensor("a", [1], F32, 32), tensor("b", [9])), "tensors 'b' and 'a' overlap"),
    "the same place": (two(tensor("a", [1]), tensor("b", [1])), "the bytes of tensors 'a' and 'b' overlap"),
    "one within another": (two(tensor("a", [200]), tensor("b", [1], F32, 96)), "tensors 'a' and 'b' overlap"),
    "a foreign type within another": (two(tensor("a", [64]), tensor("b", [32], Q4_0, 32)), "'a' and 'b' overlap"),
    "two of a foreign type": (two(tensor("a", [32], Q4_0), tensor("b", [32], Q4_0)), "'a' and 'b' overlap"),
}  # fmt: skip


def problem_with(content: bytes, path: Path = Path("bad.gguf")) -> str:
    with pytest.raises(UserError) as caught:
        parse(path, memoryview(content), TABLE)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_a_lie_is_one_error_that_names_the_file(tmp_path: Path, case: str) -> None:
    content, expected = CASES[case]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        open_gguf(path, FORMATS)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300


@pytest.mark.parametrize("case", CASES)
def test_a_lie_costs_neither_time_nor_memory(case: str) -> None:
    content, _ = CASES[case]
    tracemalloc.start()
    start = time.process_time()
    problem_with(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - start < 3
    assert peak < 200_000 + len(content)


def test_a_file_cut_anywhere_before_its_last_byte_of_data() -> None:
    whole = gguf_bytes(sound_keys(), [tensor("a", [8, 2]), tensor("b", [32, 3], Q8_0, 64)], bytes(166))
    parse(Path("x"), memoryview(whole), TABLE)
    tracemalloc.start()
    for size in range(len(whole)):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        problem_with(whole[:size])
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < 100_000
    tracemalloc.stop()


LIES = (0, 1, 0x7F, 0x80, 0xFF)


def test_every_byte_of_the_tables_may_be_any_other() -> None:
    whole = sound_file()
    for position in range(len(whole) - 200):
        for lie in LIES:
            exercise(whole[:position] + bytes([lie]) + whole[position + 1 :])


@pytest.mark.parametrize("lie", [0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, HUGE, HUGE - 7])
def test_every_eight_bytes_of_the_tables_may_be_any_number(lie: int) -> None:
    whole = sound_file()
    for position in range(len(whole) - 200):
        exercise(whole[:position] + struct.pack("<Q", lie) + whole[position + 8 :])


def test_random_damage() -> None:
    whole = np.frombuffer(sound_file(), np.uint8)
    random = np.random.default_rng(0)
    for _ in range(3000):
        spoilt = whole.copy()
        places = random.integers(0, len(whole) - 200, random.integers(1, 8))
        spoilt[places] = random.integers(0, 256, len(places))
        exercise(spoilt.tobytes())


def test_texts_in_arrays_are_checked_when_they_are_asked_for() -> None:
    content = gguf_bytes([key("a", ARRAY, (TEXT, ["x", b"\xff"]))])
    words = parse(Path("bad.gguf"), memoryview(content), TABLE).metadata.array("a")
    assert words is not None
    with pytest.raises(UserError, match=r"bad.gguf: 'a': item 1 is not UTF-8 text \(byte 0\)"):
        words.texts()


BOUNDED = """
import resource, sys
from pathlib import Path
from strata_runtime.errors import UserError
from strata_runtime.gguf.files import open_gguf
from support.gguf_files import FORMATS
pages = int(Path("/proc/self/statm").read_text().split()[0])
bound = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
try:
    open_gguf(Path(sys.argv[1]), FORMATS)
except UserError as problem:
    print(problem)
"""


@pytest.mark.parametrize("case", [case for case in CASES if "2^" in case])
def test_huge_numbers_are_refused_within_bounded_memory(tmp_path: Path, case: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(CASES[case][0])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(path)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert CASES[case][1] in done.stdout


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.write(gguf_bytes([text("a") + struct.pack("<I", ARRAY) + array(TEXT, [], size // 8 - 100)]))
        file.truncate(size)
    return path


def test_a_giant_file_of_nothing_is_refused_in_a_moment(tmp_path: Path) -> None:
    path = sparse(tmp_path / "x.gguf", 4 << 30)
    start = time.process_time()
    with pytest.raises(UserError, match="'a' has too many items: a file may have 16777216 in all"):
        open_gguf(path, FORMATS)
    assert time.process_time() - start < 1


def with_a_hole(path: Path, key_head: bytes, hole: int) -> Path:
    """A model's file that is complete but for a value of `hole` bytes, which take no place on disk."""
    config = make_config()
    own = {f"glm4moe.{name}": value for name, value in metadata(config).items()}
    kinds = {bool: 7, int: 4, float: 6}
    keys = [key("general.architecture", TEXT, "glm4moe"), *(key(k, kinds[type(v)], v) for k, v in own.items())]
    with path.open("wb") as file:
        file.write(gguf_bytes([*keys, key_head], tensor_count=1))
        file.seek(hole, os.SEEK_CUR)
        file.write(tensor("token_embd.weight", [4, 8]))
        file.write(bytes(-file.tell() % 32) + bytes(128))
    return path


GIANT = 1 << 28
HOLES: dict[str, tuple[bytes, str]] = {
    "an array of bytes for four numbers": (
        key("glm4moe.rope.dimension_sections", ARRAY, array(0, [], GIANT)),
        "'glm4moe.rope.dimension_sections' has 268435456 items, more than 65536",
    ),
    "an array of flags for one number a layer": (
        key("glm4moe.swiglu_clamp_exp", ARRAY, array(7, [], GIANT)),
        "'glm4moe.swiglu_clamp_exp' has 268435456 items, more than 65536",
    ),
    "an array of numbers for one number": (
        key("glm4moe.expert_group_count", ARRAY, array(10, [], GIANT // 8)),
        "'glm4moe.expert_group_count' has 33554432 items, more than 65536",
    ),
    "a text": (
        text("x") + struct.pack("<IQ", TEXT, GIANT),
        "'x' is 268435456 bytes long, more than 67108864",
    ),
}


@pytest.mark.parametrize("case", HOLES)
def test_a_giant_value_is_never_copied(tmp_path: Path, case: str) -> None:
    key_head, expected = HOLES[case]
    path = with_a_hole(tmp_path / "x.gguf", key_head, GIANT)
    families = generated_families()
    tracemalloc.start()
    with pytest.raises(UserError) as caught:
        open_checkpoint(path, families, PACKAGE_FORMATS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert expected in str(caught.value)
    assert peak < 2_000_000


def folder_of(path: Path) -> None:
    path.mkdir()


def pipe_of(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (folder_of, "cannot be read: Is a directory"),
        (pipe_of, "not a file but a pipe or a device"),
        (lambda path: None, "cannot be read: No such file or directory"),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None], expected: str) -> None:
    path = tmp_path / "x.gguf"
    make(path)
    with pytest.raises(UserError) as caught:
        open_gguf(path, FORMATS)
    assert str(caught.value) == f"{path}: {expected}"
