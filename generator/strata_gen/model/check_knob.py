"""What knobs can get wrong beyond a single entry: clashing names, relations, cycles, implied values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.model.check_expr import check_relation
from strata_gen.model.cycles import find_cycles
from strata_gen.model.expr import And, Compare, Constant, Expr, Name, Not, Or, names_in
from strata_gen.model.format import Format
from strata_gen.model.knob import Affects, Implication, Knob, Relation
from strata_gen.model.specset import SpecSet
from strata_gen.model.values import BadValue, value_for

_DERIVED: Mapping[str, Callable[[Knob], str]] = {
    "variable": lambda knob: knob.env,
    "flag": lambda knob: knob.flag,
    "field": lambda knob: knob.field,
}


def relations_of(knob: Knob) -> Iterator[Relation]:
    """Yield every relation of a knob, the conditions of its implications included."""
    yield from (*knob.requires, *knob.conflicts, *knob.off_with, *knob.says)
    if knob.ignored_unless is not None:
        yield knob.ignored_unless
    yield from (implication.when for implication in knob.implies)


def settle_choices(knobs: Sequence[Knob], formats: Sequence[Format], sink: Sink) -> tuple[Knob, ...]:
    """Return `knobs` with the choices that they take from weight formats: the names of those that can be made."""
    made = [spec for spec in formats if spec.encode is not None]
    for knob in (knob for knob in knobs if knob.choices_from is not None):
        for spec in (spec for spec in made if spec.name in knob.choices):
            note = Note(f"format '{spec.name}' is declared here", spec.span)
            sink.error("K026", f"knob '{knob.name}' has the choice '{spec.name}' twice", knob.span, notes=(note,))
    names = tuple(spec.name for spec in made)
    return tuple(replace(knob, choices=knob.choices + names) if knob.choices_from else knob for knob in knobs)


def settle_implications(knobs: Sequence[Knob], sink: Sink) -> tuple[Knob, ...]:
    """Return `knobs` with every implied value converted to the type of the knob that it is for."""
    by_name = {knob.name: knob for knob in knobs}

    def settled(owner: Knob, implication: Implication) -> Implication:
        target = by_name.get(implication.knob)
        if target is None:
            hint = did_you_mean(implication.knob, by_name)
            message = f"unknown knob '{implication.knob}' in a relation of knob '{owner.name}'"
            sink.error("K031", message, implication.knob_span, hint)
            return implication
        try:
            return replace(implication, value=value_for(target, implication.value))
        except BadValue as problem:
            note = Note(f"'{target.name}' is declared here", target.span)
            message = f"knob '{owner.name}' implies a value that '{target.name}' cannot have: {problem}"
            sink.error("K036", message, implication.span, problem.hint, (note,))
            return implication

    return tuple(replace(knob, implies=tuple(settled(knob, one) for one in knob.implies)) for knob in knobs)


def settle_words(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """Return `knobs` with every word for a number in their relations replaced by the number."""
    by_name = {knob.name: knob for knob in knobs}

    def number(side: Name | Constant, other: Name | Constant) -> Name | Constant:
        words = dict(by_name[other.knob].words) if isinstance(other, Name) and other.knob in by_name else {}
        is_word = isinstance(side, Constant) and isinstance(side.value, str) and side.value in words
        return replace(side, value=words[str(side.value)]) if isinstance(side, Constant) and is_word else side

    def settled(expr: Expr) -> Expr:
        match expr:
            case Compare(_, left, right):
                return replace(expr, left=number(left, right), right=number(right, left))
            case Not(term):
                return Not(settled(term))
            case And(terms) | Or(terms):
                return replace(expr, terms=tuple(map(settled, terms)))
            case _:
                return expr

    def relation(one: Relation) -> Relation:
        return replace(one, condition=settled(one.condition))

    def relations(many: tuple[Relation, ...]) -> tuple[Relation, ...]:
        return tuple(map(relation, many))

    return tuple(
        replace(
            knob,
            requires=relations(knob.requires),
            conflicts=relations(knob.conflicts),
            ignored_unless=relation(knob.ignored_unless) if knob.ignored_unless else None,
            off_with=relations(knob.off_with),
            implies=tuple(replace(one, when=relation(one.when)) for one in knob.implies),
            says=relations(knob.says),
        )
        for knob in knobs
    )


def _check_names(knobs: Sequence[Knob], sink: Sink) -> None:
    first: dict[tuple[str, str], Knob] = {}
    for knob in sorted(knobs, key=lambda knob: knob.span):
        other = first.setdefault(("name", knob.name), knob)
        if other is not knob:
            note = Note("first declared here", other.span)
            sink.error("K027", f"knob '{knob.name}' is declared twice", knob.span, notes=(note,))
            continue
        clashes = []
        for what, derive in _DERIVED.items():
            other = first.setdefault((what, derive(knob)), knob)
            if other is not knob:
                clashes.append((what, derive(knob), other))
        if clashes:
            what, derived, other = clashes[0]
            message = f"knobs '{other.name}' and '{knob.name}' have the same {what} {derived}"
            sink.error("K028", message, knob.span, "rename one", (Note("the other one", other.span),))


def _check_build_time(knob: Knob, by_name: Mapping[str, Knob], sink: Sink) -> None:
    """A value that is compiled in cannot wait for what is known only at run time."""
    relations = [*knob.off_with, *([knob.ignored_unless] if knob.ignored_unless else []), *knob.requires]
    pairs = [(knob, relation) for relation in (*relations, *knob.conflicts) if knob.affects is Affects.COMPILE]
    for implication in knob.implies:
        implied = by_name.get(implication.knob)
        if implied is not None and implied.affects is Affects.COMPILE:
            pairs.append((implied, implication.when))
    for affected, relation in pairs:
        for name in names_in(relation.condition):
            other = by_name.get(name.knob)
            if other is not None and other.affects is not Affects.COMPILE:
                message = f"knob '{affected.name}' affects compile and depends on '{other.name}'"
                note = Note(f"'{other.name}' affects {other.affects}", other.span)
                sink.error("K037", message, name.span or relation.span, "known only after the build", (note,))


def _gates(knob: Knob) -> Iterator[Relation]:
    """Yield the relations that can take a value away from a knob."""
    yield from knob.off_with
    if knob.ignored_unless is not None:
        yield knob.ignored_unless


def _check_cycles(knobs: Sequence[Knob], sink: Sink) -> None:
    by_name = {knob.name: knob for knob in knobs}

    def names(relations: Iterator[Relation]) -> Iterator[str]:
        return (name.knob for relation in relations for name in names_in(relation.condition))

    gated = {knob.name: tuple(dict.fromkeys(names(_gates(knob)))) for knob in knobs}
    related = {knob.name: (*names(iter(knob.requires)), *gated[knob.name]) for knob in knobs}
    implied: dict[str, tuple[str, ...]] = {knob.name: () for knob in knobs}
    for knob in knobs:
        for one in knob.implies:
            implied[one.knob] = (*implied.get(one.knob, ()), *names(iter((one.when,))))
    # What decides a value must be settled before it; `requires` is looked at when everything is.
    deciding = {name: (*gated[name], *implied[name]) for name in gated}
    told: set[frozenset[str]] = set()
    graphs = ((related, "relations"), (implied, "implied values"), (deciding, "relations and implied values"))
    for graph, what in graphs:
        for cycle in (cycle for cycle in find_cycles(graph) if frozenset(cycle) not in told):
            told.add(frozenset(cycle))
            chain = " -> ".join((*cycle, cycle[0]))
            notes = tuple(Note(f"'{name}' is declared here", by_name[name].span) for name in cycle[1:])
            sink.error("K035", f"the {what} of knobs form a cycle: {chain}", by_name[cycle[0]].span, notes=notes)


def check_knobs(specs: SpecSet, sink: Sink) -> None:
    """Report knobs whose names clash, relations that do not type-check, and cycles among relations."""
    by_name = {knob.name: knob for knob in reversed(specs.knobs)}  # of two with one name, the first
    _check_names(specs.knobs, sink)
    for knob in specs.knobs:
        for relation in relations_of(knob):
            check_relation(f"knob '{knob.name}'", relation, by_name, sink)
        _check_build_time(knob, by_name, sink)
    _check_cycles(specs.knobs, sink)
