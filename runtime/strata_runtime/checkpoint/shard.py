"""One safetensors file, memory-mapped: tensors are views of the map and are read when they are used."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.checkpoint.header import ITEM_BYTES, Entry, parse_header
from strata_runtime.errors import UserError
from strata_runtime.whole_file import require_file


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """A mapped file; the map lives as long as any view of it."""

    path: Path
    entries: Mapping[str, Entry]
    content: memoryview

    def data(self, name: str) -> memoryview:
        """Return the tensor's bytes: a read-only view, or a copy where the file does not align them."""
        entry = self.entries[name]
        data = self.content[entry.start : entry.stop]
        return memoryview(bytes(data)) if entry.start % ITEM_BYTES[entry.dtype] else data


def open_shard(path: Path) -> Shard:
    """Map a file and check its header. Raises `UserError` when it cannot be read or is not sound."""
    try:
        require_file(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror}") from None
    content = memoryview(mapped)
    return Shard(path, parse_header(path, content), content)
