"""The operations of layers on the pool: tensors of the CPU, weights where they are stored or arranged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.nn.functional import scaled_dot_product_attention, silu

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.by_token import by_token
from strata_runtime.layers.compute import Activation, Embed, RouterRule, Weight
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.lanes import WINDOWS, Lanes
from strata_runtime.layers.placing import InFile, Placer
from strata_runtime.layers.reach import Part, Reach
from strata_runtime.layers.threads import cores_for_the_pool
from strata_runtime.native import Matrix, NativeModule, Pool
from strata_runtime.native_device import HOST_STREAM
from strata_runtime.native_layers import HeadRules, HeadShape
from strata_runtime.params import MAX_WINDOW

_NO_MASK = torch.empty(0)


class PoolCompute:
    """The native module, and the pool that it works on. All layers of a network share one, and look when they run.

    Implements `Compute`.
    """

    __slots__ = ("_behind", "_pool", "lanes", "native", "placer")

    def __init__(
        self, native: NativeModule, pool: Pool, placer: Placer | None = None, lanes: Lanes | None = None
    ) -> None:
        """`placer` says where weights go while they are made; they stay in the file unless given."""
        self.native, self._pool = native, pool
        self._behind: Pool | None = None
        self.placer = placer or InFile()
        self.lanes = lanes or Lanes()

    @property
    def pool(self) -> Pool:
        """The pool as the calling thread's lane has it: that of windows goes first."""
        if self.lanes.current == WINDOWS:
            return self._pool
        if self._behind is None:
            self._behind = self._pool.behind()
        return self._behind

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self._pool, self._behind = pool, None

    @contextmanager
    def working(self, lane: int) -> Iterator[None]:
        """See `Compute`."""
        with self.lanes.entered(lane), cores_for_the_pool():
            yield

    def settle(self) -> None:
        """See `Compute`: everything is done in place."""

    @contextmanager
    def passing(self) -> Iterator[None]:
        """See `Compute`."""
        with cores_for_the_pool():
            yield

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """See `Compute`."""
        return torch.empty(shape, dtype=dtype)

    def activation(self, tokens: int, columns: int) -> Activation:
        """See `Compute`."""
        return Activation(torch.empty(tokens, columns))

    def narrow(self, x: Activation, columns: int) -> Activation:
        """See `Compute`."""
        tokens = x.values.shape[0]
        return Activation(x.values.view(-1)[: tokens * columns].view(tokens, columns))

    def constant(self, values: torch.Tensor) -> torch.Tensor:
        """See `Compute`."""
        return values.to(torch.float32).contiguous()

    def token_ids(self, ids: Sequence[int]) -> torch.Tensor:
        """See `Compute`."""
        return torch.tensor(ids)

    def products(self, weights: Sequence[Weight]) -> PoolProducts:
        """See `Compute`."""
        return PoolProducts(self, tuple(self._matrix(weight) for weight in weights))

    def _matrix(self, weight: Weight) -> Matrix:
        rows, columns = weight.stored.shape
        place = self.placer.place(weight.stored)
        return self.native.make_matrix(
            weight.stored.form.name, rows, columns, place.address, place.bytes, place.owner, weight.scale, place.layout
        )

    def embedding(self, weight: Stored) -> Embed:
        """See `Compute`."""
        rows, columns = weight.shape
        row_bytes, first, form = len(weight.data) // rows, weight.address, weight.form.name

        def embed(ids: torch.Tensor, out: torch.Tensor) -> None:
            to, step = out.data_ptr(), columns * out.itemsize
            for index, row in enumerate(ids.tolist()):
                self.native.dequantize(form, 1, columns, first + row * row_bytes, to + index * step)

        return embed

    def quantise(self, x: Activation) -> None:
        """See `Compute`: kernels of the pool do so themselves."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: Activation) -> None:
        """See `Compute`."""
        rows, size = x.shape
        self.native.rms_norm(self.pool, rows, size, x.data_ptr(), weight.data_ptr(), eps, out.address)

    def silu_multiply(self, gate: torch.Tensor, up: torch.Tensor, out: Activation) -> None:
        """See `Compute`."""
        by_token(gate, _silu)
        torch.mul(gate, up, out=out.values)

    def new_cache(self, shape: tuple[int, int, int, int, int], angles: torch.Tensor) -> KVCache:
        """See `Compute`."""
        try:
            return KVCache(torch.empty(shape), angles)
        except RuntimeError as problem:
            raise MemoryError(str(problem)) from None

    def cache_bytes(self, values: int) -> int:
        """See `Compute`."""
        return 4 * values

    def reach(self, parts: Sequence[tuple[int, KVCache]]) -> Reach:
        """See `Compute`."""
        first, made = 0, []
        for number, (tokens, cache) in enumerate(parts):
            start, stop = cache.length, cache.length + tokens
            is_window = tokens <= MAX_WINDOW
            mask = _NO_MASK if is_window else torch.full((tokens, stop), -math.inf).triu_(start + 1)
            made.append(Part(tokens, start, cache, mask, first, number))
            first += tokens
        return tuple(made)

    def prepare_heads(
        self,
        shape: HeadShape,
        rules: HeadRules,
        part: Part,
        layer: int,
        heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> None:
        """See `Compute`."""
        queries, keys, values = map(part.rows, heads)
        cache = part.address(layer), part.cache.capacity, part.start
        self.native.prepare_heads(
            self.pool, shape, rules, cache, part.tokens, part.cache.angles.data_ptr(), queries, keys, values
        )

    def attend(self, shape: HeadShape, part: Part, layer: int, queries: torch.Tensor, out: Activation) -> None:
        """See `Compute`."""
        if part.tokens <= MAX_WINDOW:
            cache = part.address(layer), part.cache.capacity, part.start
            self.native.attend(self.pool, shape, cache, part.tokens, part.rows(queries), part.rows(out.values))
        else:
            _attend_many(shape, queries, out.values, part.filled(layer), part.mask)

    def choose(self, rule: RouterRule, logits: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> None:
        """See `Compute`."""
        self.native.device.router_topk(
            logits.shape[0],
            rule.experts,
            rule.top_k,
            logits.data_ptr(),
            0 if rule.bias is None else rule.bias.data_ptr(),
            rule.sigmoid,
            rule.normalised,
            rule.scale,
            ids.data_ptr(),
            weights.data_ptr(),
            HOST_STREAM,
        )


class PoolProducts:
    """Matrices of the pool, one after the other. Implements `Products`."""

    __slots__ = ("_compute", "_matrices")

    def __init__(self, compute: PoolCompute, matrices: tuple[Matrix, ...]) -> None:
        self._compute, self._matrices = compute, matrices

    def __call__(self, x: Activation, outs: Sequence[torch.Tensor]) -> None:
        """See `Products`."""
        native, pool, tokens = self._compute.native, self._compute.pool, x.values.shape[0]
        for matrix, out in zip(self._matrices, outs, strict=True):
            native.linear(pool, matrix, tokens, x.address, out.data_ptr())

    def add(self, x: Activation, out: torch.Tensor, scratch: torch.Tensor) -> None:
        """See `Products`."""
        self(x, (scratch,))
        out.add_(scratch)


def _silu(x: torch.Tensor) -> None:
    silu(x, inplace=True)


def _attend_many(
    shape: HeadShape, queries: torch.Tensor, out: torch.Tensor, data: torch.Tensor, mask: torch.Tensor
) -> None:
    """Attend blockwise. Key heads are the batch, and repeat without a copy over their group."""
    heads, kv_heads, dim = shape
    split = (queries.shape[0], kv_heads, heads // kv_heads, dim)
    wanted, attended = (x.view(split).permute(1, 2, 0, 3) for x in (queries, out))
    keys, values = data[:, :, None].expand(2, *split[1:3], *data.shape[2:]).unbind(0)
    attended.copy_(scaled_dot_product_attention(wanted, keys, values, mask, scale=1.0))
