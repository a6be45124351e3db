"""Views of knobs in the checkout: the reference page, and the stub with the types of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TypeVar

from strata_gen.model.knob import Affects, Invalid, Knob, KnobType, Output
from strata_gen.model.specset import SpecSet
from strata_gen.model.units import BYTE_UNITS, DURATION_UNITS
from strata_gen.model.values import show_value, show_value_of, value_for
from strata_gen.views.knobs import SectionView, sections_of


@dataclass(frozen=True, slots=True)
class StubView:
    """What `_settings.pyi` holds."""

    sections: tuple[SectionView, ...]


@dataclass(frozen=True, slots=True)
class WordRow:
    """A word of the spec language and what it means."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class WordTable:
    """A table of words; `title` and `meaning` head its columns."""

    title: str
    meaning: str
    rows: tuple[WordRow, ...]


@dataclass(frozen=True, slots=True)
class KnobPart:
    """One knob: its row in the section's table, and what stands below."""

    name: str
    anchor: str
    type: str
    default: str
    allowed: str
    affects: str
    output: str
    help: str
    facts: tuple[str, ...]
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionPart:
    """The knobs of one section."""

    name: str
    knobs: tuple[KnobPart, ...]


@dataclass(frozen=True, slots=True)
class PageView:
    """The reference page."""

    words: tuple[WordTable, ...]
    sections: tuple[SectionPart, ...]


_Word = TypeVar("_Word", bound=StrEnum)

_GRAMMAR = {
    KnobType.BOOL: "`1` `true` `on` `yes`, `0` `false` `off` `no`, in any case",
    KnobType.INT: "digits with an optional sign, within 64 bits",
    KnobType.FLOAT: "decimal (`0.25`) or exponent notation (`1e-3`), finite",
    KnobType.ENUM: "one of the words that the knob allows, exactly",
    KnobType.STR: "any text",
    KnobType.BYTES: f"a number and a unit ({' '.join(f'`{u}`' for u in BYTE_UNITS)}), or a number of bytes",
    KnobType.DURATION: f"a number and a unit ({' '.join(f'`{u}`' for u in DURATION_UNITS)}), or `0`",
    KnobType.PATH: "any text; taken as it is, `~` and variables are for the shell",
    KnobType.LIST: "words separated by commas",
}
_AFFECTS = {
    Affects.COMPILE: "built into the kernels package: `strata-gen build --set NAME=VALUE`; part of the build key",
    Affects.LAUNCH: "read when an engine is loaded",
    Affects.RUNTIME: "read when a request starts",
    Affects.LIVE: "read again at every step",
}
_OUTPUT = {
    Output.IDENTICAL: "the text is the same at every value, bit for bit",
    Output.REORDERS: "sums are taken in another order: last bits may differ",
    Output.APPROXIMATES: "the result is approximated",
}


def page_view(specs: SpecSet) -> PageView:
    """Return the view of the reference page."""
    return PageView(
        words=(
            _word_table("type", "how it is written", _GRAMMAR),
            _word_table("takes effect", "when", _AFFECTS),
            _word_table("output", "what a value may do to it", _OUTPUT),
        ),
        sections=tuple(
            SectionPart(name, tuple(_part(knob, specs) for knob in members))
            for name, members in groupby(specs.knobs, lambda knob: knob.section)
        ),
    )


def _word_table(title: str, meaning: str, words: Mapping[_Word, str]) -> WordTable:
    return WordTable(title, meaning, tuple(WordRow(str(word), text) for word, text in words.items()))


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the files that the reference page is made from."""
    return (*stub_sources(specs), *(own.span.file for target in specs.targets for own in target.knob_defaults))


def stub_view(specs: SpecSet) -> StubView:
    """Return the view of the stub."""
    return StubView(sections_of(specs.knobs))


def stub_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the files that the stub is made from."""
    return tuple(knob.span.file for knob in specs.knobs)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _part(knob: Knob, specs: SpecSet) -> KnobPart:
    return KnobPart(
        name=knob.name,
        anchor=knob.anchor,
        type=str(knob.type),
        default=_cell(_default(knob)),
        allowed=_cell(_allowed(knob)),
        affects=str(knob.affects),
        output=str(knob.output),
        help=_cell(knob.help),
        facts=tuple(_facts(knob, specs)),
        details=tuple(knob.details.split("\n")) if knob.details else (),
    )


def _default(knob: Knob) -> str:
    return "unset" if knob.default in (None, ()) else f"`{show_value_of(knob, knob.default)}`"


def _allowed(knob: Knob) -> str:
    if knob.choices:
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    if knob.type is KnobType.BOOL:
        return "`true`, `false`"
    bounds = knob.range
    words = (
        ("at least", bounds.minimum),
        ("above", bounds.above),
        ("at most", bounds.maximum),
        ("below", bounds.below),
        ("a multiple of", bounds.multiple_of),
    )
    said = ", ".join(f"{word} `{show_value(bound, knob.type)}`" for word, bound in words if bound is not None) or "any"
    return ", or ".join([said, *(f"`{word}`" for word, _ in knob.words)])


def _facts(knob: Knob, specs: SpecSet) -> Iterator[str]:
    flag = f"`{knob.flag}`, `--no-{knob.flag.removeprefix('--')}`" if knob.type is KnobType.BOOL else f"`{knob.flag}`"
    if knob.affects is Affects.COMPILE:
        yield f"Build with `strata-gen build --set {knob.name}=VALUE`; setting `settings.{knob.name}`"
    else:
        yield f"Variable `{knob.env}`, flag {flag}, setting `settings.{knob.name}`, keyword `{knob.field}`"
    if knob.invalid is Invalid.DEFAULT:
        yield "A text that is not allowed is named in one line, and the default holds"
    for target in specs.targets:
        if own := target.knob_default(knob.name):
            value = show_value_of(knob, value_for(knob, own.value))
            yield f"Default on {target.backend} {target.name}: `{value}`"
    for word, meant in knob.words:
        yield f"`{word}` is `{show_value(meant, knob.type)}` in Python and C++"
    yield from _relations(knob, {other.name: other for other in specs.knobs})
    for row in knob.measured:
        yield f"Measured on {row.hardware}: {row.result}"
    if knob.since:
        yield f"Since {knob.since}"


def _relations(knob: Knob, knobs: Mapping[str, Knob]) -> Iterator[str]:
    for relation in knob.requires:
        yield f"Requires `{relation.text}`: {relation.note}"
    for relation in knob.conflicts:
        yield f"Conflicts with `{relation.text}`: {relation.note}"
    if knob.ignored_unless is not None:
        yield f"Ignored, with one line, unless `{knob.ignored_unless.text}`"
    for relation in knob.off_with:
        yield f"Turned off, with one line, while `{relation.text}`: {relation.note}"
    for implied in knob.implies:
        value = show_value_of(knobs[implied.knob], implied.value)
        yield f"While `{implied.when.text}`, `{implied.knob}` defaults to `{value}`"
