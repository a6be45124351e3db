"""Every bad spec in `bad/` is refused with exactly the text beside it.

`bad/KIND/NAME.yaml` is read as the only file of `specs/KIND/`; `bad/KIND/NAME.expected` is what a terminal shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.codes import CODES
from strata_gen.diagnostics import SpecErrors, render_text
from strata_gen.kinds import KINDS
from strata_gen.specs import load_specs

BAD = Path(__file__).parent / "bad"
CASES = sorted(BAD.glob("*/*.yaml"))
ELSEWHERE = {"Y007", "Y008"}  # of folders, not of a file's text: see test_load_specs


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_is_refused_with_exactly_this_text(case: Path, spec_root: Callable[..., Path]) -> None:
    root = spec_root({f"{case.parent.name}/{case.name}": case.read_bytes()})
    with pytest.raises(SpecErrors) as refused:
        load_specs([root])
    expected = case.with_suffix(".expected").read_text(encoding="utf-8")
    assert render_text(refused.value) + "\n" == expected


def test_there_are_enough_and_each_expectation_belongs_to_one() -> None:
    assert len([case for case in CASES if case.parent.name == "knobs"]) >= 40
    assert {case.with_suffix("") for case in CASES} == {path.with_suffix("") for path in BAD.glob("*/*.expected")}
    assert {case.parent.name for case in CASES} <= {kind.folder for kind in KINDS}


@pytest.mark.parametrize("letter", ["Y", "K"])
def test_every_code_has_a_bad_spec(letter: str) -> None:
    shown = {code for path in BAD.glob("*/*.expected") for code in re.findall(r"error\[(\w+)\]", path.read_text())}
    assert {code for code in CODES if code.startswith(letter)} - shown <= ELSEWHERE
