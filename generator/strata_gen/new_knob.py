"""A new knob entry: its text, and the spec file with it, proven right before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strata_gen import __version__
from strata_gen.diagnostics import Sink, SpecErrors
from strata_gen.edge.base import read_edges
from strata_gen.edge.knob import KNOB
from strata_gen.errors import GeneratorError
from strata_gen.load.document import parse_document
from strata_gen.load.scalars import resolve_plain
from strata_gen.model.check import check_specs
from strata_gen.model.check_knob import settle_implications, settle_words
from strata_gen.model.knob import Affects, Knob, KnobType, Output
from strata_gen.model.specset import SpecSet
from strata_gen.specs import root_names

_MODELINE = "# yaml-language-server: $schema=../schema/knob.schema.json\n"
_BOOLISH = ("yes", "no", "on", "off", "y", "n")  # booleans to readers of YAML 1.1, editors among them
_TEXT_TYPES = (KnobType.STR, KnobType.ENUM, KnobType.PATH)


@dataclass(frozen=True, slots=True)
class NewKnob:
    """What the command line says of the knob. `default` is as typed there; None: unset."""

    name: str
    type: KnobType
    default: str | None
    choices: tuple[str, ...]
    affects: Affects
    output: Output
    help: str


def _scalar(text: str, *, quote: bool) -> str:
    """Write text as a YAML scalar, in quotes when it would otherwise read as something else."""
    plain = text.isidentifier() and text.lower() not in _BOOLISH and isinstance(resolve_plain(text), str)
    if quote and not plain:
        return json.dumps(text, ensure_ascii=False)
    return text


def _default(knob: NewKnob) -> str:
    if knob.default is None:
        return "null"
    if knob.type is KnobType.LIST:
        return f"[{', '.join(_scalar(word.strip(), quote=True) for word in knob.default.split(',') if word.strip())}]"
    is_text = knob.type in _TEXT_TYPES or not re.fullmatch(r"[A-Za-z0-9.+-]+", knob.default)
    return _scalar(knob.default, quote=is_text)


def entry_lines(new: NewKnob, derived: Knob | None) -> list[str]:
    """Return the lines of the entry, from `- name: ...` on. `derived` gives the names for the comment."""
    lines = [f"- name: {new.name}"]
    if derived is not None:
        lines.append(f"  # {derived.env}, {derived.flag}, settings.{derived.name}")
    lines.append(f"  type: {new.type}")
    if new.type is KnobType.ENUM:
        lines.append(f"  choices: [{', '.join(_scalar(choice, quote=True) for choice in new.choices)}]")
    lines.append(f"  default: {_default(new)}")
    if new.type in (KnobType.INT, KnobType.FLOAT, KnobType.BYTES, KnobType.DURATION):
        lines.append("  # range: {min: ..., max: ...}  # or above, below, multiple_of")
    return [
        *lines,
        "  invalid: error  # or default: one line of warning, then the default",
        f"  affects: {new.affects}  # compile (part of the build key), launch, runtime or live",
        f"  output: {new.output}  # identical, reorders or approximates: what a value may do to the output",
        f"  help: {_scalar(new.help, quote=True)}",
        "  # details: >",
        "  #   What the reference page says beyond the sentence.",
        f'  since: "{__version__}"',
        "  # ignored_unless: section.other > 0",
        '  # requires: [{when: section.other > 0, note: "why"}]  # also conflicts, off_with',
    ]


def with_entry(text: str | None, new: NewKnob, shown_as: str, derived: Knob | None = None) -> str:
    """Return the file's text with the entry at its end; None stands for a file that is not there yet.

    Comments and layout of what is there are kept. Raises `GeneratorError` when the file is not one block list.
    """
    lines = entry_lines(new, derived)
    if text is None:
        return _MODELINE + "knobs:\n" + "".join(f"  {line}\n" for line in lines)
    document = parse_document(text, shown_as, sink := Sink())
    sink.raise_if_any()
    first = document.places.get(("knobs", 0)) if document is not None else None
    indent = first.value.text[: first.value.column - 1] if first is not None else ""
    if indent.strip() != "-":
        raise GeneratorError(
            "cannot add to a file whose 'knobs' is not a list with one '- name:' per entry",
            where=shown_as,
            mend="write the list in block style, or name a knob of another section",
        )
    margin = " " * indent.index("-")
    return text.rstrip("\n") + "\n\n" + "".join(f"{margin}{line}\n" for line in lines)


def _read(text: str, shown_as: str) -> tuple[Knob, ...]:
    sink = Sink()
    document = parse_document(text, shown_as, sink)
    knobs = read_edges(KNOB, (document,), sink) if document is not None else ()
    sink.raise_if_any()
    return knobs


def _entry_alone(new: NewKnob, shown_as: str) -> Knob:
    """Read the entry by itself: its own mistakes are the command line's, not a file's."""
    try:
        (knob,) = _read(with_entry(None, new, shown_as), shown_as)
    except SpecErrors as problem:
        first = problem.diagnostics[0]
        raise GeneratorError(
            first.message, mend=first.label or f"'strata-gen explain {first.code}' says more"
        ) from None
    return knob


def add_knob(new: NewKnob, roots: Sequence[Path], specs: SpecSet) -> tuple[Path, Knob]:
    """Append `new` to the file of its section under the last of `roots`, and return the file and the knob.

    `specs` is what all of `roots` hold, and what the knob will live with. Nothing is written unless the result
    passes every check; raises `SpecErrors` or `GeneratorError` otherwise.
    """
    for knob in specs.knobs:
        if knob.name == new.name:
            where = f"{knob.span.file}:{knob.span.line}"
            raise GeneratorError(f"knob '{new.name}' exists already", where=where, mend="choose another name")
    root = roots[-1]
    path = root / KNOB.folder / f"{new.name.partition('.')[0]}.yaml"
    shown_as = f"{root_names(roots)[root]}/{KNOB.folder}/{path.name}"
    knob = _entry_alone(new, shown_as)
    text = with_entry(path.read_text(encoding="utf-8") if path.is_file() else None, new, shown_as, knob)
    written = _read(text, shown_as)
    knobs = _merged(specs.knobs, written, shown_as)
    sink = Sink()
    check_specs(replace(specs, knobs=settle_implications(settle_words(knobs), sink)), sink)
    sink.raise_if_any()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path, written[-1]


def _merged(knobs: Sequence[Knob], written: Sequence[Knob], file: str) -> tuple[Knob, ...]:
    others = [knob for knob in knobs if knob.span.file != file]
    return tuple(sorted((*others, *written), key=lambda knob: knob.name))
