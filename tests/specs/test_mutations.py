"""Whatever is done to a spec file, reading it ends in specs or in findings: never in another exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_gen.diagnostics import Sink, SpecErrors, render_github, render_json, render_text
from strata_gen.edge.base import SpecKind, read_edges
from strata_gen.kinds import KINDS
from strata_gen.load.document import parse_document
from strata_gen.paths import specs_root
from strata_gen.specs import spec_files

TEXTS = {kind.name: [path.read_text() for path in spec_files(specs_root(), kind)] for kind in KINDS}
TOKENS = ["", "~", "[]", "{}", "-1", "0", "1e999", ".nan", "true", "no", '"', "x", "[[1]]", "{a: {b: 1}}", "9" * 40]
TOKENS += ["a.b == 3", "hidden_size * hidden_size", "\t", "- ", ": ", "é\u2028"]


@st.composite
def mutated(draw: st.DrawFn, kind: SpecKind[Any, Any]) -> str:
    lines = draw(st.sampled_from(TEXTS[kind.name])).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["drop", "double", "swap", "value", "insert", "cut"]))
        if what == "drop" and len(lines) > 1:
            del lines[at]
        elif what == "double":
            lines.insert(at, lines[at])
        elif what == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif what == "value":
            lines[at] = lines[at].partition(":")[0] + ": " + draw(st.sampled_from(TOKENS))
        elif what == "insert":
            column = draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:column] + draw(st.sampled_from(TOKENS)) + lines[at][column:]
        else:
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
    return "\n".join(lines)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_spec_gives_findings(kind: SpecKind[Any, Any], data: st.DataObject) -> None:
    sink = Sink()
    document = parse_document(data.draw(mutated(kind)), f"specs/{kind.folder}/{Path('x.yaml')}", sink)
    if document is not None:
        read_edges(kind, (document,), sink)
    else:
        assert sink.diagnostics
    if sink.diagnostics:
        errors = SpecErrors(sink.diagnostics)
        assert all(render(errors) for render in (render_text, render_json, render_github))
