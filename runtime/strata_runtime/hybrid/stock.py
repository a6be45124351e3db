"""The routed experts of a network in the host's memory, and how one comes to a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.device.weights import Uploader, memory_at
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.experts import LoadedExperts, in_format
from strata_runtime.layers.placing import Place
from strata_runtime.layers.pool import PoolCompute


@dataclass(frozen=True, slots=True)
class Stock:
    """All layers with routed experts, and what was loaded of each.

    `wanted`: the format that experts are kept in, None for the stored one.
    """

    layers: Sequence[LayerWeights]
    wanted: FormatInfo | None
    loaded: Sequence[LoadedExperts]

    def is_arranged(self, uploader: Uploader) -> bool:
        """Whether the host has all of them as devices read them, so that a copy is all that it takes."""
        return all(
            uploader.is_arranged(matrix, place)
            for layer, loaded in zip(self.layers, self.loaded, strict=True)
            for role, places in zip(EXPERT_ROLES, loaded.places, strict=True)
            for matrix, place in zip(layer.experts[role], places, strict=True)
        )

    def arranged(self, uploader: Uploader, layer: int, expert: int) -> list[Place] | None:
        """Return where an expert's gate, up and down are; None where they are not arranged as devices read them."""
        places = [held[expert] for held in self.loaded[layer].places]
        experts = self.layers[layer].experts
        pairs = zip(EXPERT_ROLES, places, strict=True)
        return places if all(uploader.is_arranged(experts[role][expert], place) for role, place in pairs) else None

    def bring(
        self, host: PoolCompute, uploader: Uploader, layer: int, expert: int, parts: Sequence[torch.Tensor]
    ) -> None:
        """Copy an expert on the current stream, arranging it where the host has not.

        parts: memory of the device for its gate, up and down, uint8 each.
        """
        places = self.arranged(uploader, layer, expert)
        if places is not None:
            for place, to in zip(places, parts, strict=True):
                to[: place.bytes].copy_(memory_at(place.address, place.bytes), non_blocking=True)
            return
        matrices = (self.layers[layer].experts[role][expert] for role in EXPERT_ROLES)
        kept = (matrix if self.wanted is None else in_format(host, matrix, self.wanted) for matrix in matrices)
        uploader.fill(zip(kept, parts, strict=True))
