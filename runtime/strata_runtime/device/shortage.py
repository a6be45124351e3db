"""What is said when a GPU has no memory left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from strata_runtime.errors import UserError
from strata_runtime.sizes import size


@contextmanager
def told_what_to_lower(doing: str) -> Iterator[None]:
    """Raise `UserError` with what can be lowered instead of torch's error for want of memory."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        free, total = torch.cuda.mem_get_info()
        raise UserError(
            f"the GPU's memory is not enough for {doing}: {size(free)} of {size(total)} are free; lower expert.cache "
            "(slots of experts), engine.context (the KV cache) or engine.prompt_chunk (activations), or raise "
            "vram.reserve_mib"
        ) from None
