"""`strata-gen targets`: every kernel on every target is built or refused, and both are said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from strata_gen.cli.main import group
from strata_gen.model.specset import SpecSet
from strata_gen.model.support import support_matrix


def run(*arguments: str) -> str:
    result = CliRunner().invoke(group, ["targets", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def text() -> str:
    return run()


def test_there_is_a_cell_for_every_pair_and_a_reason_in_each_that_is_not_built(specs: SpecSet) -> None:
    cells = support_matrix(specs)
    pairs = {(cell.kernel.name, cell.target.backend, cell.target.name) for cell in cells}
    assert len(pairs) == len(cells) == len(specs.kernels) * len(specs.targets) > 0
    assert all(cell.refusal is None or cell.refusal.strip() for cell in cells)


def test_every_kernel_is_built_for_every_cpu_target_or_another_in_its_place(specs: SpecSet) -> None:
    cells = [cell for cell in support_matrix(specs) if cell.target.backend == "cpu"]
    built = {cell.kernel.name for cell in cells if cell.refusal is None}
    assert {cell.refusal for cell in cells} - {None} <= {f"{name} serves there" for name in built}
    assert {kernel.name for kernel in specs.kernels} - built == {"attend_tiles", "attend_square_tiles"}


def test_the_table_has_a_line_for_every_target_and_a_mark_for_every_kernel(specs: SpecSet, text: str) -> None:
    header, *lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    assert header.split()[1:-1] == [kernel.name for kernel in specs.kernels]
    assert len(lines) == len(specs.targets)
    for line in lines:
        marks = line.split()[2 : 2 + len(specs.kernels)]
        assert all(mark == "built" or mark.startswith("[") for mark in marks), line


def test_every_mark_of_a_refusal_is_explained_below_the_table(specs: SpecSet, text: str) -> None:
    for reason in {cell.refusal for cell in support_matrix(specs)} - {None}:
        assert f"refused: {reason}" in text


def test_gpus_stand_in_the_order_of_their_numbers(text: str) -> None:
    names = [line.split()[1] for line in text.splitlines() if line.startswith("cuda ")]
    assert names.index("sm_90") < names.index("sm_100") < names.index("sm_120")


def test_json_holds_the_same_cells(specs: SpecSet) -> None:
    rows = json.loads(run("--json"))
    assert len(rows) == len(specs.kernels) * len(specs.targets)
    assert all(row["built"] is (row["reason"] == "") for row in rows)
    assert {tuple(row) for row in rows} == {("backend", "target", "kernel", "built", "reason")}


def test_specs_without_kernels_still_list_their_targets(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "one.yaml").write_text(
        "backend: cuda\n"
        "sources: {guide: {title: Guide}}\n"
        "targets:\n"
        "  - name: sm_90\n"
        "    help: H100\n"
        "    wave_size: {value: 32, source: guide}\n"
        "    dot: dp4a\n"
        "    mapped_stores: system_fence\n"
        "    compilers: [{family: nvcc, minimum: {value: 13, source: guide}}]\n"
    )
    output = run("--specs-alone", "--specs", str(tmp_path))
    assert "cuda sm_90  H100" in output
    assert "0 pairs of kernel and target" in output


def test_a_kernel_is_refused_where_its_matrix_instruction_is_missing(specs: SpecSet) -> None:
    cells = {(cell.kernel.name, cell.target.name): cell.refusal for cell in support_matrix(specs)}
    assert cells["attend_tiles", "sm_75"] == "it has no m16n8k16 f16 f32: attend_window serves there"
    assert cells["attend_tiles", "sm_80"] is None
    assert cells["attend_tiles", "gfx1151"] == "attend_square_tiles serves there, or attend_window"
    assert cells["attend_square_tiles", "gfx1151"] is None
    assert cells["attend_square_tiles", "gfx1030"] == "it has no m16n16k16 f16 f32: attend_window serves there"
