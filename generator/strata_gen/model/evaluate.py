"""Whether a condition of the relation language holds for given values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from strata_gen.model.expr import And, Compare, Constant, Expr, In, Name, Not, Or
from strata_gen.model.knob import KnobValue

_ORDERINGS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _value(operand: Name | Constant, values: Mapping[str, KnobValue]) -> KnobValue:
    return values[operand.knob] if isinstance(operand, Name) else operand.value


def _compare(expr: Compare, values: Mapping[str, KnobValue]) -> bool:
    left, right = _value(expr.left, values), _value(expr.right, values)
    if expr.op in _ORDERINGS:
        return left is not None and right is not None and _ORDERINGS[expr.op](left, right)
    return (left == right) is (expr.op == "==")


def holds(expr: Expr, values: Mapping[str, KnobValue]) -> bool:
    """Evaluate a type-checked condition. `values` has every knob in it; an ordering with an unset one is false."""
    match expr:
        case Name() | Constant():
            return _value(expr, values) is True
        case Compare():
            return _compare(expr, values)
        case In(name, choices):
            return _value(name, values) in [choice.value for choice in choices]
        case Not(term):
            return not holds(term, values)
        case And(terms):
            return all(holds(term, values) for term in terms)
        case Or(terms):
            return any(holds(term, values) for term in terms)
