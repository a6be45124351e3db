"""Typed protocol of the device kernels of a compiled module, on raw addresses as in `native`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from strata_runtime.native_layers import LayerKernels

Which = Literal["all", "at_least", "below"]
"""Rows of the CPU: all, those of at least a weight, or the others."""

GpuFacts = tuple[int, str, str, int, int, str, str]
"""How many GPUs the process sees; of one of them its product name, its architecture (`sm_90`), its free bytes and all
of them; and two versions of CUDA: the newest that the driver knows, and the one that the module was made with."""

FloatType = Literal["f32", "bf16", "f16"]

DeviceMatrix = tuple[str, int, int, int, float]
"""Weights as device kernels read them: format, rows, columns, address, and what products are multiplied by.

Quantised rows stand side by side in groups of 16, the last one filled up with zeros; floats are as they are stored.
`DeviceKernels.arrange` makes them.
"""

HOST_STREAM = 0
"""The stream of kernels that run on the calling thread."""


def quantized_bytes(rows: int, columns: int) -> int:
    """Return the size of what `DeviceKernels.quantize_rows` writes; 32 divides the columns."""
    return rows * (columns + columns // 32 * 8)


class DeviceKernels(LayerKernels, Protocol):
    """Kernels of the device half of a layer.

    On a GPU they are launched on `stream`, a stream of its driver as a number, and addresses are those that the GPU
    reads and writes; a launch that fails raises `RuntimeError`. On a CPU target they run on the calling thread, and
    have run on return; `stream` is `HOST_STREAM` there.

    A window has at most `window.max_tokens` tokens, a token at most `window.max_top_k` picks of `window.max_experts`
    experts; more raises `ValueError`. Ids are int32, and entries are numbered token * top_k + pick. An address of 0
    stands for what is left out, where that is allowed.
    """

    PLAN_BYTES: int
    """Size of a plan block: groups by resident expert and their entries, those of the CPU, and every entry's owner."""
    OWNER_OFFSET: int
    """Where in it the owners are, a byte each: 0 nobody, 1 the device, 2 the CPU."""
    DOORBELL_BYTES: int
    """Size of a doorbell block, behind which the activations lie; it is aligned to 64 bytes."""

    def query(self, number: int) -> GpuFacts:
        """Open a GPU for the process, by its number, and tell what it is.

        Raises `RuntimeError`, in one line: no driver, one that is too old, no GPU, none of this number, one that the
        package has no code for; or the package is for a CPU.
        """
        ...

    def router_topk(
        self,
        tokens: int,
        experts: int,
        top_k: int,
        logits: int,
        bias: int,
        sigmoid: bool,
        normalised: bool,
        scale: float,
        ids: int,
        weights: int,
        stream: int,
    ) -> None:
        """ids, weights [tokens, top_k]: the best experts by score + bias [experts] (0: none), ties by the lower id.

        Scores are the sigmoid or softmax of logits [tokens, experts]; weights are the scores, over their sum + 1e-20
        if `normalised`, times `scale`. Any number of tokens. A NaN counts as the lowest logit, infinities as the
        largest finite numbers.
        """
        ...

    def ecap_redirect(self, tokens: int, top_k: int, cap: int, ids: int, weights: int, stream: int) -> None:
        """Cap the entries of a window, in place: the tail's best cap - top_k stay, others get weight 0.

        Those are redirected round-robin to kept experts. Token 0 keeps all its picks; one token or a cap of at least
        tokens * top_k changes nothing.
        """
        ...

    def tail_skip(
        self,
        tokens: int,
        top_k: int,
        experts: int,
        rank: int,
        slot_of_expert: int,
        ids: int,
        weights: int,
        stream: int,
    ) -> None:
        """Drop, in place, entries of experts without a slot that no token of the window ranks above `rank` by weight.

        Their ids become -1, their weights 0. An id of -1 has no rank. Rank 0 is off.
        """
        ...

    def resident_plan(
        self,
        tokens: int,
        top_k: int,
        experts: int,
        slots: int,
        all_resident: bool,
        ids: int,
        weights: int,
        slot_of_expert: int,
        plan: int,
        error: int,
        stream: int,
        pcie_share: int = 0,
    ) -> None:
        """Write the plan block: who computes which entry. `slot_of_expert`: int32 [experts], -1 for the CPU's.

        Entries of id -1, and of weight exactly 0 where `weights` are given, are nobody's. An id or a slot out of range,
        or in all-resident mode an expert without a slot, makes the plan empty and raises the word at `error` to the
        problem (1: not resident, 2: id, 3: slot) + 256 * entry.

        pcie_share: address of an int32 (0: none). Of the experts without a slot, so many of 1024 parts, rounded to
        whole experts, are the device's too, which reads them from the host: those of the most entries first.
        """
        ...

    def publish(
        self,
        layer: int,
        tokens: int,
        top_k: int,
        hidden: int,
        x: int,
        ids: int,
        weights: int,
        doorbell: int,
        sequence: int,
        base: int,
        offset: int,
        stream: int,
    ) -> None:
        """Copy layer, x [tokens, hidden], ids and weights (0: none) to the doorbell block, then raise `sequence`.

        Its new value is the word at `base` (0: none) plus `offset`.
        """
        ...

    def flag_wait(
        self,
        word: int,
        base: int,
        offset: int,
        stamp: int,
        error: int,
        error_value: int,
        looks: int,
        nanoseconds: int,
        stream: int,
        waited: int = 0,
    ) -> None:
        """Wait until the word is at least the word at `base` (0: none) plus `offset`.

        After as many looks or nanoseconds (0: no such limit; one is needed) the word at `error` is raised to
        `error_value` instead. stamp: where the ring value of the data behind the word stands (0: nowhere); word and
        stamp must be exactly what is waited for then, and the error word gets 256 more for a word that is ahead, and
        512 for data of another ring value. The nanoseconds of the wait are added to the uint64 at `waited` (0:
        nowhere).
        """
        ...

    def time_stamp(self, stamp: int, phase: int, stream: int) -> None:
        """Write the device's time in nanoseconds, and `phase`, to the uint64 [2] at `stamp`."""
        ...

    def rows_copy(
        self,
        entries: int,
        hidden: int,
        which: Which,
        threshold: float,
        zero_others: bool,
        source: int,
        owner: int,
        weights: int,
        to: int,
        stream: int,
    ) -> None:
        """Copy the meant rows [entries, hidden] of the CPU; `owner` 0 makes all rows the CPU's.

        Other rows that are not the device's own become zeros with `zero_others`, and stay without.
        """
        ...

    def late_add(
        self,
        tokens: int,
        top_k: int,
        hidden: int,
        which: Which,
        threshold: float,
        rows: int,
        owner: int,
        weights: int,
        residual: int,
        stream: int,
    ) -> None:
        """Add the meant rows of the CPU to the residual [tokens, hidden], weighted, in the order of `combine`."""
        ...

    def linear(
        self, matrices: Sequence[tuple[DeviceMatrix, int]], tokens: int, x: int, q: int, accumulate: bool, stream: int
    ) -> None:
        """Products with a window's inputs: each out [tokens, rows], paired with its matrix, is scale * (x @ matrix.T).

        With `accumulate` they are added. Formats of floats read x [tokens, columns], quantised ones q (see
        `quantize_rows`); what nobody reads may be 0. Up to three matrices of one format share a launch.
        """
        ...

    def expert_gate_up(
        self,
        format: str,
        tokens: int,
        top_k: int,
        hidden: int,
        width: int,
        plan: int,
        slots: int,
        slot_stride: int,
        gate_offset: int,
        up_offset: int,
        gate_scale: int,
        up_scale: int,
        x: int,
        q: int,
        middle: int,
        middle_q: int,
        stream: int,
        from_host: bool = False,
    ) -> None:
        """middle [tokens * top_k, width]: silu(gate(x)) * up(x) of every entry that the plan gives to the device.

        Slot s begins at slots + s * slot_stride, with its device matrices in one format at the offsets. Scales are
        float32 by slot and multiply products; 0: none. Inputs are those of `linear`; with `middle_q`, which 32 has to
        divide the width for, the result is quantised too. `from_host`: the entries of experts without slots that the
        plan gives to the device; "slots" are experts then, by number, in the host's memory.
        """
        ...

    def expert_down(
        self,
        format: str,
        tokens: int,
        top_k: int,
        hidden: int,
        width: int,
        plan: int,
        slots: int,
        slot_stride: int,
        down_offset: int,
        down_scale: int,
        middle: int,
        middle_q: int,
        rows: int,
        stream: int,
        from_host: bool = False,
    ) -> None:
        """rows [tokens * top_k, hidden]: down(middle) of every entry that the plan gives to the device; others stay."""
        ...

    def quantize_rows(self, rows: int, columns: int, x: int, q: int, stream: int) -> None:
        """q: the inputs of products with quantised weights, made of x float32 [rows, columns], any number of rows.

        int8 [rows, columns] in blocks of 32, then their scales float32 [rows, columns / 32], then each scale times the
        sum of its block, float32 [rows, columns / 32]: `quantized_bytes`. The address is aligned to 16 bytes.
        """
        ...

    def to_floats(self, matrix: DeviceMatrix, dtype: FloatType, out: int, stream: int) -> None:
        """out [rows, columns]: the values of a matrix times its scale, rounded to `dtype`."""
        ...

    def to_floats_many(
        self,
        format: str,
        rows: int,
        columns: int,
        addresses: int,
        count: int,
        scales: int,
        dtype: FloatType,
        out: int,
        stream: int,
    ) -> None:
        """out [count, rows, columns]: the same of several, given int64 addresses and float32 scales (0: none)."""
        ...

    def matrix_bytes(self, format: str, rows: int, columns: int) -> int:
        """Return the size of a device matrix."""
        ...

    def arrange(self, format: str, rows: int, columns: int, stored: int, out: int) -> None:
        """Make a device matrix of stored rows, both in memory of the host, on the calling thread; any CPU can.

        Rows are made in groups of 16, so whole groups may be made piece by piece.
        """
        ...
