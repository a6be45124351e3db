"""The choice of the layout that a network's weights get."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.errors import UserError
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.placing import Arranger, InFile, Layouts
from strata_runtime.memory import available_bytes
from strata_runtime.native import NativeModule, Pool
from strata_runtime.sizes import size

WeightLayout = Literal["auto", "stored", "compute"]

AUTO_AT_MOST = 1 + 1 / 16
"""Layouts that take more than this share of the stored bytes are left out by `auto`."""

_KEPT_FREE = 256 << 20
_KEPT_FREE_SHARE = 16  # of what is arranged


@dataclass(frozen=True, slots=True)
class Choice:
    """The placer of a network's weights, and one line for what was wished and could not be."""

    placer: Arranger | InFile
    notes: tuple[str, ...] = ()

    @property
    def arranged_bytes(self) -> int:
        """Memory that arranged weights take so far."""
        return self.placer.bytes if isinstance(self.placer, Arranger) else 0


def _matrices(
    head: Stored | None, layers: Sequence[LayerWeights], wanted: FormatInfo | None
) -> Iterator[tuple[FormatInfo, Stored]]:
    """Yield every matrix of linear layers with the format that it will be in."""
    if head is not None:
        yield head.form, head
    for layer in layers:
        for role, stored in layer.tensors.items():
            if len(stored.shape) == 2 and role != "mtp_embedding":
                yield stored.form, stored
        for experts in layer.experts.values():
            for stored in experts:
                yield wanted or stored.form, stored


def _needed(layouts: Layouts, matrices: Iterable[tuple[FormatInfo, Stored]]) -> int:
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    total = 0
    for form, stored in matrices:
        key = form.name, stored.shape
        if key not in sizes:
            rows, columns = stored.shape
            fits = columns % form.block_elements == 0  # what does not is refused where it is encoded
            sizes[key] = layouts.bytes(form, rows, columns) if fits else 0
        total += sizes[key]
    return total


def choose_layout(
    native: NativeModule,
    pool: Pool,
    head: Stored | None,
    layers: Sequence[LayerWeights],
    wanted: FormatInfo | None,
    choice: WeightLayout,
    reserved: int,
    root: Path = Path("/"),
) -> Choice:
    """Decide whether weights are arranged for the pool's kernels.

    head: the output matrix, None where it is elsewhere. layers: all that will be made. wanted: the format that experts
    are re-encoded to. `auto`
    arranges what takes little more memory than it is stored in, when memory suffices beside `reserved` bytes that are
    to come. root: for `available_bytes`. Raises `UserError` when `compute` cannot be had.
    """
    if choice == "stored":
        return Choice(InFile())
    layouts = Layouts(native, pool, AUTO_AT_MOST if choice == "auto" else math.inf)
    needed = _needed(layouts, _matrices(head, layers, wanted))
    if needed == 0:
        return Choice(InFile())
    free = available_bytes(root) if choice == "auto" else None
    if free is not None and needed + reserved + max(_KEPT_FREE, needed // _KEPT_FREE_SHARE) > free:
        beside = f" beside the KV cache of {size(reserved)}" if reserved >= 1 << 20 else ""
        return Choice(InFile(), (_short(needed, f"{size(free)} are available{beside}"),))
    try:
        return Choice(Arranger(native, pool, layouts, needed))
    except MemoryError:
        reason = "the system gives no such memory"
    if choice == "compute":
        raise UserError(f"engine.weight_layout compute takes {size(needed)}, and {reason}: choose stored")
    return Choice(InFile(), (_short(needed, reason),))


def _short(needed: int, reason: str) -> str:
    return (
        "weights stay as they are stored, and several tokens at once take up to twice as long: arranging them for "
        f"this CPU takes {size(needed)}, and {reason} (engine.weight_layout)"
    )
