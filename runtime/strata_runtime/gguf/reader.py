"""One GGUF file, memory-mapped: magic, version, metadata, tensor table, and the tensors' bytes."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.gguf.cursor import Cursor
from strata_runtime.gguf.metadata import Metadata, read_metadata
from strata_runtime.gguf.tensors import GgufTensor, read_tensors
from strata_runtime.gguf.types import BlockFormat
from strata_runtime.whole_file import require_file

MAGIC = b"GGUF"
VERSIONS = (2, 3)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One file: its metadata, its tensors, its size in bytes."""

    path: Path
    metadata: Metadata
    tensors: Mapping[str, GgufTensor]
    bytes: int


def is_gguf(path: Path) -> bool:
    """Whether a file begins as GGUF files do. Raises `OSError` when it cannot be read, `UserError` when it is none."""
    require_file(path)
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def formats_by_name(formats: Iterable[BlockFormat]) -> dict[str, BlockFormat]:
    """Arrange formats by their names in GGUF files, without those that have none."""
    return {form.gguf: form for form in formats if form.gguf is not None}


def _check_version(path: Path, cursor: Cursor) -> None:
    version = cursor.u32("the version")
    if version in VERSIONS:
        return
    if version and version & 0xFFFF == 0:
        raise UserError(f"{path}: the file is big-endian; only little-endian files can be read, convert it")
    raise UserError(f"{path}: GGUF version {version} cannot be read, only {' and '.join(map(str, VERSIONS))}")


def parse(path: Path, content: memoryview, formats: Mapping[str, BlockFormat]) -> Part:
    """Read the file whose whole content is `content`. Raises `UserError` when it is not sound."""
    cursor = Cursor(path, content)
    if (magic := bytes(content[:4])) != MAGIC:
        raise UserError(f"{path}: not a GGUF file: it begins with {magic!r}")
    cursor.take(4, "the magic")
    _check_version(path, cursor)
    tensors, keys = cursor.u64("the count of tensors"), cursor.u64("the count of metadata keys")
    metadata = read_metadata(cursor, keys)
    return Part(path, metadata, read_tensors(cursor, tensors, metadata, formats), len(content))


def open_part(path: Path, formats: Mapping[str, BlockFormat]) -> Part:
    """Map one file and read its tables. Raises `UserError` when it cannot be read or is not sound."""
    try:
        require_file(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror}") from None
    return parse(path, memoryview(mapped), formats)
