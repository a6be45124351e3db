"""The relation language: names of knobs, literals, comparisons, `and`/`or`/`not`, `in`.

    condition  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = operand [ op operand | ["not"] "in" "[" literal { "," literal } "]" ] | "(" condition ")"
    operand    = NAME | literal
    literal    = "text" | number | number UNIT | true | false | unset

Bytes and durations are written with their unit (`512MiB`, `250ms`) and held in bytes and nanoseconds. While a knob
is unset, it equals `unset` alone, and every ordering comparison with it is false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from strata_gen.diagnostics import Span

CompareOp = OneOf["==", "!=", "<", "<=", ">", ">="]
Unit = OneOf["", "B", "ns"]


@dataclass(frozen=True, slots=True)
class Name:
    """The value of a knob, by its dotted name. As a condition of its own, it must be a bool knob."""

    knob: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: text in double quotes, a number, `true`, `false`, or `unset` (the value of a knob without one).

    `unit` is the base unit of a number that was written with one: `B` or `ns`.
    """

    value: str | int | float | bool | None
    unit: Unit = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`."""

    op: CompareOp
    left: Name | Constant
    right: Name | Constant


@dataclass(frozen=True, slots=True)
class In:
    """`name in ["a", "b"]`."""

    name: Name
    choices: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`not term`."""

    term: Expr


@dataclass(frozen=True, slots=True)
class And:
    """`left and right and ...`."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """`left or right or ...`."""

    terms: tuple[Expr, ...]


Expr = Name | Constant | Compare | In | Not | And | Or


def names_in(expr: Expr) -> Iterator[Name]:
    """Yield every knob name in `expr`, from left to right, repeats included."""
    match expr:
        case Name():
            yield expr
        case Compare(_, left, right):
            yield from (side for side in (left, right) if isinstance(side, Name))
        case In(name, _):
            yield name
        case Not(term):
            yield from names_in(term)
        case And(terms) | Or(terms):
            for term in terms:
                yield from names_in(term)
        case Constant():
            return


def _show_constant(constant: Constant) -> str:
    match constant.value:
        case None:
            return "unset"
        case bool():
            return "true" if constant.value else "false"
        case str():
            return '"' + constant.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return f"{constant.value!r}{constant.unit}"


def show_expr(expr: Expr) -> str:
    """Write `expr` in the relation language, with no more parentheses than needed; parsing it gives `expr` again."""

    def inner(term: Expr, *loose: type[Expr]) -> str:
        return f"({show_expr(term)})" if isinstance(term, loose) else show_expr(term)

    match expr:
        case Name(knob):
            return knob
        case Constant():
            return _show_constant(expr)
        case Compare(op, left, right):
            return f"{show_expr(left)} {op} {show_expr(right)}"
        case In(name, choices):
            return f"{name.knob} in [{', '.join(map(_show_constant, choices))}]"
        case Not(term):
            return f"not {inner(term, And, Or)}"
        case And(terms):
            return " and ".join(inner(term, And, Or) for term in terms)
        case Or(terms):
            return " or ".join(inner(term, Or) for term in terms)
