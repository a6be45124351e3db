"""One safetensors file, memory-mapped: tensors are views of the map and are read when they are used."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from strata_runtime.checkpoint.header import Entry, parse_header
from strata_runtime.errors import UserError

TORCH_TYPES = {"BF16": torch.bfloat16, "F32": torch.float32}
"""The element types that a family may name."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A mapped file. `bytes` is uint8 over the whole file; the map lives as long as any view of it."""

    path: Path
    entries: Mapping[str, Entry]
    bytes: torch.Tensor

    def tensor(self, name: str) -> torch.Tensor:
        """Return the tensor in its stored dtype: a read-only view, or a copy where the file does not align it."""
        entry = self.entries[name]
        dtype = TORCH_TYPES[entry.dtype]
        raw = self.bytes[entry.start : entry.stop]
        if entry.start % dtype.itemsize:
            raw = raw.clone()
        return raw.view(dtype).view(entry.shape)


def open_shard(path: Path) -> Shard:
    """Map a file and check its header. Raises `UserError` when it cannot be read or is not sound."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror}") from None
    entries = parse_header(path, memoryview(mapped))
    with warnings.catch_warnings():
        # Writing to the map would be an error; nothing here writes to a weight.
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        content = torch.frombuffer(mapped, dtype=torch.uint8)
    return Shard(path, entries, content)
