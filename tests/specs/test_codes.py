"""The table of codes and the code that emits them agree, and every explanation is complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

import strata_gen
from strata_gen.codes import CODES
from strata_gen.edge import problems
from strata_gen.kinds import KINDS

PACKAGE = Path(strata_gen.__file__).parent
CODE = re.compile(r"[YKTFNMP][0-9]{3}")


def emitted_in(source: str) -> Iterator[str]:
    """Yield codes in one module: written out, or a number passed to a function that joins it with its letter."""
    tree = ast.parse(source)
    letters = re.findall(r'f"([YKTFNMP])\{\w+\}"', source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value
        if isinstance(node, ast.Call) and letters and node.args and isinstance(node.args[0], ast.Constant):
            number = node.args[0].value
            if isinstance(number, str) and re.fullmatch(r"[0-9]{3}", number):
                (letter,) = letters
                yield letter + number


def emitted() -> set[str]:
    sources = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "codes"]
    found = {code for path in sources for code in emitted_in(path.read_text(encoding="utf-8"))}
    shared = (problems.MISSING, problems.TYPE, problems.UNKNOWN, problems.CHOICE, problems.LIMIT, problems.OTHER)
    return found | {kind.prefix + number for kind in KINDS for number in shared}


def test_every_emitted_code_is_explained_and_every_explained_code_is_emitted() -> None:
    assert emitted() == set(CODES)


def test_the_scan_sees_both_ways_of_writing_a_code() -> None:
    assert set(emitted_in('sink.error("K012", m)\n')) == {"K012"}
    assert set(emitted_in('x = f"T{number}"\nself.error("031", m)\n')) == {"T031"}


@pytest.mark.parametrize("code", CODES)
def test_an_explanation_has_a_title_a_paragraph_and_two_different_examples(code: str) -> None:
    entry = CODES[code]
    assert entry.code == code
    assert entry.title
    assert not entry.title.endswith(".")
    assert entry.text.endswith(".")
    assert "\n" not in entry.text
    assert entry.wrong != entry.right
    shown = entry.render()
    assert shown.startswith(f"{code}: {entry.title}\n")
    assert max(map(len, shown.splitlines())) <= 120


def test_explain_prints_one_code_in_either_case(strata_gen: Callable[..., Result]) -> None:
    result = strata_gen("explain", "k012")
    assert result.exit_code == 0
    assert result.output == CODES["K012"].render() + "\n"


def test_explain_alone_lists_every_code(strata_gen: Callable[..., Result]) -> None:
    lines = strata_gen("explain").output.splitlines()
    assert [line.split()[0] for line in lines] == sorted(CODES)


@pytest.mark.parametrize(("code", "hint"), [("K0112", "did you mean 'K012'?"), ("nonsense", "lists every code")])
def test_explain_of_an_unknown_code(strata_gen: Callable[..., Result], code: str, hint: str) -> None:
    result = strata_gen("explain", code)
    assert result.exit_code == 2
    assert f"unknown code '{code}'" in result.stderr
    assert hint in result.stderr
