"""What layers compute with: the operations that a pass is made of, wherever its tensors are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.lanes import Lanes
from strata_runtime.layers.reach import Part, Reach
from strata_runtime.native import NativeModule
from strata_runtime.native_layers import HeadRules, HeadShape


@dataclass(frozen=True, slots=True)
class Activation:
    """Rows that matrices multiply: `values` float32 [tokens, columns], contiguous.

    `quantised`: where kernels want them so, memory for the same rows in 8-bit blocks; who writes `values` fills it.
    """

    values: torch.Tensor
    quantised: torch.Tensor | None = None

    @property
    def address(self) -> int:
        """Where the values are."""
        return self.values.data_ptr()

    @property
    def quantised_address(self) -> int:
        """Where the 8-bit blocks are; 0 where there are none."""
        return 0 if self.quantised is None else self.quantised.data_ptr()


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix [features, inputs], and what multiplies its products."""

    stored: Stored
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class RouterRule:
    """How experts are chosen from their logits. `bias`: float32 [experts], added to scores for the choice alone."""

    experts: int
    top_k: int
    sigmoid: bool
    normalised: bool
    scale: float
    bias: torch.Tensor | None


class Products(Protocol):
    """Matrices that multiply the same rows."""

    def __call__(self, x: Activation, outs: Sequence[torch.Tensor]) -> None:
        """Write the products to `outs`, float32 [tokens, features] of each matrix."""
        ...

    def add(self, x: Activation, out: torch.Tensor, scratch: torch.Tensor) -> None:
        """Add the product of the one matrix to `out`; `scratch` is like it, and undefined afterwards."""
        ...


Embed = Callable[[torch.Tensor, torch.Tensor], None]
"""Writes the rows of ids [tokens] to the second tensor, float32 [tokens, columns]."""


class Compute(Protocol):
    """The operations of layers on tensors of one device. All tensors are contiguous float32 where nothing else is said.

    Up to `MAX_WINDOW` tokens, each one's bits are those of computing it alone.
    """

    @property
    def native(self) -> NativeModule: ...  # noqa: D102

    @property
    def lanes(self) -> Lanes: ...  # noqa: D102

    def working(self, lane: int) -> AbstractContextManager[None]:
        """Let the calling thread work on a lane for a while: that of windows goes first, others let it."""
        ...

    def settle(self) -> None:
        """Wait until what the calling thread asked for is done, so that another lane can read it."""
        ...

    def passing(self) -> AbstractContextManager[None]:
        """Go around whatever is computed."""
        ...

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Allocate a tensor on the device."""
        ...

    def activation(self, tokens: int, columns: int) -> Activation:
        """Allocate rows that matrices are to multiply."""
        ...

    def narrow(self, x: Activation, columns: int) -> Activation:
        """Look at the begin of `x`'s memory as at rows of fewer columns."""
        ...

    def constant(self, values: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device, as float32."""
        ...

    def token_ids(self, ids: Sequence[int]) -> torch.Tensor:
        """Return token ids as `Embed` takes them."""
        ...

    def products(self, weights: Sequence[Weight]) -> Products:
        """Take matrices with the same number of inputs."""
        ...

    def embedding(self, weight: Stored) -> Embed:
        """Take a matrix whose rows are asked for by number."""
        ...

    def quantise(self, x: Activation) -> None:
        """Fill the 8-bit blocks of rows whose values were written by other means."""
        ...

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: Activation) -> None:
        """out = x / sqrt(mean(x^2) + eps) * weight by rows [rows, columns]; `out` may lie on `x`."""
        ...

    def silu_multiply(self, gate: torch.Tensor, up: torch.Tensor, out: Activation) -> None:
        """out = silu(gate) * up; `out` may lie on `gate`, which is undefined afterwards."""
        ...

    def new_cache(self, shape: tuple[int, int, int, int, int], angles: torch.Tensor) -> KVCache:
        """Allocate a cache [layers, 2, kv_heads, capacity, head_dim]. Raises `MemoryError`."""
        ...

    def cache_bytes(self, values: int) -> int:
        """Memory that so many values of a cache take."""
        ...

    def reach(self, parts: Sequence[tuple[int, KVCache]]) -> Reach:
        """Look at caches as a pass over so many further tokens of each does: of one, or of several in a window."""
        ...

    def prepare_heads(
        self,
        shape: HeadShape,
        rules: HeadRules,
        part: Part,
        layer: int,
        heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> None:
        """Norm, scale and rotate a part's queries in place, and add its keys and values to the cache.

        heads: queries, keys and values of the whole pass. See `NativeModule`.
        """
        ...

    def attend(self, shape: HeadShape, part: Part, layer: int, queries: torch.Tensor, out: Activation) -> None:
        """out [tokens, heads * elements]: what a part's prepared queries find, each up to its own position.

        Those of a part that is not the whole pass are left to be quantised.
        """
        ...

    def choose(self, rule: RouterRule, logits: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> None:
        """Write ids (int32) and weights [tokens, top_k] of the best experts: see `DeviceKernels.router_topk`."""
        ...
