"""What a converted file will hold: each tensor with the matrices that it is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.source import Checkpoint
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import by_role, match_tensors
from strata_runtime.convert.choice import Formats
from strata_runtime.errors import UserError
from strata_runtime.families import LayerGroup, TensorInfo
from strata_runtime.formats import FormatInfo


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One tensor to write: every expert's matrix when it is `stacked`, and one part otherwise."""

    name: str
    stacked: bool
    parts: tuple[Stored, ...]
    form: FormatInfo

    @property
    def shape(self) -> tuple[int, ...]:
        """Row-major, [experts, rows, columns] when stacked."""
        return (len(self.parts), *self.parts[0].shape) if self.stacked else self.parts[0].shape

    @property
    def bytes(self) -> int:
        """Size in its format."""
        return math.prod(self.shape[:-1]) * self.form.row_bytes(self.shape[-1])


@dataclass(frozen=True, slots=True)
class Targets:
    """All tensors in the order of the file. `config`: of what is there. `notes`: one line for each decision."""

    tensors: tuple[Target, ...]
    config: Config
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Gathered:
    info: TensorInfo
    layer: int | None
    parts: list[Stored] = field(default_factory=list)


def _gather(checkpoint: Checkpoint) -> dict[str, _Gathered]:
    """Arrange a checkpoint's matrices by the names of the tensors that they belong to in GGUF files."""
    config, found = checkpoint.config, dict[str, _Gathered]()
    for expected in match_tensors(checkpoint.tensors, config, checkpoint.layout):
        infos = {info.role: info for info in expected.infos}
        for role, part in by_role(expected, checkpoint.tensors.stored(expected.name), config):
            info = infos[role]
            if info.gguf is None:
                raise UserError(
                    f"{checkpoint.tensors.place(expected.name)}: GGUF files of family {config.family.name} have no "
                    "place for it: the model cannot be converted"
                )
            name = info.gguf.replace("{layer}", str(expected.layer))
            found.setdefault(name, _Gathered(info, expected.layer)).parts.append(part)
    return found


def _without(config: Config, group: LayerGroup) -> Config:
    """Return the config of the same network without a group of layers: the keys that only its end counts are 0."""
    first = {key for term in group.first.terms for key in term.keys}
    counts = {key for term in group.end.terms for key in term.keys} - first
    return replace(config, values={**config.values, **dict.fromkeys(counts, 0)})


def _absent_groups(config: Config, gathered: Mapping[str, _Gathered]) -> Iterator[LayerGroup]:
    layers = {item.layer for item in gathered.values()}
    for group in config.family.groups:
        own = range(config.size(group.first), config.size(group.end))
        if group.optional and own and layers.isdisjoint(own):
            yield group


def plan_targets(checkpoint: Checkpoint, formats: Formats) -> Targets:
    """Match a checkpoint's tensors and say how each is written. Raises `UserError`; reads no weights."""
    gathered = _gather(checkpoint)
    config, notes = checkpoint.config, dict[str, None]()
    for group in _absent_groups(config, gathered):
        notes[f"the checkpoint has no layers '{group.name}', which {config.says} counts: left out"] = None
        config = _without(config, group)
    targets = []
    for name, item in sorted(gathered.items(), key=lambda pair: -1 if pair[1].layer is None else pair[1].layer):
        role, columns = item.info.role, item.parts[0].shape[-1]
        wanted = formats.wanted(role, len(item.info.shape))
        form = formats.fitting(wanted, columns)
        if form is not wanted:
            why = f"blocks of {wanted.name} ({wanted.block_elements} values) do not divide rows of {columns}"
            notes[f"{role} is written as {form.name}: {why}"] = None
        targets.append(Target(name, item.info.per_expert, tuple(item.parts), form))
    return Targets(tuple(targets), config, (*checkpoint.notes, *notes))
