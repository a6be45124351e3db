"""What families can get wrong beyond a single file: two that claim the same name or the same checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strata_gen.diagnostics import Note, Sink
from strata_gen.model.family import Family
from strata_gen.model.specset import SpecSet


def check_families(specs: SpecSet, sink: Sink) -> None:
    """Report families that share a name, a `model_type` or a GGUF architecture."""
    names: dict[str, Family] = {}
    types: dict[str, Family] = {}
    architectures: dict[str, Family] = {}
    for family in specs.families:
        other = names.setdefault(family.name, family)
        if other is not family:
            note = Note("first declared here", other.span)
            sink.error("M040", f"family '{family.name}' is declared twice", family.span, notes=(note,))
        for message, note in _claims(family, "model type", family.model_types, types):
            sink.error("M041", message, family.span, notes=(note,))
        own = family.gguf.architectures if family.gguf is not None else ()
        for message, note in _claims(family, "GGUF architecture", own, architectures):
            sink.error("M042", message, family.span, notes=(note,))


def _claims(family: Family, what: str, own: Iterable[str], owners: dict[str, Family]) -> Iterator[tuple[str, Note]]:
    """Let a family claim names; yield a message and a note for each that another one has."""
    for name in own:
        owner = owners.setdefault(name, family)
        if owner.name != family.name:
            yield (
                f"families '{owner.name}' and '{family.name}' both claim the {what} '{name}'",
                Note("the other one", owner.span),
            )
