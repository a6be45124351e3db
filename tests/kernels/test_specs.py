"""What specs of kernels can get wrong beside specs of other kinds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata_gen.diagnostics import SpecErrors
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(specs_root(), tmp_path / "specs")


def findings(root: Path) -> list[tuple[str, str, list[str]]]:
    with pytest.raises(SpecErrors) as refused:
        load_specs((root,))
    return [(each.code, each.message, [note.message for note in each.notes]) for each in refused.value.diagnostics]


def test_a_format_needs_a_tolerance_for_the_inputs_that_it_takes(root: Path) -> None:
    edit(root / "kernels/linear.yaml", "  - {activation: int8, bound: 4e-3}\n", "")
    message = "kernel 'linear' states no tolerance for int8 inputs"
    takers = [
        path.stem for path in sorted((root / "formats").glob("*.yaml")) if "activation: int8\n" in path.read_text()
    ]
    assert "q8_0" in takers
    assert findings(root) == [("N032", message, [f"format '{name}' takes them"]) for name in takers]


@pytest.mark.parametrize(
    ("knob", "message"),
    [
        ("pool.threads", "kernel 'rows_dot' is built per value of 'pool.threads', which is no compile-time knob"),
        ("window.wide", "kernel 'rows_dot' is built for 1 to 'window.wide' tokens, which is no whole number"),
        ("window.max_token", "kernel 'rows_dot' names knob 'window.max_token', which does not exist"),
    ],
)
def test_tokens_are_a_whole_number_that_is_known_when_compiling(root: Path, knob: str, message: str) -> None:
    with (root / "knobs/window.yaml").open("a", encoding="utf-8") as file:
        file.write(
            '  - {name: window.wide, type: bool, default: true, affects: compile, output: identical, since: "0.1", '
            "help: Whether windows are wide.}\n"
        )
    edit(root / "kernels/rows_dot.yaml", "tokens: window.max_tokens", f"tokens: {knob}")
    (found,) = findings(root)
    assert found[1] == message


def test_a_kernel_is_made_of_micro_kernels(root: Path) -> None:
    edit(
        root / "kernels/linear.yaml",
        "uses: [rows_dot, interleaved_dot, interleaved_dot_ahead, quantize_input]",
        "uses: [rows_dot, combine]",
    )
    message = "kernel 'linear' names micro-kernel 'combine', which does not exist"
    assert findings(root) == [("N030", message, [])]
