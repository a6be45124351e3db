"""The routed experts of a network in the host's memory, and how one comes to a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.device.weights import Uploader
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.hybrid.residency import SlotLayout
from strata_runtime.layers.experts import LoadedExperts, in_format
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
            uploader.arranged(matrix, place) is not None
            for layer, loaded in zip(self.layers, self.loaded, strict=True)
            for role, places in zip(EXPERT_ROLES, loaded.places, strict=True)
            for matrix, place in zip(layer.experts[role], places, strict=True)
        )

    def pieces(
        self, uploader: Uploader, layout: SlotLayout, layer: int, expert: int, to: torch.Tensor
    ) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """Return (from, to) of an expert's matrices, uint8; None where they are not arranged as devices read them."""
        found = []
        for role, offset, held in zip(EXPERT_ROLES, layout.offsets, self.loaded[layer].places, strict=True):
            arranged = uploader.arranged(self.layers[layer].experts[role][expert], held[expert])
            if arranged is None:
                return None
            found.append((arranged, to[offset : offset + arranged.numel()]))
        return found

    def bring(
        self, host: PoolCompute, uploader: Uploader, layout: SlotLayout, layer: int, expert: int, to: torch.Tensor
    ) -> None:
        """Copy an expert to memory of the device on the current stream, arranging it where the host has not."""
        pieces = self.pieces(uploader, layout, layer, expert, to)
        if pieces is not None:
            for source, place in pieces:
                place.copy_(source, non_blocking=True)
            return
        matrices = (self.layers[layer].experts[role][expert] for role in EXPERT_ROLES)
        kept = (matrix if self.wanted is None else in_format(host, matrix, self.wanted) for matrix in matrices)
        uploader.fill((matrix, to[offset:]) for matrix, offset in zip(kept, layout.offsets, strict=True))
