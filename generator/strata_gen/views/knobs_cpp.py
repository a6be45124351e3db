"""Views of knobs in C++: the struct, its defaults, and the table behind the parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata_gen.model.knob import Affects, Invalid, Knob, KnobType, KnobValue, Range


@dataclass(frozen=True, slots=True)
class EnumerationView:
    """The enum class of one knob."""

    knob: str
    type: str
    enumerators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConstantView:
    """One `compile` knob."""

    name: str
    type: str
    value: str
    help: str


@dataclass(frozen=True, slots=True)
class FieldView:
    """One run-time knob in the struct."""

    name: str
    type: str
    help: str


@dataclass(frozen=True, slots=True)
class HeaderView:
    """What `knobs.hpp` holds."""

    enumerations: tuple[EnumerationView, ...]
    constants: tuple[ConstantView, ...]
    fields: tuple[FieldView, ...]


@dataclass(frozen=True, slots=True)
class ChoicesView:
    """The words of one enum knob, as an array named `words`."""

    words: str
    size: int
    choices: str


@dataclass(frozen=True, slots=True)
class NamedView:
    """The words that stand for values of one number, as an array named `words` of pairs."""

    words: str
    type: str
    size: int
    pairs: str


@dataclass(frozen=True, slots=True)
class EntryView:
    """A row of the parser's table. `parse` and `print` are C++ expressions over `name`, `word` and `knobs`."""

    name: str
    variable: str
    default_when_invalid: str
    field: str
    parse: str
    print: str


@dataclass(frozen=True, slots=True)
class SourceView:
    """What `knobs.cpp` holds."""

    enumerations: tuple[ChoicesView, ...]
    named: tuple[NamedView, ...]
    entries: tuple[EntryView, ...]
    initializers: tuple[str, ...]
    size: int


_TYPES = {
    KnobType.BOOL: "bool",
    KnobType.INT: "std::int64_t",
    KnobType.FLOAT: "double",
    KnobType.STR: "std::string",
    KnobType.BYTES: "std::int64_t",
    KnobType.DURATION: "std::int64_t",
    KnobType.PATH: "std::string",
    KnobType.LIST: "std::vector<std::string>",
}
# Suffix of the functions `parse_...` and `show_...` in knob_text.hpp.
_FUNCTIONS = {
    KnobType.BOOL: "bool",
    KnobType.INT: "int",
    KnobType.FLOAT: "float",
    KnobType.STR: "text",
    KnobType.BYTES: "bytes",
    KnobType.DURATION: "duration",
    KnobType.PATH: "text",
    KnobType.LIST: "list",
}
_RANGED = (KnobType.INT, KnobType.FLOAT, KnobType.BYTES, KnobType.DURATION)
_SMALLEST_INT64 = -(2**63)


def cpp_string(text: str) -> str:
    """Return a C++ string literal. Bytes beyond printable ASCII are octal escapes, which end by themselves."""
    plain = {ord("\\"): "\\\\", ord('"'): '\\"'}
    return '"' + "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'


def _enum_type(knob: Knob) -> str:
    return "".join(part.capitalize() for part in knob.field.split("_"))


def _enumerator(choice: str) -> str:
    word = "".join(c if c.isalnum() else "_" for c in choice)
    return f"k{word[:1].upper()}{word[1:]}"


def _words(knob: Knob) -> str:
    return f"k{_enum_type(knob)}"


def _plain_type(knob: Knob) -> str:
    return _enum_type(knob) if knob.type is KnobType.ENUM else _TYPES[knob.type]


def _literal(knob: Knob, value: KnobValue) -> str:
    match value:
        case None:
            return "std::nullopt"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(knob, value)
        case str() if knob.type is KnobType.ENUM:
            return f"{_enum_type(knob)}::{_enumerator(value)}"
        case str():
            return cpp_string(value)
        case tuple():
            return f"{_TYPES[KnobType.LIST]}{{{', '.join(map(cpp_string, value))}}}"


def _number(knob: Knob, value: int | float) -> str:
    if knob.type is KnobType.FLOAT:
        return repr(float(value))
    # The literal -9223372036854775808 is a minus sign before a number that does not fit.
    return "INT64_MIN" if value == _SMALLEST_INT64 else repr(int(value))


def _range(knob: Knob) -> str:
    bounds = ((name, getattr(knob.range, name)) for name in Range.__slots__)
    return ", ".join(f".{name} = {_number(knob, value)}" for name, value in bounds if value is not None)


def _parse(knob: Knob) -> str:
    if knob.type is KnobType.ENUM:
        return f"static_cast<{_enum_type(knob)}>(text::parse_choice(name, word, {_words(knob)}))"
    bounds = f", {{{_range(knob)}}}" if knob.type in _RANGED else ""
    parse = f"text::parse_{_FUNCTIONS[knob.type]}(name, word{bounds})"
    return f"text::word_or(word, {_words(knob)}, [&] {{ return {parse}; }})" if knob.words else parse


def _print(knob: Knob) -> str:
    field = f"knobs.{knob.field}"
    value = "value" if knob.default is None else field
    match knob.type:
        case KnobType.ENUM:
            shown = f"std::string({_words(knob)}[static_cast<std::size_t>({value})])"
        case KnobType.STR | KnobType.PATH:
            shown = value
        case _:
            show = f"text::show_{_FUNCTIONS[knob.type]}"
            shown = f"text::show_word_or({value}, {_words(knob)}, &{show})" if knob.words else f"{show}({value})"
    return f"print_if_set({field}, [](const auto& value) {{ return {shown}; }})" if knob.default is None else shown


def _named(knob: Knob) -> NamedView:
    pairs = ", ".join(f"{{{cpp_string(word)}, {_number(knob, value)}}}" for word, value in knob.words)
    return NamedView(_words(knob), _TYPES[knob.type], len(knob.words), pairs)


def _is_constant(knob: Knob) -> bool:
    return knob.affects is Affects.COMPILE


def _run_time_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    return tuple(knob for knob in knobs if not _is_constant(knob))


def header_view(knobs: Sequence[Knob], values: Mapping[str, KnobValue]) -> HeaderView:
    """Return the view of `knobs.hpp`; `values` are the package's defaults by dotted name."""
    return HeaderView(
        enumerations=tuple(
            EnumerationView(knob.name, _enum_type(knob), tuple(map(_enumerator, knob.choices)))
            for knob in knobs
            if knob.type is KnobType.ENUM
        ),
        constants=tuple(
            ConstantView(knob.field, _plain_type(knob), _literal(knob, values[knob.name]), knob.help)
            for knob in filter(_is_constant, knobs)
        ),
        fields=tuple(
            FieldView(
                knob.field,
                f"std::optional<{_plain_type(knob)}>" if knob.default is None else _plain_type(knob),
                knob.help,
            )
            for knob in _run_time_knobs(knobs)
        ),
    )


def source_view(knobs: Sequence[Knob], values: Mapping[str, KnobValue]) -> SourceView:
    """Return the view of `knobs.cpp`; `values` are the package's defaults by dotted name."""
    run_time = _run_time_knobs(knobs)
    return SourceView(
        enumerations=tuple(
            ChoicesView(_words(knob), len(knob.choices), ", ".join(map(cpp_string, knob.choices)))
            for knob in run_time
            if knob.type is KnobType.ENUM
        ),
        named=tuple(_named(knob) for knob in run_time if knob.words),
        entries=tuple(
            EntryView(
                name=cpp_string(knob.name),
                variable=cpp_string(knob.env),
                default_when_invalid="true" if knob.invalid is Invalid.DEFAULT else "false",
                field=knob.field,
                parse=_parse(knob),
                print=_print(knob),
            )
            for knob in run_time
        ),
        initializers=tuple(f"{knob.field}({_literal(knob, values[knob.name])})" for knob in run_time),
        size=len(run_time),
    )
