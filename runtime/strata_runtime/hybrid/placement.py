"""Which experts get a slot at first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.strict_json import read_object
from strata_runtime.whole_file import check_target, replacing

Counts = NDArray[np.int64]
"""How often each expert was chosen, [layers with routed experts, experts]."""

Placement = Sequence[tuple[int, int]]
"""(layer, expert) of every slot; layers are those with routed experts, from 0."""

_KIND = "strata expert profile"


@dataclass(frozen=True, slots=True)
class ExpertProfile:
    """What was counted over how many tokens."""

    tokens: int
    counts: Counts

    def save(self, path: Path) -> None:
        """Write it as JSON. Raises `UserError` when the file cannot be written."""
        check_target(path)
        table = {"kind": _KIND, "tokens": self.tokens, "counts": self.counts.tolist()}
        with replacing(path) as partial:
            partial.write_text(json.dumps(table) + "\n", encoding="utf-8")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_profile(path: Path, layers: int, experts: int) -> ExpertProfile:
    """Read a profile of a model with so many layers and experts. Raises `UserError` for any other file."""
    what = f"{path}: not a file of 'strata profile'"
    found = read_object(path)
    tokens, table = found.get("tokens"), found.get("counts")
    if found.get("kind") != _KIND or not _is_count(tokens) or not isinstance(table, list):
        raise UserError(what)
    if not all(isinstance(row, list) and all(map(_is_count, row)) for row in table):
        raise UserError(what)
    try:
        counts = np.array(table, np.int64)
    except (ValueError, OverflowError):
        raise UserError(what) from None
    if counts.ndim != 2:
        raise UserError(what)
    if counts.shape != (layers, experts):
        raise UserError(
            f"{path}: is of a model with {counts.shape[0]} layers of {counts.shape[1]} experts, and this one has "
            f"{layers} of {experts}: write one with 'strata profile'"
        )
    return ExpertProfile(tokens, counts)


def by_layer(slots: int, layers: int, experts: int) -> Placement:
    """Return (layer, expert) of every slot: whole layers from the first on."""
    return [divmod(slot, experts) for slot in range(min(slots, layers * experts))]


def by_use(slots: int, counts: Counts) -> Placement:
    """Return (layer, expert) of every slot: the most used experts, equals by layer and number."""
    order: Sequence[int] = np.argsort(-counts.reshape(-1), kind="stable")[:slots].tolist()
    return [divmod(place, counts.shape[1]) for place in order]
