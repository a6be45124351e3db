"""A checkpoint's tensors, matched one to one with what its family and config say must be there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.expected import Expected, expected_tensors
from strata_runtime.checkpoint.stored import NAMED_AT_MOST, Stored, Tensors, some
from strata_runtime.errors import UserError
from strata_runtime.families import Layout

_FINITE = {"router", "router_bias"}
"""Roles whose damage would show nowhere: it only changes which experts are chosen."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer's tensors by role, mapped; the matrices of routed experts in the experts' order."""

    tensors: dict[str, Stored] = field(default_factory=dict)
    experts: dict[str, list[Stored]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors: `tensors` of the whole network, then the layers.

    `further`: layers behind those of the network, first one first. `parameters` counts numbers of all.
    """

    tensors: dict[str, Stored]
    layers: tuple[LayerWeights, ...]
    further: tuple[LayerWeights, ...]
    parameters: int

    @property
    def head(self) -> Stored:
        """The output matrix: the embedding where a network has no other."""
        return self.tensors.get("head", self.tensors["embedding"])


def _check_shape(expected: Expected, tensors: Tensors, config: Config) -> None:
    found, shape = tensors.found[expected.name].shape, expected.shape(config)
    if found != shape:
        raise UserError(
            f"{tensors.place(expected.name)}: expected shape {list(shape)} ({expected.formula(config)}), "
            f"found {list(found)}"
        )


def match_tensors(tensors: Tensors, config: Config, layout: Layout) -> list[Expected]:
    """Return what the checkpoint holds, after checking that nothing is missing, of a wrong shape or left over."""
    present = tensors.found
    absent = (e.name for e in expected_tensors(config, layout, present) if e.name not in present)
    if missing := list(islice(absent, NAMED_AT_MOST)):
        raise UserError(f"{tensors.where}: lacks tensors that {config.says} promises, such as {some(missing)}")
    found = list(expected_tensors(config, layout, present))
    if extra := sorted(present.keys() - {expected.name for expected in found}):
        family = config.family.name
        raise UserError(
            f"{tensors.where}: holds tensors that {config.says} has no place for in family {family}: {some(extra)}"
        )
    for expected in found:
        _check_shape(expected, tensors, config)
    return found


def by_role(expected: Expected, stored: Stored, config: Config) -> Iterator[tuple[str, Stored]]:
    """Take a tensor apart: each role's, and each expert's in their order."""
    for part in map(stored.part, range(stored.shape[0])) if expected.is_stack else (stored,):
        first = 0
        for info in expected.infos:
            stop = first + config.size(info.shape[0])
            yield info.role, part.rows(first, stop)
            first = stop


def _check_finite(expected: Expected, stored: Stored) -> None:
    if expected.infos[0].role in _FINITE and not bool(np.isfinite(stored.floats()).all()):
        raise UserError(f"{stored.where}: holds values that are not finite: the file is damaged, fetch it again")


def load_weights(tensors: Tensors, config: Config, layout: Layout, layers: int) -> Weights:
    """Match and map all tensors of a network of `layers` layers. Raises `UserError`."""
    found = match_tensors(tensors, config, layout)
    whole: dict[str, Stored] = {}
    per_layer = {layer: LayerWeights() for layer in range(layers)}
    parameters = 0
    for expected in found:
        stored = tensors.stored(expected.name)
        _check_finite(expected, stored)
        parameters += stored.count
        for role, part in by_role(expected, stored, config):
            if expected.layer is None:
                whole[role] = part
                continue
            layer = per_layer.setdefault(expected.layer, LayerWeights())
            if expected.infos[0].per_expert:
                layer.experts.setdefault(role, []).append(part)
            else:
                layer.tensors[role] = part
    in_order = [per_layer[layer] for layer in sorted(per_layer)]
    return Weights(whole, tuple(in_order[:layers]), tuple(in_order[layers:]), parameters)
