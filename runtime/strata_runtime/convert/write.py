"""One GGUF file written from begin to end: metadata, table, and the tensors as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from strata_runtime.convert.network_keys import Value
from strata_runtime.convert.targets import Target
from strata_runtime.formats import Bytes
from strata_runtime.gguf.tensors import ALIGNMENT

if TYPE_CHECKING:
    from gguf import GGUFWriter


def padded(size: int) -> int:
    """Return what `size` bytes of a tensor take in a file."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _add(writer: GGUFWriter, key: str, value: Value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


class TargetFile:
    """A file for `targets`: its begin is written, and it has its full size, so that a reader finds all its tables."""

    def __init__(self, path: Path, architecture: str, keys: Mapping[str, Value], targets: Sequence[Target]) -> None:
        """Write everything but the tensors. Raises `OSError`."""
        from gguf import GGML_QUANT_VERSION, GGMLQuantizationType, GGUFWriter

        self._writer = writer = GGUFWriter(path, architecture)
        writer.add_quantization_version(GGML_QUANT_VERSION)
        for key, value in keys.items():
            _add(writer, key, value)
        for target in targets:
            kind = GGMLQuantizationType[target.form.gguf or ""]
            writer.add_tensor_info(target.name, target.shape, np.dtype(np.float32), target.bytes, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        assert writer.fout is not None
        self._file = writer.fout[0]
        self.bytes = padded(self._file.tell()) + sum(padded(target.bytes) for target in targets)
        self._file.truncate(self.bytes)

    def write(self, blocks: Iterable[tuple[Target, Bytes]]) -> Iterator[int]:
        """Write the tensors' bytes, which come in the order of the targets; yields how many were written."""
        for _, pieces in groupby(blocks, key=lambda item: item[0].name):
            self._writer.write_padding(self._file, self._file.tell())
            for _, data in pieces:
                yield self._file.write(data.data)
        self._writer.write_padding(self._file, self._file.tell())
        assert self._file.tell() == self.bytes

    def close(self) -> None:
        """Write what is buffered, and close. Raises `OSError`."""
        self._writer.close()
