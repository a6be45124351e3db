"""Memory of this process that a GPU addresses as the process does."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch

from strata_runtime.errors import UserError
from strata_runtime.sizes import size

_MAPPED = 3  # portable, and in the GPU's address space


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


class Registered:
    """Ranges that stay registered until `close`. On a CPU nothing needs to be."""

    def __init__(self, device: torch.device, ranges: Iterable[tuple[int, int]]) -> None:
        """`ranges`: address and bytes of each. Raises `UserError` when the GPU cannot have one of them."""
        self._device = device
        self._addresses: list[int] = []
        for address, length in ranges if device.type == "cuda" else ():
            if int(_runtime().cudaHostRegister(address, length, _MAPPED)) != 0:
                self.close()
                raise UserError(
                    f"the GPU cannot map {size(length)} of this process's memory: raise the limit of locked memory "
                    "(ulimit -l)"
                )
            self._addresses.append(address)

    def close(self) -> None:
        """Let go of them, behind whatever the GPU was given so far. Idempotent."""
        if self._addresses:
            with suppress(RuntimeError):  # of an earlier launch: nothing runs any more then
                torch.cuda.synchronize(self._device)
        while self._addresses:
            _runtime().cudaHostUnregister(self._addresses.pop())
