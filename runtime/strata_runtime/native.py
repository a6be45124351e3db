"""Typed protocol of the compiled module `_native` in a kernels package.

Tensors cross as raw addresses (`tensor.data_ptr()`): float32, row-major, contiguous, on the CPU. Callers keep the
memory alive for the call; `Matrix` and `Experts` keep `owner` alive for as long as they live. Every method raises
`ValueError` on sizes or ids that do not fit, trusts that memory of the sizes it states is at the addresses, and
releases the GIL while the pool works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strata_runtime.native_device import DeviceKernels
from strata_runtime.native_layers import HeadRules, HeadShape

ABI_VERSION = 14
"""Version of the protocol below; a compiled module that says another one is refused before it is imported."""


class Pool(Protocol):
    """Pinned worker threads. One job at a time; calls from several threads are serialised.

    A job that does not get the pool within `verify.timeout`, because another thread's never ends, raises `PoolBusy`.
    """

    @property
    def threads(self) -> int:
        """Workers, the calling thread included."""
        ...

    @property
    def cpus(self) -> list[int]:
        """Those that workers, without the calling thread, are pinned to."""
        ...

    def behind(self) -> Pool:
        """Return the same workers for jobs that let all others go first: they step aside in the middle, and wait."""
        ...

    def hold(self) -> None:
        """Keep the jobs of `behind` from working until as many calls of `let_go`."""
        ...

    def let_go(self) -> None:
        """See `hold`."""
        ...

    def close(self) -> None:
        """Stop and join the workers; later jobs raise `RuntimeError`. Idempotent."""
        ...


class Layout(Protocol):
    """The compute layout of one format for one pool: groups of `rows` rows stand side by side in memory."""

    @property
    def rows(self) -> int: ...  # noqa: D102

    def bytes(self, rows: int, columns: int) -> int:
        """Bytes of a whole matrix in it."""
        ...


class Matrix(Protocol):
    """Weight of one linear layer in stored blocks: `rows` output features of `columns` input features."""

    @property
    def rows(self) -> int: ...  # noqa: D102
    @property
    def columns(self) -> int: ...  # noqa: D102


class Experts(Protocol):
    """Routed experts of one layer: gate and up `[width, hidden]`, down `[hidden, width]` each, in stored blocks."""

    @property
    def count(self) -> int: ...  # noqa: D102


class HostHalf(Protocol):
    """The host half of windows: words and blocks that both halves see, and a thread that answers with the pool.

    Every method raises `StallError` of the module with a report once the halves do not meet: a timeout, a word that
    does not agree with its data, a plan that cannot be followed. Its words are released then, and it refuses to go on.
    """

    @property
    def plan(self) -> int:
        """Address of the plan block; see `DeviceKernels.PLAN_BYTES`."""
        ...

    @property
    def rows(self) -> int:
        """Address of the rows, float32 [tokens * top_k, hidden]."""
        ...

    @property
    def ring(self) -> int:
        """The last ring value; numbers end at 2**32."""
        ...

    def make_plan(self, layer: int, tokens: int, top_k: int, all_resident: bool, ids: int, weights: int) -> None:
        """Write the plan block as the device half does; see `DeviceKernels.resident_plan`."""
        ...

    def publish(self, layer: int, tokens: int, top_k: int, x: int, ids: int, weights: int) -> int:
        """Ring the doorbell with x [tokens, hidden], ids and weights (0: none); return the ring value."""
        ...

    def wait(self, signal: str, ring: int) -> None:
        """Wait until a word has reached `ring` and the data behind it are there."""
        ...

    @property
    def memory(self) -> Sequence[tuple[int, int]]:
        """Address and bytes of all that both halves see, in whole pages. This and what follows is for a GPU's half."""
        ...

    @property
    def doorbell(self) -> int:
        """Address of the doorbell block."""
        ...

    def word(self, signal: str) -> int:
        """Address of a word."""
        ...

    def number(self, signal: str) -> int:
        """Which of all signals it is, from 0; the error word of a wait holds one more."""
        ...

    def stamp(self, signal: str) -> int:
        """Where the ring value of the data behind a word stands; 0 for a word without data."""
        ...

    def begin_window(self) -> None:
        """Look for the doorbell without sleeping from now on."""
        ...

    def await_answers(self, rings: int) -> None:
        """Sleep until so many more ring values were answered, the words were released, or the timeout has passed."""
        ...

    def end_window(self, rings: int) -> None:
        """Take note that a window has ended, which has used so many ring values; raise what its words say."""
        ...

    def stop(self, seconds: float = 2.0) -> bool:
        """Release every word; return whether the thread ended within the time. Idempotent.

        One that did not end may have the pool for ever.
        """
        ...

    def report(self) -> str:
        """Say how every word stands, and what the thread does for how long."""
        ...


SignalFault = tuple[str, str, int, int]
"""What a test does to a signal: its name; `late`, `never`, `early` or `twice`; ring value; delay in nanoseconds."""

ExpertPart = tuple[str, Sequence[int], Sequence[float], Layout | None]
"""One of the three matrices of all experts: format, each one's address, each one's scale, layout (None: as stored).

A scale multiplies the matrix's products; with an empty sequence none is scaled.
"""


LayerCache = tuple[int, int, int]
"""Keys and values of a layer, [2, heads, capacity, elements]; their capacity, and how many positions are filled."""


class NativeModule(Protocol):
    """What `_native` exports."""

    ABI_VERSION: int
    StallError: type[RuntimeError]
    PoolBusy: type[RuntimeError]  # a StallError
    ISA: str  # micro-kernel level in use, e.g. "avx512vnni"

    @property
    def device(self) -> DeviceKernels:
        """The device kernels."""
        ...

    def make_pool(self, knobs: Sequence[tuple[str, str]]) -> Pool:
        """Start a pool. `knobs`: (name, canonical text) of the native knobs; the C++ parser reads them."""
        ...

    def layout(self, pool: Pool, format: str) -> Layout | None:
        """Return the compute layout of a format; None where the pool's kernels read blocks as they are stored."""
        ...

    def arrange(self, pool: Pool, layout: Layout, rows: int, columns: int, blocks: int, out: int) -> None:
        """Bring stored rows at `blocks` into a compute layout at `out`, which has `layout.bytes(rows, columns)` bytes.

        Groups do not depend on one another: a matrix can be arranged in pieces of whole groups, one after the other.
        """
        ...

    def make_matrix(
        self,
        format: str,
        rows: int,
        columns: int,
        address: int,
        bytes: int,
        owner: object,
        scale: float = 1.0,
        layout: Layout | None = None,
    ) -> Matrix:
        """Wrap weights without copying. `bytes` must be what the rows take as they are stored, or in `layout`.

        `scale` multiplies the matrix's products. A matrix in a layout is for the pool that the layout is of.
        """
        ...

    def make_experts(
        self, hidden: int, width: int, gate: ExpertPart, up: ExpertPart, down: ExpertPart, owner: object
    ) -> Experts:
        """Wrap one layer's experts without copying. The three matrices may be in three formats."""
        ...

    def make_host_half(
        self,
        pool: Pool,
        layers: Sequence[tuple[Experts, int, int]],
        slots: int,
        owner: object,
        hidden: int,
        heavy_from: float | None,
        timeout: int,
        present: Sequence[str],
        pcie_share: int = 0,
        entries: int = 0,
        faults: Sequence[SignalFault] = (),
        wedge: int = -1,
    ) -> HostHalf:
        """Start a host half, which keeps `pool` and shares it with whoever else has it.

        layers: experts, the address of their slots by expert, int32, -1 for the CPU's, and where uint8 [experts] become
        1 for those that a window asks for (0: nowhere); `owner` keeps that memory alive. slots: how many there are.
        heavy_from: experts with an entry of at least this weight come first, and then `partial_ready`; None is no
        split. timeout: nanoseconds of a wait. present: the signals that exist; without `plan_ready` the device half
        plans. pcie_share: see `DeviceKernels.resident_plan`. entries: where int64 [2] grow by the entries of doorbells
        whose expert has a slot, and by all (0: nowhere). faults, wedge: a test's; a call of the pool comes back
        once `wedge`, a file descriptor, can be read.
        """
        ...

    def linear(self, pool: Pool, matrix: Matrix, tokens: int, x: int, out: int) -> None:
        """out[tokens, rows] = x[tokens, columns] @ matrix.T. Bits of a row do not depend on `tokens` or threads."""
        ...

    def experts(self, pool: Pool, layer: Experts, tokens: int, top_k: int, x: int, ids: int, out: int) -> None:
        """out[tokens * top_k, hidden]: row (t, k) = down(silu(gate(x_t)) * up(x_t)) of expert ids[t, k] (int32).

        Unweighted. An id of -1 gives a row of zeros; other ids outside [0, count) raise `ValueError`.
        """
        ...

    def combine(self, tokens: int, top_k: int, hidden: int, rows: int, weights: int, out: int) -> None:
        """out[t] += sum over k ascending of weights[t, k] * rows[t * top_k + k]; a weight of exactly 0 adds nothing."""
        ...

    def rms_norm(self, pool: Pool, rows: int, columns: int, x: int, weight: int, eps: float, out: int) -> None:
        """out[rows, columns] = x / sqrt(mean(x^2) + eps) * weight[columns], by rows; `out` may be `x`."""
        ...

    def prepare_heads(
        self,
        pool: Pool,
        shape: HeadShape,
        rules: HeadRules,
        cache: LayerCache,
        tokens: int,
        angles: int,
        queries: int,
        keys: int,
        values: int,
    ) -> None:
        """Norm, scale and rotate queries [tokens, heads, elements] in place; add keys and values to the cache.

        keys, values: [tokens, kv_heads, elements]; keys are normed and rotated too. angles: cosines and sines
        [capacity, 2, rotated / 2] of every position; element i of a head turns with element i + rotated / 2.
        """
        ...

    def attend(self, pool: Pool, shape: HeadShape, cache: LayerCache, tokens: int, queries: int, out: int) -> None:
        """out[tokens, heads, elements]: what prepared queries find, each up to its own position.

        The keys and values of all tokens are in the cache, behind the filled positions. Bits of a token do not depend
        on the others or on threads.
        """
        ...

    def quantize(self, format: str, rows: int, columns: int, x: int, out: int, pool: Pool | None = None) -> None:
        """Encode float32 [rows, columns] into blocks of `format` at `out`; the same bits with and without a pool."""
        ...

    def dequantize(self, format: str, rows: int, columns: int, blocks: int, out: int, pool: Pool | None = None) -> None:
        """Decode blocks to float32 with the generated scalar decoder."""
        ...

    def checksum(self, pool: Pool, data: int, bytes: int) -> int:
        """Read `bytes` bytes at `data` once, all workers together, as fast as memory gives them; return their sum."""
        ...

    def parse_knob(self, name: str, text: str) -> str:
        """Parse one knob with the generated C++ parser and print it canonically. Raises `ValueError` as Python does."""
        ...
