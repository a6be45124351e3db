"""Element-wise functions whose bits do not depend on how many tokens share a pass."""

from __future__ import annotations

from collections.abc import Callable

import torch

from strata_runtime.params import MAX_WINDOW


def by_token(x: torch.Tensor, apply: Callable[[torch.Tensor], object]) -> None:
    """Apply an in-place function to `x` [tokens, features], contiguous: token by token up to `MAX_WINDOW` tokens.

    torch computes exp in vectors, and the elements that fill none one by one, which rounds differently: in one call
    over several tokens other elements would be those.
    """
    if 1 < x.shape[0] <= MAX_WINDOW:
        for row in x.unbind(0):
            apply(row)
    else:
        apply(x)
