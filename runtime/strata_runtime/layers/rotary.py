"""Rotary positions in the half style: element i turns with element i + dim / 2."""

from __future__ import annotations

import torch

from strata_runtime.checkpoint.network import Network


def rotary_angles(network: Network, positions: int) -> torch.Tensor:
    """Return float32 [positions, 2, rope_dim / 2]: cosines, then sines, of the angles of each position."""
    steps = torch.arange(0, network.rope_dim, 2, dtype=torch.float32) / network.rope_dim
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * (1.0 / network.rope_theta**steps)
    return torch.stack((angles.cos(), angles.sin()), dim=1)
