"""The relation language: what it holds, what it refuses, and that printing and parsing are inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_gen.diagnostics import Span
from strata_gen.edge.expr import ExprError, parse_expr
from strata_gen.model.expr import And, Compare, Constant, Expr, In, Name, Not, Or, names_in, show_expr

A, B, C = Name("a.a"), Name("b.b"), Name("c.c")


def locate(start: int, end: int) -> Span:
    return Span("f", 1, start + 1, end + 1)


def parse(text: str) -> Expr:
    return parse_expr(text, locate)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.a", A),
        ("not a.a", Not(A)),
        ("not not a.a", Not(Not(A))),
        ("a.a or b.b and c.c", Or((A, And((B, C))))),
        ("(a.a or b.b) and c.c", And((Or((A, B)), C))),
        ("a.a and b.b and c.c", And((A, B, C))),
        ("not a.a and b.b", And((Not(A), B))),
        ("not (a.a and b.b)", Not(And((A, B)))),
        ("not a.a == 1", Not(Compare("==", A, Constant(1)))),
        ("a.a!=unset", Compare("!=", A, Constant(None))),
        ("1.5 <= a.a", Compare("<=", Constant(1.5), A)),
        ("a.a == -3", Compare("==", A, Constant(-3))),
        ("a.a > 1e-3", Compare(">", A, Constant(0.001))),
        ("a.a < 512MiB", Compare("<", A, Constant(512 << 20, "B"))),
        ("a.a >= 1.5ms", Compare(">=", A, Constant(1_500_000, "ns"))),
        (r'a.a == "say \"hi\" \\"', Compare("==", A, Constant('say "hi" \\'))),
        ('a.a in ["x", 1, true]', In(A, (Constant("x"), Constant(1), Constant(True)))),
        ("a.a not in [1]", Not(In(A, (Constant(1),)))),
        ('a.a == "not"', Compare("==", A, Constant("not"))),
        ("  a.a\n", A),
        ("android.order and notes.inner", And((Name("android.order"), Name("notes.inner")))),
    ],
)
def test_precedence_and_literals(text: str, expected: Expr) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "start", "end", "hint"),
    [
        ("a.a = 1", 4, 5, "did you mean '=='?"),
        ("a.a && b.b", 4, 6, "write 'and'"),
        ("a.a || b.b", 4, 6, "write 'or'"),
        ("!a.a", 0, 1, "write 'not'"),
        ("a.a == 'x'", 7, 8, "text stands in double quotes"),
        ('a.a == "x', 7, 8, "the closing double quote is missing"),
        ("1 < a.a < 3", 8, 9, "join two comparisons with 'and'"),
        ("a.a in (1)", 7, 8, "choices stand in brackets: in [1, 2]"),
    ],
)
def test_a_mistake_from_another_language_gets_a_hint_at_its_place(text: str, start: int, end: int, hint: str) -> None:
    with pytest.raises(ExprError) as refused:
        parse(text)
    assert refused.value.span == locate(start, end)
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "and",
        "a.a and",
        "(a.a",
        "a.a)",
        "a.a b.b",
        "a.a in []",
        "a.a in [b.b]",
        "1 in [1]",
        "a",
        "a.a == 3x",
        "a.a == 1.2.3",
        "a.a == 0x10",
        "a.a + 1",
        "$",
        "a.a == 1,2",
        "a.a not b.b",
        "not",
        "in",
        '"x" in ["x"]',
        "a..b",
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str) -> None:
    with pytest.raises(ExprError):
        parse(text)


PART = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
NAMES = st.builds(lambda section, attribute: Name(f"{section}.{attribute}"), PART, PART)
CONSTANTS = st.one_of(
    st.builds(Constant, st.none() | st.booleans() | st.text() | st.integers()),
    st.builds(Constant, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(Constant, st.integers(), st.sampled_from(["B", "ns"])),
)
OPERANDS = NAMES | CONSTANTS
COMPARES = st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), OPERANDS, OPERANDS)
INS = st.builds(In, NAMES, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple))


EXPRS = st.recursive(
    OPERANDS | COMPARES | INS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(EXPRS)
def test_printing_then_parsing_gives_the_same_tree(expr: Expr) -> None:
    assert parse(show_expr(expr)) == expr


@given(EXPRS)
def test_printing_is_stable(expr: Expr) -> None:
    assert show_expr(parse(show_expr(expr))) == show_expr(expr)


@given(EXPRS)
def test_every_name_knows_where_it_stands(expr: Expr) -> None:
    text = show_expr(expr)
    for name in names_in(parse(text)):
        assert name.span is not None
        assert text[name.span.column - 1 : name.span.end_column - 1] == name.knob


@given(st.text(st.sampled_from("ab.01 ()[]\"=<>!,\\&|+-'andornotin\t\n"), max_size=30))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        expr = parse(text)
    except ExprError as problem:
        assert problem.span.column <= len(text) + 1
    else:
        assert parse(show_expr(expr)) == expr


def test_absurd_nesting_is_refused() -> None:
    with pytest.raises(ExprError, match="nested too deeply"):
        parse("(" * 5000 + "a.a" + ")" * 5000)
