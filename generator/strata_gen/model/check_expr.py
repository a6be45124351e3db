"""Types in relations: every name is a knob, and both sides of a comparison can be compared."""

from __future__ import annotations

from collections.abc import Mapping

from strata_gen.diagnostics import Note, Sink, Span, did_you_mean
from strata_gen.model.expr import And, Compare, Constant, Expr, In, Name, Not, Or, show_expr
from strata_gen.model.knob import Knob, KnobType, Relation

Knobs = Mapping[str, Knob]

_CONSTANTS: Mapping[KnobType, tuple[type, ...]] = {
    KnobType.BOOL: (bool,),
    KnobType.INT: (int,),
    KnobType.FLOAT: (int, float),
    KnobType.ENUM: (str,),
    KnobType.STR: (str,),
    KnobType.BYTES: (int,),
    KnobType.DURATION: (int,),
    KnobType.PATH: (str,),
    KnobType.LIST: (),
}
_UNITS: Mapping[KnobType, str] = {KnobType.BYTES: "B", KnobType.DURATION: "ns"}
_COMPARABLE = (
    {KnobType.INT, KnobType.FLOAT},
    {KnobType.STR, KnobType.PATH, KnobType.ENUM},
    {KnobType.BOOL},
    {KnobType.BYTES},
    {KnobType.DURATION},
)
_ORDERED = {KnobType.INT, KnobType.FLOAT, KnobType.BYTES, KnobType.DURATION}


def _word(constant: Constant) -> str:
    match constant.value:
        case None:
            return "unset"
        case bool():
            return "true or false"
        case str():
            return "text"
        case float():
            return "a number"
        case _:
            return {"": "a whole number", "B": "a size", "ns": "a time"}[constant.unit]


class _Checker:
    def __init__(self, owner: str, relation: Relation, knobs: Knobs, sink: Sink) -> None:
        self.owner, self.relation, self.knobs, self.sink = owner, relation, knobs, sink

    def error(self, code: str, message: str, span: Span | None, hint: str = "", about: Knob | None = None) -> None:
        notes = (Note(f"'{about.name}' is of type {about.type}", about.span),) if about else ()
        where = span if span is not None else self.relation.span
        self.sink.error(code, f"{message} in a relation of {self.owner}", where, hint, notes)

    def knob(self, name: Name) -> Knob | None:
        knob = self.knobs.get(name.knob)
        if knob is None:
            self.error("K031", f"unknown knob '{name.knob}'", name.span, did_you_mean(name.knob, self.knobs))
        return knob

    def condition(self, expr: Expr) -> None:
        match expr:
            case Name():
                knob = self.knob(expr)
                if knob is not None and knob.type is not KnobType.BOOL:
                    self.error("K034", f"'{knob.name}' is no condition", expr.span, "compare it with a value", knob)
            case Constant():
                self.error("K034", f"the literal {show_expr(expr)} is no condition", expr.span, "name a knob")
            case Compare():
                self.comparison(expr)
            case In(name, choices):
                knob = self.knob(name)
                if knob is not None:
                    for choice in choices:
                        self.with_constant(knob, choice)
            case Not(term):
                self.condition(term)
            case And(terms) | Or(terms):
                for term in terms:
                    self.condition(term)

    def comparison(self, expr: Compare) -> None:
        match expr.left, expr.right:
            case Constant() as left, Constant():
                self.error("K032", "a comparison of two literals", left.span, "one side names a knob")
            case Name() as left, Name() as right:
                self.two_knobs(expr, left, right)
            case (Name() as name, Constant() as constant) | (Constant() as constant, Name() as name):
                knob = self.knob(name)
                if knob is not None:
                    self.order(expr, knob, constant.value is None, name)
                    self.with_constant(knob, constant)

    def order(self, expr: Compare, knob: Knob, with_unset: bool, name: Name) -> None:
        if expr.op not in ("==", "!=") and (knob.type not in _ORDERED or with_unset):
            what = "unset" if with_unset else f"a knob of type {knob.type}"
            self.error("K032", f"{what} has no order for '{expr.op}'", name.span, "use == or !=", knob)

    def two_knobs(self, expr: Compare, left: Name, right: Name) -> None:
        first, second = self.knob(left), self.knob(right)
        if first is None or second is None:
            return
        self.order(expr, first, False, left)
        if not any({first.type, second.type} <= alike for alike in _COMPARABLE):
            message = f"'{first.name}' ({first.type}) cannot be compared with '{second.name}' ({second.type})"
            self.error("K032", message, right.span, about=second)

    def with_constant(self, knob: Knob, constant: Constant) -> None:
        value = constant.value
        if value is None:
            return
        fits = type(value) in _CONSTANTS[knob.type] and constant.unit in ("", _UNITS.get(knob.type, ""))
        if not fits:
            hint = "a list can be compared with unset alone" if knob.type is KnobType.LIST else ""
            message = f"'{knob.name}' is of type {knob.type} and cannot be compared with {_word(constant)}"
            self.error("K032", message, constant.span, hint, knob)
        elif knob.type is KnobType.ENUM and value not in knob.choices:
            message = f"'{value}' is not a choice of '{knob.name}' ({', '.join(knob.choices)})"
            self.error("K033", message, constant.span, did_you_mean(str(value), knob.choices))


def check_relation(owner: str, relation: Relation, knobs: Knobs, sink: Sink) -> None:
    """Report what does not type-check in one relation of `owner` ("knob 'verify.ecap'")."""
    _Checker(owner, relation, knobs, sink).condition(relation.condition)
