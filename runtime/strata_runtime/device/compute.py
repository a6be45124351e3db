"""The operations of layers as device kernels: on the stream of a GPU, or inline on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Lock

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.device.inputs import Inputs
from strata_runtime.device.precision import Precision
from strata_runtime.device.streams import make_stream, sleep_until_done
from strata_runtime.device.weights import Placed, Uploader
from strata_runtime.layers.compute import Activation, Embed, RouterRule, Weight
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.lanes import WINDOWS, Lanes
from strata_runtime.layers.reach import Part, Reach
from strata_runtime.layers.threads import cores_for_the_pool
from strata_runtime.native import NativeModule
from strata_runtime.native_layers import DeviceCache, HeadRules, HeadShape

_BLOCK = 32  # columns that share a scale of a quantised row

_COMES_AGAIN = 512
"""Numbers of tokens that this divides come again: those of chunks, and few others."""

_BACKENDS = Lock()
"""Which backends torch may choose is said for the whole process."""

_WITHOUT_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN, which is faster for many tokens, but plans for up to half a second for each new number of them."""


class DeviceCompute:
    """Kernels of a module on tensors of one torch device. Implements `Compute`.

    `is_gpu`: whether windows are a GPU's, or do as those of a GPU do. `most_rows`: tokens of a pass that the kernels of
    windows take; larger ones are a library's matrix products.
    """

    def __init__(
        self,
        native: NativeModule,
        device: torch.device,
        precision: Precision,
        uploader: Uploader,
        lanes: Lanes,
        *,
        is_gpu: bool,
        most_rows: int,
    ) -> None:
        self.device, self.is_gpu, self.most_rows = device, is_gpu, most_rows
        self.lanes = lanes
        self._inputs = {WINDOWS: Inputs(device)}
        self.precision = precision
        self.uploader = uploader
        self._native = native
        self._workspaces: dict[tuple[int, HeadShape, int, int], torch.Tensor] = {}

    @property
    def native(self) -> NativeModule:
        """See `Compute`."""
        return self._native

    @property
    def inputs(self) -> Inputs:
        """What a replayed graph of the calling thread's lane reads: token ids and positions."""
        return self._inputs[self.lanes.current]

    @contextmanager
    def working(self, lane: int) -> Iterator[None]:
        """See `Compute`: on a stream of the highest or the lowest priority."""
        if lane not in self._inputs:
            self._inputs[lane] = Inputs(self.device)
        with self.lanes.entered(lane), cores_for_the_pool():
            if self.device.type != "cuda":
                yield
                return
            stream = make_stream(self.device, goes_first=lane == WINDOWS)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                yield
                self.settle()

    def settle(self) -> None:
        """See `Compute`."""
        if self.device.type == "cuda":
            sleep_until_done(self.device)

    @property
    def stream(self) -> int:
        """The stream that kernels are launched on; 0 on a CPU."""
        return torch.cuda.current_stream(self.device).cuda_stream if self.device.type == "cuda" else 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """See `Compute`. A thread has a current device of its own, to which launches on its default stream go."""
        own = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        with cores_for_the_pool(), own:
            yield

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """See `Compute`."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def activation(self, tokens: int, columns: int) -> Activation:
        """See `Compute`. Prompts have no quantised form."""
        return self.rows(tokens, columns) if tokens <= self.most_rows else Activation(self.empty(tokens, columns))

    def rows(self, count: int, columns: int) -> Activation:
        """Allocate rows with a quantised form, where blocks divide them."""
        return Activation(self.empty(count, columns), self.blocks(count, columns))

    def blocks(self, count: int, columns: int) -> torch.Tensor | None:
        """Allocate the quantised form of rows; None where blocks do not divide them."""
        if columns % _BLOCK:
            return None
        return self.empty(count * (columns + columns // _BLOCK * 8), dtype=torch.uint8)

    def narrow(self, x: Activation, columns: int) -> Activation:
        """See `Compute`."""
        tokens = x.values.shape[0]
        return Activation(x.values.view(-1)[: tokens * columns].view(tokens, columns), x.quantised)

    def constant(self, values: torch.Tensor) -> torch.Tensor:
        """See `Compute`."""
        return values.to(self.device, torch.float32).contiguous()

    def token_ids(self, ids: Sequence[int]) -> torch.Tensor:
        """See `Compute`: int32 on the device."""
        return torch.tensor(ids, dtype=torch.int32).to(self.device)

    def products(self, weights: Sequence[Weight]) -> DeviceProducts:
        """See `Compute`."""
        placed = tuple(self.uploader.place(weight.stored, weight.scale) for weight in weights)
        return DeviceProducts(self, placed)

    def embedding(self, weight: Stored) -> Embed:
        """See `Compute`."""
        columns, form = weight.shape[1], weight.form.name
        table = torch.from_numpy(weight.data.copy()).to(self.device)

        def embed(ids: torch.Tensor, out: torch.Tensor) -> None:
            kernels = self._native.device
            kernels.embed(form, columns, table.data_ptr(), ids.data_ptr(), len(ids), out.data_ptr(), self.stream)

        return embed

    def quantise(self, x: Activation) -> None:
        """See `Compute`."""
        if x.quantised is not None:
            rows, columns = x.values.shape
            self._native.device.quantize_rows(rows, columns, x.address, x.quantised_address, self.stream)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: Activation) -> None:
        """See `Compute`."""
        rows, columns = x.shape
        where = x.data_ptr(), weight.data_ptr(), eps, out.address, out.quantised_address
        self._native.device.rms_norm(rows, columns, *where, self.stream)

    def silu_multiply(self, gate: torch.Tensor, up: torch.Tensor, out: Activation) -> None:
        """See `Compute`."""
        rows, columns = gate.shape
        where = gate.data_ptr(), up.data_ptr(), out.address, out.quantised_address
        self._native.device.silu_multiply(rows, columns, *where, self.stream)

    def new_cache(self, shape: tuple[int, int, int, int, int], angles: torch.Tensor) -> KVCache:
        """See `Compute`."""
        try:
            return KVCache(self.empty(*shape, dtype=self.precision.cache), angles)
        except RuntimeError as problem:
            raise MemoryError(str(problem)) from None

    def cache_bytes(self, values: int) -> int:
        """See `Compute`."""
        return self.precision.cache.itemsize * values

    def reach(self, parts: Sequence[tuple[int, KVCache]]) -> Reach:
        """See `Compute`."""
        for number, (_, cache) in enumerate(parts):
            self.inputs.position(number).fill_(cache.length)
        return self.window_reach(parts)

    def window_reach(self, parts: Sequence[tuple[int, KVCache]]) -> Reach:
        """Look at caches behind the positions that `inputs` will say."""
        first, made = 0, []
        for number, (tokens, cache) in enumerate(parts):
            made.append(Part(tokens, cache.length, cache, cache.angles, first, number))
            first += tokens
        return tuple(made)

    def _layer(self, part: Part, layer: int) -> DeviceCache:
        return part.address(layer), self.precision.cache_name, part.cache.capacity

    def prepare_heads(
        self,
        shape: HeadShape,
        rules: HeadRules,
        part: Part,
        layer: int,
        heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> None:
        """See `Compute`."""
        position = self.inputs.position(part.number).data_ptr()
        queries, keys, values = map(part.rows, heads)
        cache = self._layer(part, layer)
        self._native.device.prepare_heads(
            shape,
            rules,
            cache,
            part.tokens,
            position,
            part.cache.angles.data_ptr(),
            queries,
            keys,
            values,
            self.stream,
        )

    def attend(self, shape: HeadShape, part: Part, layer: int, queries: torch.Tensor, out: Activation) -> None:
        """See `Compute`."""
        if part.tokens > self.most_rows:
            _attend_many(shape, queries, out.values, part.filled(layer))
            return
        cache = self._layer(part, layer)
        is_whole = part.tokens == queries.shape[0]
        self._native.device.attend(
            shape,
            cache,
            part.tokens,
            self.inputs.position(part.number).data_ptr(),
            part.rows(queries),
            part.rows(out.values),
            out.quantised_address if is_whole else 0,
            self._workspace(shape, part.tokens, cache[2]).data_ptr(),
            self.stream,
        )

    def _workspace(self, shape: HeadShape, tokens: int, capacity: int) -> torch.Tensor:
        key = self.lanes.current, shape, tokens, capacity
        if key not in self._workspaces:
            size = self._native.device.attend_workspace(shape, tokens, capacity)
            self._workspaces[key] = torch.zeros(size, dtype=torch.uint8, device=self.device)
        return self._workspaces[key]

    def choose(self, rule: RouterRule, logits: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> None:
        """See `Compute`."""
        bias = 0 if rule.bias is None else rule.bias.data_ptr()
        how = bias, rule.sigmoid, rule.normalised, rule.scale
        self._native.device.router_topk(
            logits.shape[0],
            rule.experts,
            rule.top_k,
            logits.data_ptr(),
            *how,
            ids.data_ptr(),
            weights.data_ptr(),
            self.stream,
        )

    def floats(self, placed: Placed) -> torch.Tensor:
        """Return a matrix as the matrix products of prompts take it, [rows, columns]."""
        _, rows, columns, _, _ = placed.matrix
        out = self.empty(rows, columns, dtype=self.precision.products)
        self._native.device.to_floats(placed.matrix, self.precision.products_name, out.data_ptr(), self.stream)
        return out


class DeviceProducts:
    """Device matrices. Implements `Products`."""

    __slots__ = ("_compute", "_placed")

    def __init__(self, compute: DeviceCompute, placed: tuple[Placed, ...]) -> None:
        self._compute, self._placed = compute, placed

    def __call__(self, x: Activation, outs: Sequence[torch.Tensor]) -> None:
        """See `Products`."""
        if x.values.shape[0] > self._compute.most_rows:
            self._multiply(x.values, outs)
        else:
            self._launch(x, outs, accumulate=False)

    def add(self, x: Activation, out: torch.Tensor, scratch: torch.Tensor) -> None:
        """See `Products`."""
        if x.values.shape[0] > self._compute.most_rows:
            self._multiply(x.values, (scratch,))
            out.add_(scratch)
        else:
            self._launch(x, (out,), accumulate=True)

    def _launch(self, x: Activation, outs: Sequence[torch.Tensor], *, accumulate: bool) -> None:
        compute = self._compute
        pairs = [(placed.matrix, out.data_ptr()) for placed, out in zip(self._placed, outs, strict=True)]
        where = x.address, x.quantised_address
        compute.native.device.linear(pairs, x.values.shape[0], *where, accumulate, compute.stream)

    def _multiply(self, x: torch.Tensor, outs: Sequence[torch.Tensor]) -> None:
        """Multiply many rows: a library's matrix products on decoded weights."""
        rows = x.to(self._compute.precision.products)
        for placed, out in zip(self._placed, outs, strict=True):
            out.copy_(rows @ self._compute.floats(placed).T)


def _attend_many(shape: HeadShape, queries: torch.Tensor, out: torch.Tensor, data: torch.Tensor) -> None:
    """Attend blockwise with prepared queries: the last positions are the queries' own."""
    heads, _, dim = shape
    tokens = queries.shape[0]
    wanted = queries.view(1, tokens, heads, dim).transpose(1, 2).to(data.dtype)
    keys, values = data[:, None].unbind(0)
    mask = causal_lower_right(tokens, keys.shape[2])
    with _BACKENDS, nullcontext() if tokens % _COMES_AGAIN == 0 else sdpa_kernel(_WITHOUT_PLANS):
        found = scaled_dot_product_attention(wanted, keys, values, mask, scale=1.0, enable_gqa=True)
    out.view(tokens, heads, dim).copy_(found[0].transpose(0, 1))
