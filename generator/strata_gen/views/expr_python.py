"""Conditions of the relation language as Python expressions over `v`, the mapping of dotted names to values."""

from __future__ import annotations

from collections.abc import Container

from strata_gen.model.expr import And, Compare, Constant, Expr, In, Name, Not, Or, names_in

_ORDERINGS = ("<", "<=", ">", ">=")


def to_python(expr: Expr, may_be_unset: Container[str]) -> str:
    """Return a Python expression of type bool.

    `may_be_unset` names the knobs that can hold None: an ordering with one of them is false while it is unset.
    """
    match expr:
        case Name() | Constant():
            return _operand(expr)
        case Compare():
            return _compare(expr, may_be_unset)
        case In(name, choices):
            return f"{_operand(name)} in ({', '.join(map(_operand, choices))},)"
        case Not(term):
            return f"not ({to_python(term, may_be_unset)})"
        case And(terms):
            return " and ".join(f"({to_python(term, may_be_unset)})" for term in terms)
        case Or(terms):
            return " or ".join(f"({to_python(term, may_be_unset)})" for term in terms)


def _operand(operand: Name | Constant) -> str:
    return f"v[{operand.knob!r}]" if isinstance(operand, Name) else repr(_plain(operand.value))


def _plain(value: str | int | float | bool | None) -> str | int | float | bool | None:
    """Drop what the loader attaches to numbers."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return int(value) if isinstance(value, int) else float(value)


def _compare(expr: Compare, may_be_unset: Container[str]) -> str:
    if expr.op in _ORDERINGS:
        guards = [f"{_operand(name)} is not None and " for name in names_in(expr) if name.knob in may_be_unset]
        return f"{''.join(guards)}{_operand(expr.left)} {expr.op} {_operand(expr.right)}"
    # `is` for None and bool: 1 == True in Python, and linters ask for it.
    identity = any(isinstance(side, Constant) and (side.value is None or isinstance(side.value, bool))
                   for side in (expr.left, expr.right))  # fmt: skip
    op = {"==": "is", "!=": "is not"}[expr.op] if identity else expr.op
    return f"{_operand(expr.left)} {op} {_operand(expr.right)}"
