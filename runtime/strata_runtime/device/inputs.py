"""What a window's kernels read that is another for each window."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from strata_runtime.params import MAX_WINDOW

_POSITIONS, _WRITTEN = MAX_WINDOW, 2 * MAX_WINDOW


class Inputs:
    """Token ids of a window and the position of each of its parts, int32 on the device, written by one copy; and a ring
    value beside them.
    """

    def __init__(self, device: torch.device) -> None:
        self._staged = torch.zeros(_WRITTEN, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._numbers = self._staged.numpy()
        self._memory = torch.zeros(_WRITTEN + 1, dtype=torch.int32, device=device)

    def ids(self, tokens: int) -> torch.Tensor:
        """The first token ids of the window, [tokens]."""
        return self._memory[:tokens]

    def position(self, part: int) -> torch.Tensor:
        """Positions that were filled before the window in the cache of a part, [1]."""
        return self._memory[_POSITIONS + part : _POSITIONS + part + 1]

    @property
    def ring(self) -> torch.Tensor:
        """Ring value that those of the window come behind, [1]: the bits of a 32-bit number without sign."""
        return self._memory[_WRITTEN:]

    def write(self, ids: Sequence[int], positions: Sequence[int]) -> None:
        """Write ids and positions on the current stream. What was written before must have been read."""
        self._numbers[: len(ids)] = ids
        self._numbers[_POSITIONS : _POSITIONS + len(positions)] = positions
        self._memory[:_WRITTEN].copy_(self._staged, non_blocking=True)
