"""What families can get wrong beyond a single file: two that claim the same name or the same checkpoints."""

from __future__ import annotations

from strata_gen.diagnostics import Note, Sink
from strata_gen.model.family import Family
from strata_gen.model.specset import SpecSet


def check_families(specs: SpecSet, sink: Sink) -> None:
    """Report families that share a name or a `model_type`."""
    names: dict[str, Family] = {}
    owners: dict[str, Family] = {}
    for family in specs.families:
        other = names.setdefault(family.name, family)
        if other is not family:
            note = Note("first declared here", other.span)
            sink.error("M040", f"family '{family.name}' is declared twice", family.span, notes=(note,))
        for model_type in family.model_types:
            owner = owners.setdefault(model_type, family)
            if owner is not family and owner.name != family.name:
                message = f"families '{owner.name}' and '{family.name}' both claim the model type '{model_type}'"
                sink.error("M041", message, family.span, notes=(Note("the other one", owner.span),))
