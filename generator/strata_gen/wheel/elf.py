"""What a shared object needs and offers, read from its own tables."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata_gen.errors import GeneratorError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_VERSION_NEED = struct.Struct("<HHIII")
_VERSION_AUX = struct.Struct("<IHHII")
_MACHINES = {62: "x86_64", 183: "aarch64"}
_NO_BITS, _NEEDED = 8, 1


@dataclass(frozen=True, slots=True)
class SharedObject:
    """The dynamic side of one ELF file.

    `needed` are the libraries that it loads, `versions` the symbol versions that it asks them for (`GLIBC_2.34`),
    `imported` and `exported` the names of its dynamic symbols, `sections` the bytes of every section by its name.
    """

    machine: str
    needed: tuple[str, ...]
    versions: frozenset[str]
    imported: frozenset[str]
    exported: frozenset[str]
    sections: Mapping[str, bytes]


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _read_sections(data: bytes) -> tuple[int, dict[str, bytes]]:
    head = _HEADER.unpack_from(data)
    machine, table, size, count, names_at = head[2], head[6], head[11], head[12], head[13]
    rows = [_SECTION.unpack_from(data, table + size * number) for number in range(count)]
    names = data[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
    contents = {_text(names, row[0]): b"" if row[1] == _NO_BITS else data[row[4] : row[4] + row[5]] for row in rows}
    return machine, contents


def _version_names(needs: bytes, strings: bytes) -> Iterator[str]:
    at = 0
    while needs:
        _, count, _, first, further = _VERSION_NEED.unpack_from(needs, at)
        aux = at + first
        for _ in range(count):
            _, _, _, name, to_next = _VERSION_AUX.unpack_from(needs, aux)
            yield _text(strings, name)
            aux += to_next
        if not further:
            return
        at += further


def read_shared_object(data: bytes, name: str) -> SharedObject:
    """Read a 64-bit little-endian ELF file; `name` is for messages. Raises `GeneratorError` for anything else."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise GeneratorError("not a 64-bit ELF file", where=name)
    try:
        machine, sections = _read_sections(data)
        strings = sections[".dynstr"]
        symbols = [(_text(strings, row[0]), row[3]) for row in _SYMBOL.iter_unpack(sections[".dynsym"])]
        dynamic = list(_DYNAMIC.iter_unpack(sections[".dynamic"]))
        versions = frozenset(_version_names(sections.get(".gnu.version_r", b""), strings))
    except (struct.error, KeyError, IndexError, OverflowError, ValueError) as problem:
        raise GeneratorError("an ELF file that cannot be read", where=name) from problem
    return SharedObject(
        _MACHINES.get(machine, f"machine {machine}"),
        tuple(_text(strings, value) for tag, value in dynamic if tag == _NEEDED),
        versions,
        frozenset(symbol for symbol, section in symbols if symbol and not section),
        frozenset(symbol for symbol, section in symbols if symbol and section),
        sections,
    )
