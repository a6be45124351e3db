"""Arms: named sets of knob values, checked before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from strata_runtime.errors import UserError
from strata_runtime.knobs import Flags, Given, KnobInfo, Origin, Resolution, Source, resolve
from strata_runtime.knobs.grammar import KnobError, parse, show
from strata_runtime.nearest import did_you_mean
from strata_runtime.provider import PATH_VARIABLE

_CONTEXT = "engine.context"
_TAIL_SKIP = "route.tail_skip"
_NAME = re.compile(r"[\w.+-]{1,40}")
_FORM = "an arm is NAME:KNOB=VALUE,KNOB=VALUE, or NAME: for the settings that all arms share"


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm.

    `texts`: what it gives, by dotted knob name. `settings`: every knob that is not at its default. `context`: its
    `engine.context`, 0 for the model's own.
    """

    name: str
    texts: Mapping[str, str]
    settings: Mapping[str, str]
    context: int = 0


def make_arms(
    given: Sequence[str], knobs: Sequence[KnobInfo], environ: Mapping[str, str], flags: Flags
) -> tuple[Arm, ...]:
    """Parse `NAME:KNOB=VALUE,...`, where KNOB is a knob's name or its variable, over what `environ` and `flags` give.

    A piece without `=` goes on with the value before it, so that lists can be given. Raises `UserError` for fewer than
    two arms, names that are no names or taken, and values that would not hold as they are.
    """
    if len(given) < 2:
        raise UserError(f"give --arm at least twice: {_FORM}")
    arms: dict[str, Arm] = {}
    for text in given:
        name, colon, values = text.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise UserError(f"--arm {text!r:.60}: {_FORM}; a name has letters, digits and . + - _")
        if name in arms:
            raise UserError(f"--arm {name}: two arms have this name")
        try:
            arms[name] = _arm(name, _texts(values, knobs), knobs, environ, flags)
        except UserError as problem:
            raise UserError(f"--arm {name}: {problem}") from None
    return tuple(arms.values())


def scale_arm(first: Arm, top_k: int, knobs: Sequence[KnobInfo], environ: Mapping[str, str], flags: Flags) -> Arm:
    """Return the first arm with the mildest tail skip: what it costs is the scale that others are read by.

    `top_k`: experts per token. Raises `UserError` with the reason why there is none.
    """
    if not any(knob.name == _TAIL_SKIP for knob in knobs):
        raise UserError(f"this kernels package has no {_TAIL_SKIP}")
    if top_k < 2:
        raise UserError(f"{_TAIL_SKIP} needs two experts per token, and this model picks {top_k}")
    if _TAIL_SKIP in first.settings:
        raise UserError(f"{first.name} has {_TAIL_SKIP}={first.settings[_TAIL_SKIP]} itself")
    name = f"{first.name}, {_TAIL_SKIP}={top_k - 1}"
    return _arm(name, {**first.texts, _TAIL_SKIP: str(top_k - 1)}, knobs, environ, flags)


def _arm(name: str, texts: dict[str, str], knobs: Sequence[KnobInfo], environ: Mapping[str, str], flags: Flags) -> Arm:
    typed = {knob: Given(value, Origin(Source.COMMAND_LINE, f"--arm {name}")) for knob, value in texts.items()}
    resolution = resolve(knobs, environ=environ, command_line={**flags, **typed})
    _check_holds(resolution, texts)
    settings = {knob.name: show(knob, resolution.values[knob.name]) for knob in resolution.differing()}
    context = resolution.values.get(_CONTEXT)
    return Arm(name, texts, settings, context if isinstance(context, int) else 0)


def _pairs(values: str) -> Iterator[tuple[str, str]]:
    key, text = "", ""
    for piece in values.split(",") if values.strip() else ():
        before, equals, behind = piece.partition("=")
        if equals and before.strip():
            if key:
                yield key, text
            key, text = before.strip(), behind
        elif key and not equals:
            text += f",{piece}"
        else:
            raise UserError(f"'{piece:.60}' is not KNOB=VALUE")
    if key:
        yield key, text


def _texts(values: str, knobs: Sequence[KnobInfo]) -> dict[str, str]:
    by_name = {name: knob for knob in knobs for name in (knob.name, knob.env)}
    texts: dict[str, str] = {}
    for key, text in _pairs(values):
        knob = by_name.get(key)
        if knob is None:
            raise UserError(f"there is no knob '{key}'{did_you_mean(key, by_name)}")
        if knob.name in texts:
            raise UserError(f"{knob.name} is given twice")
        if knob.env == PATH_VARIABLE:
            raise UserError(f"{knob.name}: all arms run on the same kernels package")
        try:
            if parse(knob, text) is None:
                raise UserError(f"{knob.name} has no value; leave it out for the one that all arms share")
        except KnobError as problem:
            raise UserError(str(problem)) from None
        texts[knob.name] = text
    return texts


def _check_holds(resolution: Resolution, texts: Mapping[str, str]) -> None:
    """Raise `UserError` for a value that relations or the build replaced: the arm would measure something else."""
    for knob in resolution.knobs:
        if knob.name in texts and resolution.values[knob.name] != parse(knob, texts[knob.name]):
            said = [line for line in resolution.lines if line.startswith(f"{knob.name}=")]
            held = show(knob, resolution.values[knob.name]) or "unset"
            raise UserError("; ".join(said) or f"{knob.name}={texts[knob.name]} is not taken: {held} holds")
