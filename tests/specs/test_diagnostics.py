"""Diagnostics are shown sorted, without repeats, at most twenty, in three formats."""

from __future__ import annotations

import json
import random

import pytest

from strata_gen.diagnostics import (
    Diagnostic,
    Note,
    Sink,
    Span,
    SpecErrors,
    did_you_mean,
    render_github,
    render_json,
    render_text,
)


def finding(line: int, message: str = "wrong", code: str = "K012", file: str = "specs/knobs/a.yaml") -> Diagnostic:
    return Diagnostic(code, message, Span(file, line, 3, 6, "  key: value"))


def test_order_does_not_depend_on_when_a_finding_was_made() -> None:
    findings = [finding(line, f"m{line % 3}", f"K01{line % 5}", f"specs/{line % 2}.yaml") for line in range(1, 20)]
    expected = SpecErrors(findings).diagnostics
    for seed in range(5):
        shuffled = random.Random(seed).sample(findings, len(findings))
        assert SpecErrors(shuffled).diagnostics == expected
    places = [(d.span.file, d.span.line) for d in expected]
    assert places == sorted(places)


def test_the_same_finding_is_shown_once() -> None:
    assert len(SpecErrors([finding(1), finding(1)]).diagnostics) == 1


def test_text_has_source_line_caret_label_and_note() -> None:
    note = Note("first given here", Span("specs/knobs/b.yaml", 7, 1, 2, "x: 1"))
    errors = SpecErrors(
        [Diagnostic("K012", "unknown key", Span("a.yaml", 14, 5, 12, "    defualt: 0"), "hint", (note,))]
    )
    assert render_text(errors).splitlines() == [
        "a.yaml:14:5: error[K012]: unknown key",
        "   14 |     defualt: 0",
        "      |     ^^^^^^^ hint",
        "specs/knobs/b.yaml:7:1: note: first given here",
        "    7 | x: 1",
        "      | ^",
        "1 error in the specs; 'strata-gen explain K012' says more",
    ]


def test_a_caret_stands_under_its_column_behind_tabs_and_in_long_lines() -> None:
    tab = render_text(SpecErrors([Diagnostic("K012", "m", Span("a", 1, 3, 4, "\t\tx"))])).splitlines()
    assert tab[2].partition("| ")[2] == "\t\t^"
    long = "y" * 500 + "X" + "z" * 500
    shown = render_text(SpecErrors([Diagnostic("K012", "m", Span("a", 1, 501, 502, long))])).splitlines()
    source, caret = (line.partition("| ")[2] for line in shown[1:3])
    assert source[caret.index("^")] == "X"
    assert len(source) <= 160


def test_text_stops_after_twenty_and_says_how_many_are_left() -> None:
    text = render_text(SpecErrors([finding(line) for line in range(1, 27)]))
    assert text.count("error[K012]") == 20
    assert "... and 6 more\n26 errors in the specs" in text


def test_json_has_every_finding() -> None:
    note = Note("see", Span("b.yaml", 2, 1, 2))
    errors = SpecErrors(
        [*(finding(line) for line in range(1, 30)), Diagnostic("Y001", "m", Span("a", 1, 1, 2), "l", (note,))]
    )
    rows = json.loads(render_json(errors))
    assert len(rows) == 30
    assert rows[0] == {
        "file": "a",
        "line": 1,
        "column": 1,
        "end_column": 2,
        "code": "Y001",
        "message": "m",
        "label": "l",
        "notes": [{"message": "see", "file": "b.yaml", "line": 2, "column": 1, "end_column": 2}],
    }


def test_github_commands_escape_what_would_end_them() -> None:
    odd = Diagnostic("K012", "50% of\n'a,b:c'", Span("specs/a,b:c.yaml", 3, 1, 4), "hint")
    assert render_github(SpecErrors([odd])) == (
        "::error file=specs/a%2Cb%3Ac.yaml,line=3,col=1,endColumn=4,title=K012::50%25 of%0A'a,b:c' (hint)"
    )


def test_a_sink_raises_only_when_something_was_found() -> None:
    sink = Sink()
    sink.raise_if_any()
    sink.error("K012", "m", Span("a", 1, 1, 2))
    with pytest.raises(SpecErrors):
        sink.raise_if_any()


@pytest.mark.parametrize(("word", "hint"), [("defualt", "did you mean 'default'?"), ("colour", "")])
def test_did_you_mean(word: str, hint: str) -> None:
    assert did_you_mean(word, ["default", "details", "help"]) == hint
