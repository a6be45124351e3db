"""What a window's kernels read that is another for each window."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from strata_runtime.params import MAX_WINDOW

_POSITION, _WRITTEN = MAX_WINDOW, MAX_WINDOW + 1


class Inputs:
    """Token ids and position of a window, int32 on the device, written by one copy; and a ring value beside them."""

    def __init__(self, device: torch.device) -> None:
        self._staged = torch.zeros(_WRITTEN, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._memory = torch.zeros(_WRITTEN + 1, dtype=torch.int32, device=device)

    def ids(self, tokens: int) -> torch.Tensor:
        """The first token ids of the window, [tokens]."""
        return self._memory[:tokens]

    @property
    def position(self) -> torch.Tensor:
        """Positions that were filled before the window, [1]."""
        return self._memory[_POSITION : _POSITION + 1]

    @property
    def ring(self) -> torch.Tensor:
        """Ring value that those of the window come behind, [1]: the bits of a 32-bit number without sign."""
        return self._memory[_WRITTEN:]

    def write(self, ids: Sequence[int], position: int) -> None:
        """Write ids and position on the current stream. What was written before must have been read."""
        self._staged[: len(ids)] = torch.tensor(ids, dtype=torch.int32)
        self._staged[_POSITION] = position
        self._memory[:_WRITTEN].copy_(self._staged, non_blocking=True)
