"""Where kernels find the experts of a layer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpertMemory:
    """The matrices of a layer's experts in the memory of slots, or of the host, as device kernels take them.

    Number n of gate begins at `gate + n * gate_stride`, that of up `up_offset` behind it, that of down at
    `down + n * down_stride`. Scales are addresses of float32 by number, 0 where nothing is scaled.
    """

    gate_format: str
    down_format: str
    gate: int
    gate_stride: int
    up_offset: int
    down: int
    down_stride: int
    gate_scale: int
    up_scale: int
    down_scale: int
