"""Values of build-time knobs: what is set, what the target prefers, and the relations between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.load.scalars import AmbiguousScalar, resolve_plain
from strata_gen.model.evaluate import holds
from strata_gen.model.expr import names_in
from strata_gen.model.knob import Affects, Implication, Knob, KnobValue, Relation
from strata_gen.model.target import Target
from strata_gen.model.values import BadValue, show_value_of, value_for


def _set_value(knob: Knob, text: str) -> KnobValue:
    where = f"--set {knob.name}={text}"
    if knob.affects is not Affects.COMPILE:
        raise GeneratorError(
            f"'{knob.name}' is no build-time knob: it is read when strata runs",
            where=where,
            mend=f"leave it out here, and run with {knob.env}={text} or {knob.flag} {text}",
        )
    if not text:
        raise GeneratorError(f"'{knob.name}' is set to nothing", where=where, mend=f"--set {knob.name}=VALUE")
    try:
        return value_for(knob, resolve_plain(text))
    except (AmbiguousScalar, BadValue) as problem:
        hint = getattr(problem, "hint", "")
        raise GeneratorError(f"'{knob.name}' cannot be set: {problem}", where=where, mend=hint) from None


def read_set_values(knobs: Iterable[Knob], texts: Mapping[str, str]) -> dict[str, KnobValue]:
    """Read the texts of `--set` as plain YAML scalars. Raises `GeneratorError` for the first that cannot be."""
    by_name = {knob.name: knob for knob in knobs}
    for name in texts:
        if name not in by_name:
            build_time = [knob.name for knob in by_name.values() if knob.affects is Affects.COMPILE]
            listed = f"build-time knobs are {', '.join(build_time)}" if build_time else "there are no build-time knobs"
            mend = did_you_mean(name, by_name) or listed
            raise GeneratorError(f"unknown knob '{name}'", where=f"--set {name}={texts[name]}", mend=mend)
    return {name: _set_value(by_name[name], text) for name, text in texts.items()}


class _Settling:
    """Values in the making. A knob is settled after those that its relations read, so conditions see final values."""

    def __init__(self, knobs: Sequence[Knob], target: Target, given: Mapping[str, KnobValue]) -> None:
        self.knobs = {knob.name: knob for knob in knobs if knob.affects is Affects.COMPILE}
        self.target, self.given = target, given
        self.values: dict[str, KnobValue] = {}
        self.implications: dict[str, list[Implication]] = {name: [] for name in self.knobs}
        for implication in (one for knob in knobs for one in knob.implies if one.knob in self.knobs):
            self.implications[implication.knob].append(implication)

    def order(self) -> Iterable[str]:
        needs: dict[str, set[str]] = {}
        for name, knob in self.knobs.items():
            deciding = [*knob.off_with, *([knob.ignored_unless] if knob.ignored_unless else [])]
            deciding += [implication.when for implication in self.implications[name]]
            needs[name] = {read.knob for relation in deciding for read in names_in(relation.condition)}
        return TopologicalSorter(needs).static_order()

    def refusal(self, knob: Knob, why: str, relation: Relation) -> GeneratorError:
        shown = show_value_of(knob, self.values[knob.name])
        where = f"--set {knob.name}={shown}" if knob.name in self.given else f"{knob.name}={shown}, by the target"
        reads = dict.fromkeys(name.knob for name in names_in(relation.condition))
        mend = relation.note or ", ".join(
            f"{name} is {show_value_of(self.knobs[name], self.values[name])}" for name in reads
        )
        return GeneratorError(f"'{knob.name}' {why} {relation.text}", where=where, mend=mend)

    def unset(self, knob: Knob) -> KnobValue:
        for implication in self.implications[knob.name]:
            if holds(implication.when.condition, self.values):
                return implication.value
        default = self.target.knob_default(knob.name)
        return knob.default if default is None else value_for(knob, default.value)

    def settle(self, knob: Knob) -> None:
        is_set = knob.name in self.given
        value = self.values[knob.name] = self.given[knob.name] if is_set else self.unset(knob)
        unless = knob.ignored_unless
        # At build time a value that would be dropped is a mistake to mend, not one to mention.
        if is_set and unless is not None and not holds(unless.condition, self.values):
            raise self.refusal(knob, "would be ignored: it is read only while", unless)
        for off in knob.off_with:
            if value != knob.default and holds(off.condition, self.values):
                if is_set:
                    raise self.refusal(knob, "would be turned off by", off)
                self.values[knob.name] = knob.default

    def check(self, knob: Knob) -> None:
        if self.values[knob.name] == knob.default:
            return
        for needed in knob.requires:
            if not holds(needed.condition, self.values):
                raise self.refusal(knob, "requires", needed)
        for against in knob.conflicts:
            if holds(against.condition, self.values):
                raise self.refusal(knob, "conflicts with", against)


def settle_build_values(knobs: Sequence[Knob], target: Target, given: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """Return the value of every build-time knob, by name in the order of `knobs`.

    The knob's default gives way to the target's, that to an implied value, that to what is given. Raises
    `GeneratorError` when a relation does not allow the outcome, or would drop a value that is given.
    """
    settling = _Settling(knobs, target, given)
    for name in settling.order():
        settling.settle(settling.knobs[name])
    for knob in settling.knobs.values():
        settling.check(knob)
    return {name: settling.values[name] for name in settling.knobs}
