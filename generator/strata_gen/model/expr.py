"""The relation language: names of knobs, literals, comparisons, `and`/`or`/`not`, `in`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

CompareOp = OneOf["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Name:
    """The value of a knob, by its dotted name. As a condition of its own, it must be a bool knob."""

    knob: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: text in double quotes, a number, `true`, `false`, or `unset` (the value of a knob without one)."""

    value: str | int | float | bool | None


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
