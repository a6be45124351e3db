"""Which tensors a checkpoint must have, by its family, its config, and how it names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from strata_runtime.checkpoint.config import Config
from strata_runtime.families import LayerGroup, Layout, TensorInfo


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that must be there.

    `infos`: what is in it, one role's rows behind another's; of all experts when they have a matrix each and `expert`
    is None. `layer` is None for a tensor of the whole network.
    """

    name: str
    infos: tuple[TensorInfo, ...]
    layer: int | None
    expert: int | None

    @property
    def optional(self) -> bool:
        """Whether it may be absent."""
        return self.infos[0].optional

    @property
    def is_stack(self) -> bool:
        """Whether its first dimension counts the experts."""
        return self.infos[0].per_expert and self.expert is None

    def formula(self, config: Config) -> str:
        """Write its shape as the family does."""
        first, *columns = self.infos[0].shape
        rows = " + ".join([str(first), *(str(info.shape[0]) for info in self.infos[1:])])
        experts = [str(config.family.network.experts)] if self.is_stack else []
        return ", ".join([*experts, rows, *map(str, columns)])

    def shape(self, config: Config) -> tuple[int, ...]:
        """Evaluate its shape. Raises `UserError` for sizes that are not whole."""
        rows = sum(config.size(info.shape[0]) for info in self.infos)
        experts = (config.size(config.family.network.experts),) if self.is_stack else ()
        return (*experts, rows, *map(config.size, self.infos[0].shape[1:]))


def _patterns(config: Config, layout: Layout, group: LayerGroup | None) -> dict[str, tuple[TensorInfo, ...]]:
    """Arrange what a group of layers has (None: what the network has once) by its name in the layout."""
    found: dict[str, tuple[TensorInfo, ...]] = {}
    for info in config.family.tensors:
        name = info.named(layout)
        belongs = group.name in info.groups if group is not None else not info.groups
        if name is not None and belongs and (info.when is None or info.when.holds(config.values)):
            found[name] = (*found.get(name, ()), info)
    return found


def _in_group(config: Config, layout: Layout, group: LayerGroup | None) -> Iterator[Expected]:
    layers: Sequence[int | None] = (None,)
    if group is not None:
        layers = range(config.size(group.first), config.size(group.end))
    for pattern, infos in _patterns(config, layout, group).items():
        experts: Sequence[int | None] = (None,)
        if "{expert}" in pattern:
            experts = range(config.size(config.family.network.experts))
        for layer in layers:
            # Two plain replacements: a pattern of a spec is no format string.
            name = pattern.replace("{layer}", str(layer))
            for expert in experts:
                yield Expected(name.replace("{expert}", str(expert)), infos, layer, expert)


def expected_tensors(config: Config, layout: Layout, present: Mapping[str, object]) -> Iterator[Expected]:
    """Yield every tensor that the checkpoint must have, given the names that are `present`.

    Optional tensors are yielded when present; a group that is optional is yielded when any of its tensors is present.
    Lazy, since a lying config can promise more tensors than fit in memory.
    """
    for group in (None, *config.family.groups):
        own = _in_group(config, layout, group)
        if group is not None and group.optional and not any(e.name in present for e in own):
            continue
        yield from (e for e in _in_group(config, layout, group) if not e.optional or e.name in present)


def safetensors_layout(config: Config, present: Mapping[str, object]) -> Layout:
    """Find out how a safetensors checkpoint stores experts: one by one, or fused."""
    for info in config.family.tensors:
        for name in info.groups if info.fused is not None else ():
            layer = config.size(config.family.group(name).first)
            if info.fused is not None and info.fused.replace("{layer}", str(layer)) in present:
                return "fused"
    return "name"
