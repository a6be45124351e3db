"""Safetensors files that lie: each is one clear error, whatever their header says."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from strata_runtime.checkpoint.header import parse_header
from strata_runtime.checkpoint.shard import open_shard
from strata_runtime.errors import UserError


def bytes_of(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def file_of(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    path.write_bytes(bytes_of(header, data, length))
    return path


def tensor(begin: int, end: int, shape: object = (2,), dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


DEEP = b'{"a":' + b"[" * 100_000

CASES: dict[str, tuple[object, bytes, int | None, str]] = {
    "header length beyond the file": ({}, b"", 1000, "the header claims 1000 bytes, but the file has"),
    "header length of 2^63": ({}, b"", 2**63, "the header claims 9223372036854775808 bytes"),
    "header is no JSON": (b"{nonsense", b"", None, "header: not valid JSON"),
    "header is no UTF-8": (b'{"\xff": 1}', b"", None, "header: not UTF-8 text at byte 2"),
    "header is a list": ([], b"", None, "header: expected a JSON object, found a list"),
    "header is nested without end": (DEEP, b"", None, "header: not valid JSON"),
    "a tensor twice": (b'{"a":{},"a":{}}', b"", None, "the key 'a' is given twice"),
    "entry is no object": ({"a": 3}, b"", None, "tensor 'a': expected an object, found 3"),
    "entry without shape": ({"a": {"dtype": "F32"}}, b"", None, "expected dtype, shape and data_offsets, found dtype"),
    "unknown dtype": ({"a": tensor(0, 8, dtype="F31")}, bytes(8), None, "tensor 'a': unknown dtype \"F31\""),
    "dtype is a number": ({"a": tensor(0, 8, dtype=3)}, bytes(8), None, "unknown dtype 3"),
    "negative size": (
        {"a": tensor(0, 8, [-2])},
        bytes(8),
        None,
        "shape must be at most 8 whole numbers from 0 to 2^63 - 1",
    ),
    "size is true": ({"a": tensor(0, 4, [True])}, bytes(4), None, "shape must be at most 8 whole numbers"),
    "size is a fraction": ({"a": tensor(0, 8, [2.0])}, bytes(8), None, "shape must be at most 8 whole numbers"),
    "shape overflows 64 bits": ({"a": tensor(0, 8, [2**40, 2**40])}, bytes(8), None, "but its offsets span 8"),
    "offsets backwards": ({"a": tensor(8, 0)}, bytes(8), None, "its bytes are 8 to 0, but the file holds 8"),
    "offsets beyond the file": ({"a": tensor(0, 800, [200])}, bytes(8), None, "the file is truncated or damaged"),
    "offset of 2^70": ({"a": tensor(2**70, 2**70 + 8)}, bytes(8), None, "data_offsets must be 2 whole numbers from 0"),
    "offset of 2^62": ({"a": tensor(2**62, 2**62 + 8)}, bytes(8), None, "but the file holds 8 bytes"),
    "thousands of dimensions": ({"a": tensor(0, 4, [1] * 5000)}, bytes(4), None, "shape must be at most 8 whole"),
    "three offsets": ({"a": {**tensor(0, 8), "data_offsets": [0, 4, 8]}}, bytes(8), None, "must be 2 whole numbers"),
    "offsets too short": ({"a": tensor(0, 4)}, bytes(4), None, "F32 [2] takes 8 bytes, but its offsets span 4"),
    "offsets too long": ({"a": tensor(0, 12)}, bytes(12), None, "F32 [2] takes 8 bytes, but its offsets span 12"),
    "overlap": ({"a": tensor(0, 8), "b": tensor(4, 12)}, bytes(12), None, "tensors 'a' and 'b' overlap"),
    "gap": ({"a": tensor(0, 8), "b": tensor(12, 20)}, bytes(20), None, "4 bytes before tensor 'b' belong to no tensor"),
    "bytes left over": ({"a": tensor(0, 8)}, bytes(20), None, "12 bytes after the last tensor belong to no tensor"),
    "metadata is a list": ({"__metadata__": []}, b"", None, "__metadata__ must be an object, found a list"),
    "millions of lists": (b'{"a":[' + b"[]," * 2_000_000 + b"0]}", b"", None, "more than any model needs"),
    "millions of tensors": (
        b"{" + b",".join(b'"%d":{}' % index for index in range(1_100_000)) + b"}",
        b"",
        None,
        "more than any model needs",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_lying_header_is_one_error_that_names_the_file(tmp_path: Path, case: str) -> None:
    header, data, length, expected = CASES[case]
    path = file_of(tmp_path / "bad.safetensors", header, data, length)
    with pytest.raises(UserError) as caught:
        open_shard(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_a_lying_header_costs_neither_time_nor_memory(case: str) -> None:
    content = bytes_of(*CASES[case][:3])
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(UserError):
        parse_header(Path("bad.safetensors"), memoryview(content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - start < 3
    assert peak < 200_000 + 4 * len(content)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_file_too_short_for_a_header(tmp_path: Path, size: int) -> None:
    path = tmp_path / "short.safetensors"
    path.write_bytes(bytes(size))
    with pytest.raises(UserError, match=f"{size} bytes are too few for a safetensors file"):
        open_shard(path)


def test_a_truncated_file_at_every_length(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    whole = path.read_bytes()
    for size in [*range(0, 200, 7), *range(200, len(whole), 9_973), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(UserError):
            open_shard(path)


def test_tensors_are_mapped_in_place_and_copied_only_where_the_file_does_not_align_them(tmp_path: Path) -> None:
    values = torch.arange(4, dtype=torch.float32)
    header: dict[str, object] = {"a": tensor(0, 16, [4]), "b": tensor(16, 17, [1], "U8"), "c": tensor(17, 33, [2, 2])}
    text = json.dumps(header)
    aligned = text + " " * (-len(text) % 8)
    data = values.numpy().tobytes()
    shard = open_shard(file_of(tmp_path / "x.safetensors", aligned.encode(), data + b"\x01" + data))
    whole = np.frombuffer(shard.content, np.uint8)
    where = {name: np.frombuffer(shard.data(name), np.uint8) for name in ("a", "c")}
    assert all(found.view(np.float32).tolist() == [0, 1, 2, 3] for found in where.values())
    assert np.shares_memory(where["a"], whole)
    assert not np.shares_memory(where["c"], whole)
    assert where["c"].ctypes.data % 4 == 0


def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        open_shard(tmp_path / "gone.safetensors")


def test_random_damage_to_a_header_never_crashes(checkpoint: Path, load: Callable[[Path], object]) -> None:
    path = checkpoint / "model.safetensors"
    whole = bytearray(path.read_bytes())
    generator = torch.Generator().manual_seed(0)
    header = int.from_bytes(whole[:8], "little")
    for _ in range(150):
        spoilt = bytearray(whole)
        for position in torch.randint(0, 8 + header, (3,), generator=generator).tolist():
            spoilt[position] = int(torch.randint(0, 256, (1,), generator=generator))
        path.write_bytes(spoilt)
        try:
            load(checkpoint)
        except UserError:
            continue
