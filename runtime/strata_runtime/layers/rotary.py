"""Rotary positions in the half style: element i turns with element i + dim / 2."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.network import Network


@dataclass(frozen=True, slots=True)
class RotaryTable:
    """Angles by position: `cos` and `sin` are float32 [positions, 1, 2, dim / 2], `sin` negated in its first half."""

    cos: torch.Tensor
    sin: torch.Tensor

    @staticmethod
    def make(network: Network, positions: int) -> RotaryTable:
        """Compute the angles of the first `positions` positions."""
        half = network.rope_dim // 2
        steps = torch.arange(0, network.rope_dim, 2, dtype=torch.float32) / network.rope_dim
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * (1.0 / network.rope_theta**steps)
        cos, sin = angles.cos().view(-1, 1, 1, half), angles.sin().view(-1, 1, 1, half)
        return RotaryTable(torch.cat((cos, cos), dim=2), torch.cat((-sin, sin), dim=2))

    def rows(self, start: int, count: int) -> RotaryTable:
        """Angles of `count` positions from `start` on, as views."""
        return RotaryTable(self.cos[start : start + count], self.sin[start : start + count])

    def turn(self, x: torch.Tensor) -> None:
        """Turn `x` [tokens, heads, 2, dim / 2] in place, one row of the table per token."""
        other = x.flip(-2).mul_(self.sin)
        torch.addcmul(other, x, self.cos, out=x)
