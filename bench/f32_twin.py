"""The same weights in F32: what a GGUF file means, without the rounding that its formats ask of activations."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, dequantize


def write_f32_twin(source: Path, target: Path) -> Path:
    """Write `target`: the metadata of `source` byte for byte, and every tensor dequantised to F32. Returns it."""
    reader = GGUFReader(source)
    first = min(tensor.field.offset for tensor in reader.tensors)
    head = bytes(reader.data[:first])
    entries, place = bytearray(), 0
    for tensor in reader.tensors:
        name, size = tensor.name.encode(), tensor.n_elements * 4
        entries += struct.pack("<Q", len(name)) + name
        entries += struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *map(int, tensor.shape))
        entries += struct.pack("<IQ", GGMLQuantizationType.F32, place)
        place += _padded(size, reader.alignment)
    with target.open("wb") as file:
        file.write(head + bytes(entries))
        file.write(bytes(_padded(len(head) + len(entries), reader.alignment) - len(head) - len(entries)))
        for tensor in reader.tensors:
            raw = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32).tobytes()
            file.write(raw + bytes(_padded(len(raw), reader.alignment) - len(raw)))
    return target


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
