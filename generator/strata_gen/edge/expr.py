"""Text of the relation language to its syntax tree. Nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal as OneOf
from typing import NamedTuple, get_args

from strata_gen.diagnostics import Span
from strata_gen.model.expr import And, Compare, CompareOp, Constant, Expr, In, Name, Not, Or, Unit
from strata_gen.model.units import BYTE_UNITS, DURATION_UNITS, parse_bytes, parse_duration

Locate = Callable[[int, int], Span]
"""Span of the characters from `start` up to `end` of the expression's text."""

_Kind = OneOf["name", "number", "quantity", "text", "word", "op", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![0-9A-Za-z_.]))
    | (?P<quantity>-?[0-9]+(?:\.[0-9]+)?[A-Za-z]+(?![0-9A-Za-z_.]))
    | (?P<text>"(?:[^"\\]|\\["\\])*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<op>==|!=|<=|>=|<|>|\(|\)|\[|\]|,)
    )""",
    re.VERBOSE,
)
_FOREIGN = {
    "&&": "write 'and'",
    "||": "write 'or'",
    "!": "write 'not'",
    "=": "did you mean '=='?",
    "'": "text stands in double quotes",
    '"': "the closing double quote is missing",
}
_QUOTES = ("'", '"')
_KEYWORDS = frozenset({"and", "or", "not", "in", "true", "false", "unset"})
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "unset": None}


class ExprError(Exception):
    """Text that is not in the relation language: what is wrong, where, and a hint for behind the caret."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        self.message, self.span, self.hint = message, span, hint
        super().__init__(message)


class _Token(NamedTuple):
    kind: _Kind
    text: str
    start: int
    end: int


def _tokens(text: str, locate: Locate) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            rest = text[start:]
            foreign = next((sign for sign in _FOREIGN if rest.startswith(sign)), "")
            shown = foreign or rest.split()[0]
            raise ExprError(
                f"{shown if shown in _QUOTES else repr(shown)} is not part of the relation language",
                locate(start, start + len(shown)),
                _FOREIGN.get(foreign, ""),
            )
        kind = match.lastgroup
        assert kind is not None
        tokens.append(_Token(kind, match[kind], *match.span(kind)))  # type: ignore[arg-type]
        at = match.end()
    return [*tokens, _Token("end", "the end", len(text), len(text))]


class _Parser:
    def __init__(self, tokens: Sequence[_Token], locate: Locate) -> None:
        self.tokens, self.locate, self.position = tokens, locate, 0

    @property
    def here(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        token = self.here
        self.position += 1
        return token

    def accept(self, *texts: str) -> _Token | None:
        return self.take() if self.here.kind in ("word", "op") and self.here.text in texts else None

    def expect(self, text: str, hint: str = "") -> None:
        if self.accept(text) is None:
            raise self.unexpected(f"'{text}'", hint)

    def span(self, token: _Token) -> Span:
        return self.locate(token.start, max(token.end, token.start + 1))

    def unexpected(self, wanted: str, hint: str = "") -> ExprError:
        shown = self.here.text if self.here.kind == "end" else f"'{self.here.text}'"
        return ExprError(f"expected {wanted}, found {shown}", self.span(self.here), hint)

    def joined(self, word: str, part: Callable[[], Expr], make: type[And] | type[Or]) -> Expr:
        terms = [part()]
        while self.accept(word):
            terms.append(part())
        return terms[0] if len(terms) == 1 else make(tuple(terms))

    def condition(self) -> Expr:
        return self.joined("or", self.conjunction, Or)

    def conjunction(self) -> Expr:
        return self.joined("and", self.negation, And)

    def negation(self) -> Expr:
        return Not(self.negation()) if self.accept("not") else self.comparison()

    def comparison(self) -> Expr:
        if self.accept("("):
            inner = self.condition()
            self.expect(")")
            return inner
        left = self.operand()
        if self.here.text == "not" and self.tokens[self.position + 1].text == "in":
            self.take()
            return Not(self.membership(left))
        if self.here.kind == "word" and self.here.text == "in":
            return self.membership(left)
        if op := self.accept(*get_args(CompareOp)):
            right = self.operand()
            if again := self.accept(*get_args(CompareOp)):
                raise ExprError("comparisons do not chain", self.span(again), "join two comparisons with 'and'")
            return Compare(op.text, left, right)  # type: ignore[arg-type]
        return left

    def membership(self, left: Name | Constant) -> In:
        word = self.take()
        if not isinstance(left, Name):
            raise ExprError("the left side of 'in' must be the name of a knob", self.span(word))
        self.expect("[", "choices stand in brackets: in [1, 2]")
        choices = [self.literal()]
        while self.accept(","):
            choices.append(self.literal())
        self.expect("]")
        return In(left, tuple(choices))

    def literal(self) -> Constant:
        if self.here.kind == "name":
            raise self.unexpected("a literal", "text stands in double quotes")
        operand = self.operand()
        assert isinstance(operand, Constant)
        return operand

    def operand(self) -> Name | Constant:
        token = self.here
        span = self.span(token)
        match token.kind:
            case "name":
                operand: Name | Constant = Name(token.text, span)
            case "text":
                operand = Constant(re.sub(r"\\(.)", r"\1", token.text[1:-1]), "", span)
            case "number":
                plain = token.text.lstrip("-").isdigit()
                operand = Constant(int(token.text) if plain else float(token.text), "", span)
            case "quantity":
                operand = self.quantity(token, span)
            case "word" if token.text in _LITERALS:
                operand = Constant(_LITERALS[token.text], "", span)
            case "word" if token.text not in _KEYWORDS:
                hint = f'a knob is named section.attribute; text stands in double quotes: "{token.text}"'
                raise ExprError(f"'{token.text}' is neither a knob nor a literal", span, hint)
            case _:
                raise self.unexpected("a knob or a literal")
        self.take()
        return operand

    def quantity(self, token: _Token, span: Span) -> Constant:
        unit = token.text.lstrip("-0123456789.")
        base: Unit = "B" if unit in BYTE_UNITS else "ns"
        try:
            return Constant((parse_bytes if base == "B" else parse_duration)(token.text), base, span)
        except ValueError:
            units = ", ".join((*BYTE_UNITS, *DURATION_UNITS))
            raise ExprError(f"'{token.text}' is not a quantity", span, f"units are {units}") from None


def parse_expr(text: str, locate: Locate) -> Expr:
    """Parse one expression. Raises `ExprError` at the first place that is not in the language."""
    parser = _Parser(_tokens(text, locate), locate)
    try:
        expr = parser.condition()
    except RecursionError:
        raise ExprError("nested too deeply", locate(0, len(text))) from None
    if parser.here.kind != "end":
        raise parser.unexpected("'and', 'or' or the end")
    return expr
