"""What each kernel takes of a GPU, as compilers tell it, and the committed table that it is compared with."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from strata_gen.model.target import Backend
from strata_gen.paths import project_root

FIELDS: Mapping[Backend, tuple[str, ...]] = {
    Backend.CUDA: ("registers", "shared", "stack", "spilled"),
    Backend.HIP: ("sgprs", "vgprs", "agprs", "shared", "scratch", "spilled"),
}
"""Registers of a thread (of a wave: `sgprs`), and bytes; what HIP spills is counted in registers."""

_REGISTERS, _BYTES = 8, 16  # by which a figure may differ from the table's; shared memory is exact
_HIP_LINES = {
    "sgprs": r"SGPRs: (\d+)",
    "vgprs": r"VGPRs: (\d+)",
    "agprs": r"AGPRs: (\d+)",
    "shared": r"LDS Size \[bytes/block\]: (\d+)",
    "scratch": r"ScratchSize \[bytes/lane\]: (\d+)",
}

Figures = tuple[int, ...]
Table = dict[str, dict[str, Figures]]
"""Figures by kernel and architecture."""


def table_path(backend: Backend) -> Path:
    return project_root() / "tests" / "device" / "resources" / f"{backend}.csv"


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def _of_ptxas(said: str) -> dict[str, Figures]:
    found = {}
    for text in said.split("Compiling entry function ")[1:]:
        name = text.split("'")[1]
        spilled = sum(int(each) for each in re.findall(r"(\d+) bytes spill", text))
        figures = [_number(pattern, text) for pattern in (r"Used (\d+) reg", r"(\d+) bytes smem", r"(\d+) bytes stack")]
        found[name] = (*figures, spilled)
    return found


def _of_clang(said: str) -> dict[str, Figures]:
    found = {}
    for text in said.split("Function Name: ")[1:]:
        figures = [_number(pattern, text) for pattern in _HIP_LINES.values()]
        spilled = _number(r"SGPRs Spill: (\d+)", text) + _number(r"VGPRs Spill: (\d+)", text)
        found[text.split()[0]] = (*figures, spilled)
    return found


def _short(name: str) -> str:
    """`void strata::simt::entry<strata::device::ToFloats<strata::formats::Q4_0Format> >(...)` is `ToFloats<Q4_0>`."""
    kernel = name.partition("entry<")[2].partition(">(")[0].strip()
    return re.sub(r"strata::(\w+::)?|Format\b| (?=>)", "", kernel)


def read_figures(backend: Backend, said: str) -> dict[str, Figures]:
    """Read the figures of every kernel from what a compiler said, by the kernels' short names."""
    found = _of_ptxas(said) if backend is Backend.CUDA else _of_clang(said)
    if not found:
        return {}
    names = subprocess.run(["c++filt", *found], capture_output=True, text=True, check=True).stdout.splitlines()
    return {_short(name): figures for name, figures in zip(names, found.values(), strict=True)}


def read_table(backend: Backend) -> Table:
    """Read the committed table; empty when there is none."""
    path = table_path(backend)
    if not path.is_file():
        return {}
    rows = csv.DictReader(io.StringIO(path.read_text()))
    table: Table = {}
    for row in rows:
        kernel = row.pop("kernel")
        table[kernel] = {arch: tuple(map(int, cell.split("/"))) for arch, cell in row.items() if cell}
    return table


def write_table(backend: Backend, table: Table, archs: Iterable[str]) -> None:
    """Write a table with a column for each architecture; cells are figures in the order of `FIELDS`."""
    columns = list(archs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kernel", *columns])
    for kernel in sorted(table):
        cells = ("/".join(map(str, table[kernel].get(arch, ()))) for arch in columns)
        writer.writerow([kernel, *cells])
    table_path(backend).parent.mkdir(exist_ok=True)
    table_path(backend).write_text(text.getvalue())


def unknown(known: Table, archs: Iterable[str]) -> list[str]:
    """Return the architectures that the table has no figures of."""
    return [arch for arch in archs if not any(arch in cells for cells in known.values())]


def _tolerance(field: str) -> int:
    if field == "shared":
        return 0
    return _REGISTERS if field.endswith(("registers", "gprs")) else _BYTES


def differences(backend: Backend, known: Table, found: Table, archs: Iterable[str]) -> list[str]:
    """Say where kernels are not as the table has them, a line each: beyond tolerances, missing, or not in it.

    Of an architecture without any figure in the table nothing is said: see `unknown`.
    """
    lines = []
    for arch in archs:
        before = {kernel: cells[arch] for kernel, cells in known.items() if arch in cells}
        now = {kernel: cells[arch] for kernel, cells in found.items() if arch in cells}
        if not before:
            continue
        lines += [f"{arch} {kernel}: is in the table, and was not compiled" for kernel in before.keys() - now.keys()]
        lines += [f"{arch} {kernel}: is not in the table" for kernel in now.keys() - before.keys()]
        for kernel in before.keys() & now.keys():
            for field, old, new in zip(FIELDS[backend], before[kernel], now[kernel], strict=True):
                if abs(new - old) > _tolerance(field):
                    lines.append(f"{arch} {kernel}: {field} {new}, and {old} in the table")
    return sorted(lines)
