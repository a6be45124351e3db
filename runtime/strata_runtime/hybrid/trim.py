"""What a window leaves out between router and plan: entries beyond a cap, and experts at the tail of every token."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.hybrid.residency import Residency
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.executor import ExpertLayer


@dataclass(frozen=True, slots=True)
class WindowTrim:
    """`verify.ecap` (None: no cap) and `route.tail_skip` (0: off), through their kernels."""

    device: DeviceCompute
    residency: Residency
    cap: int | None
    skip_from: int

    def __call__(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Trim`."""
        device, stream = self.device.native.device, self.device.stream
        tokens, top_k = weights.shape
        ids, values = buffers.expert_ids.data_ptr(), weights.data_ptr()
        if self.cap is not None:
            # A cap of all entries changes nothing, however much larger than what the kernel counts with it was.
            device.ecap_redirect(tokens, top_k, min(self.cap, tokens * top_k), ids, values, stream)
        if self.skip_from:
            slots = self.residency.tables[layer.number].data_ptr()
            device.tail_skip(tokens, top_k, layer.experts.count, self.skip_from, slots, ids, values, stream)
