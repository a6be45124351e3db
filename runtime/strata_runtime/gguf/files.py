"""A model in GGUF: one file, or one that was split into `NAME-00001-of-00003.gguf` and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.gguf.metadata import Array, Metadata, shown
from strata_runtime.gguf.reader import Part, formats_by_name, open_part
from strata_runtime.gguf.tensors import ALIGNMENT_KEY, GgufTensor
from strata_runtime.gguf.types import BlockFormat

NUMBER_KEY = "split.no"
COUNT_KEY = "split.count"
TENSORS_KEY = "split.tensors.count"
_OF_ONE_PART = {NUMBER_KEY, ALIGNMENT_KEY}
_NAME = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5,})-of-(?P<count>[0-9]{5,})\.gguf")


@dataclass(frozen=True, slots=True, eq=False)
class GgufFile:
    """What was opened: the first part's metadata, and the tensors of all parts by name. `bytes`: size of all files."""

    path: Path
    metadata: Metadata
    tensors: Mapping[str, GgufTensor]
    parts: tuple[Path, ...]
    bytes: int


def part_name(path: Path, number: int, count: int) -> Path:
    """Name part `number` (from 0) of `count` after another at `path`. Raises `UserError` when its name is no part's."""
    match = _NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise UserError(
            f"{path}: the file is one of {count} parts, and must be named NAME-00001-of-{count:05}.gguf and so on "
            "for the others to be found: rename it as it was"
        )
    return path.with_name(f"{match['stem']}-{number + 1:05}-of-{count:05}.gguf")


def first_part(path: Path) -> Path:
    """Name the first part of a split file by any of them, going by names; a file that is not split is its own."""
    match = _NAME.fullmatch(path.name)
    first = path if match is None else part_name(path, 0, int(match["count"]))
    return first if first.exists() else path


def split_of(metadata: Metadata) -> tuple[int, int]:
    """Return (number of this part from 0, count of parts); (0, 1) for a whole file. Raises `UserError`."""
    count = metadata.whole(COUNT_KEY)
    number = metadata.whole(NUMBER_KEY)
    if count is None or count in {0, 1}:
        if number:
            raise metadata.wrong(NUMBER_KEY, f"0 in a file that is not split ('{COUNT_KEY}' is {count or 'missing'})")
        return 0, 1
    if not 0 < count < 1 << 16:
        raise metadata.wrong(COUNT_KEY, "from 0 to 65535")
    if number is None:
        raise UserError(f"{metadata.path}: '{NUMBER_KEY}' is missing, but '{COUNT_KEY}' is {count}")
    if not 0 <= number < count:
        raise metadata.wrong(NUMBER_KEY, f"from 0 to {count - 1}")
    return number, count


def _check_belongs(first: Part, part: Part, number: int, count: int) -> None:
    found, found_count = split_of(part.metadata)
    if (found, found_count) != (number, count):
        claims = f"part {found + 1} of {found_count}" if found_count > 1 else "not a part of a split file"
        raise UserError(f"{part.path}: must be part {number + 1} of {count}, but says it is {claims}: fetch it again")
    for key, value in part.metadata.items():
        own = first.metadata.get(key)
        # Parts repeat little. What they repeat must agree, or they come from different files.
        if key in _OF_ONE_PART or (isinstance(value, Array) and isinstance(own, Array) and value.raw == own.raw):
            continue
        if isinstance(value, Array) or value != own:
            raise UserError(f"{part.path}: '{key}' is not what it is in {first.path.name}: they belong to two files")


def _join(parts: list[Part]) -> dict[str, GgufTensor]:
    tensors: dict[str, GgufTensor] = {}
    for part in parts:
        for name, tensor in part.tensors.items():
            if name in tensors:
                raise UserError(f"{part.path}: the tensor '{name}' is also in {tensors[name].path.name}")
            tensors[name] = tensor
    return tensors


def _other_parts(first: Part, count: int, formats: Mapping[str, BlockFormat]) -> list[Part]:
    parts = [first]
    for number in range(1, count):
        path = part_name(first.path, number, count)
        if not path.exists():
            raise UserError(f"{first.path}: part {number + 1} of {count} is missing: fetch {path.name} too")
        part = open_part(path, formats)
        _check_belongs(first, part, number, count)
        parts.append(part)
    return parts


def open_gguf(path: Path, formats: Iterable[BlockFormat]) -> GgufFile:
    """Open a GGUF file and all its further parts; nothing but their tables is read. `formats`: what tensors may be in.

    Raises `UserError` when a file cannot be read, is not sound, or is not the first of its parts.
    """
    known = formats_by_name(formats)
    first = open_part(path, known)
    number, count = split_of(first.metadata)
    if number:
        begin = part_name(path, 0, count)
        raise UserError(f"{path}: this is part {number + 1} of {count}; open the first, {begin.name}")
    if count > 1 and part_name(path, 0, count).name != path.name:
        raise UserError(f"{path}: this is part 1 of {count}, but its name says otherwise: rename it as it was")
    parts = _other_parts(first, count, known)
    tensors = _join(parts)
    expected = first.metadata.whole(TENSORS_KEY)
    if expected is not None and expected != len(tensors):
        raise UserError(
            f"{path}: '{TENSORS_KEY}' is {shown(expected)}, but the files hold {len(tensors)} tensors: "
            "a part is of another file, fetch them again"
        )
    return GgufFile(
        path, first.metadata, tensors, tuple(part.path for part in parts), sum(part.bytes for part in parts)
    )
