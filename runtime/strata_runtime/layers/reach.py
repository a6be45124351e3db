"""What one pass reads and writes of a KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.native import LayerCache


@dataclass(frozen=True, slots=True)
class Reach:
    """Made once per pass over `tokens` tokens, behind the `start` positions that were filled.

    `layers`: what kernels are told of each layer. `angles`: where the rotary angles are. `data`: the cache's, up to the
    pass's last position, which attention of prompts reads. `mask`: [tokens, positions], -inf where a token may not
    look; empty where it is not used.
    """

    tokens: int
    start: int
    layers: tuple[LayerCache, ...]
    angles: int
    data: torch.Tensor
    mask: torch.Tensor
