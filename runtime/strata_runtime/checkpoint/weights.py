"""A checkpoint's tensors, matched one to one with what its family and config say must be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.folder import NAMED_AT_MOST, Tensors, some
from strata_runtime.errors import UserError
from strata_runtime.families import LayerGroup, TensorInfo

_FINITE = {"router", "router_bias"}
"""Roles whose damage would show nowhere: it only changes which experts are chosen."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that must be there. `layer` and `expert` are None where the role has one tensor."""

    info: TensorInfo
    name: str
    layer: int | None
    expert: int | None
    loaded: bool


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer's tensors by role, mapped and in their stored dtype; experts in their order."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    experts: dict[str, list[torch.Tensor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors that are loaded: `tensors` of the whole network, then the layers.

    `further_layers` counts the layers that were checked and not loaded; `parameters` counts numbers of both.
    """

    tensors: dict[str, torch.Tensor]
    layers: tuple[LayerWeights, ...]
    further_layers: int
    parameters: int


def _names(info: TensorInfo, group: LayerGroup | None, config: Config) -> Iterator[Expected]:
    layers: Sequence[int | None] = (None,)
    if group is not None:
        layers = range(config.size(group.first), config.size(group.end))
    experts: Sequence[int | None] = (None,)
    if info.per_expert:
        experts = range(config.size(config.family.network.experts))
    loaded = group is None or group.loaded
    for layer in layers:
        # Two plain replacements: a pattern of a spec is no format string.
        name = info.name.replace("{layer}", str(layer))
        for expert in experts:
            yield Expected(info, name.replace("{expert}", str(expert)), layer, expert, loaded)


def _in_group(config: Config, group: LayerGroup | None) -> Iterator[Expected]:
    for info in config.family.tensors:
        belongs = group.name in info.groups if group is not None else not info.groups
        if belongs and (info.when is None or info.when.holds(config.values)):
            yield from _names(info, group, config)


def expected_tensors(config: Config, present: Mapping[str, object]) -> Iterator[Expected]:
    """Yield every tensor that the checkpoint must have, given the names that are `present`.

    Optional tensors are yielded when present; a group that is optional is yielded when any of its tensors is present.
    Lazy, since a lying config can promise more tensors than fit in memory.
    """
    for group in (None, *config.family.groups):
        if group is not None and group.optional and not any(e.name in present for e in _in_group(config, group)):
            continue
        yield from (e for e in _in_group(config, group) if not e.info.optional or e.name in present)


def _check_one(expected: Expected, tensors: Tensors, config: Config) -> None:
    entry = tensors.entry(expected.name)
    where = f"{tensors.shards[expected.name].path}: tensor '{expected.name}'"
    shape = tuple(config.size(size) for size in expected.info.shape)
    if entry.shape != shape:
        formula = ", ".join(map(str, expected.info.shape))
        raise UserError(f"{where}: expected shape {list(shape)} ({formula}), found {list(entry.shape)}")
    if entry.dtype not in expected.info.dtypes:
        raise UserError(f"{where}: expected dtype {' or '.join(expected.info.dtypes)}, found {entry.dtype}")


def match_tensors(tensors: Tensors, config: Config) -> list[Expected]:
    """Return what the checkpoint holds, after checking that nothing is missing, wrong or left over."""
    present = tensors.shards
    absent = (e.name for e in expected_tensors(config, present) if e.name not in present)
    if missing := list(islice(absent, NAMED_AT_MOST)):
        raise UserError(f"{tensors.where}: lacks tensors that {config.path.name} promises, such as {some(missing)}")
    found = list(expected_tensors(config, present))
    if extra := sorted(present.keys() - {expected.name for expected in found}):
        family = config.family.name
        raise UserError(
            f"{tensors.where}: holds tensors that {config.path.name} has no place for in family {family}: {some(extra)}"
        )
    for expected in found:
        _check_one(expected, tensors, config)
    return found


def load_weights(tensors: Tensors, config: Config, layers: int) -> Weights:
    """Match and map all tensors of a network of `layers` layers. Raises `UserError`."""
    found = match_tensors(tensors, config)
    whole: dict[str, torch.Tensor] = {}
    per_layer = tuple(LayerWeights() for _ in range(layers))
    further: set[int | None] = set()
    parameters = 0
    for expected in found:
        tensor = tensors.tensor(expected.name)
        if expected.info.role in _FINITE and not bool(torch.isfinite(tensor).all()):
            raise UserError(
                f"{tensors.shards[expected.name].path}: tensor '{expected.name}': holds values that are not finite: "
                "the file is damaged, fetch it again"
            )
        parameters += tensor.numel()
        if not expected.loaded:
            further.add(expected.layer)
        elif expected.layer is None:
            whole[expected.info.role] = tensor
        elif expected.expert is None:
            per_layer[expected.layer].tensors[expected.info.role] = tensor
        else:
            per_layer[expected.layer].experts.setdefault(expected.info.role, []).append(tensor)
    return Weights(whole, per_layer, len(further), parameters)
