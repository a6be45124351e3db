"""Device kernels in numpy: plain loops in float32, in the order that the kernels promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata_runtime.formats import FormatInfo

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
F = np.float32
PARTIAL_SUMS = 64
MAX_ENTRIES = 8 * 16

GROUP = np.dtype([(name, "<i4") for name in ("slot", "first", "count", "expert")])
PLAN = np.dtype(
    [
        *((name, "<i4") for name in ("groups", "pcie_groups", "device_entries", "cpu_entries", "dropped")),
        ("group", GROUP, (MAX_ENTRIES,)),
        ("entries", "<i4", (MAX_ENTRIES,)),
        ("cpu", "<i4", (MAX_ENTRIES,)),
        ("owner", "u1", (MAX_ENTRIES,)),
        ("planned", "<u4"),
    ]
)
"""The plan block."""

DOORBELL = np.dtype(
    [
        *((name, "<i4") for name in ("published", "layer", "tokens", "top_k", "has_weights")),
        ("ids", "<i4", (MAX_ENTRIES,)),
        ("weights", "<f4", (MAX_ENTRIES,)),
        ("padding", "u1", (44,)),
    ]
)
"""The doorbell block; activations follow."""

NOBODY, DEVICE, CPU = range(3)
"""Owners of an entry."""


def exp(x: Floats) -> Floats:
    """The exponential of the kernels: argument clamped, reduced by ln 2 in two parts, polynomial of degree six."""
    x = np.clip(x.astype(F), F(-87), F(88))
    magic = F(1.5 * 2**23)
    shifted = x * F(float.fromhex("0x1.715476p+0")) + magic
    whole = shifted - magic
    rest = (x - whole * F(float.fromhex("0x1.62ep-1"))) - whole * F(float.fromhex("0x1.0bfbe8p-15"))
    p = np.full_like(x, F(float.fromhex("0x1.6d7b96p-10")))
    for coefficient in ("0x1.1204eap-7", "0x1.5554a0p-5", "0x1.5554cap-3"):
        p = p * rest + F(float.fromhex(coefficient))
    p = p * rest + F(0.5)
    p = p * rest * rest + rest + F(1)
    power = (shifted.view(np.uint32) - np.uint32(0x4B400000) + np.uint32(127)) << np.uint32(23)
    return np.asarray(p * power.view(F), F)


def wave_sum(values: Floats) -> Floats:
    """Sums over the last axis: value i goes into partial sum i % 64; those are added pairwise, halves upon halves."""
    parts = np.zeros((*values.shape[:-1], PARTIAL_SUMS), F)
    for first in range(0, values.shape[-1], PARTIAL_SUMS):
        chunk = values[..., first : first + PARTIAL_SUMS]
        parts[..., : chunk.shape[-1]] += chunk
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        parts = parts[..., :half] + parts[..., half:]
    return parts[..., 0]


def scores(logits: Floats, *, sigmoid: bool) -> Floats:
    """Scores of one token's experts."""
    largest = np.finfo(F).max
    finite = np.clip(np.where(np.isnan(logits), -largest, logits), -largest, largest).astype(F)
    if sigmoid:
        return np.asarray(F(1) / (F(1) + exp(-finite)), F)
    with np.errstate(over="ignore"):
        powers = exp(finite - finite.max())
    return np.asarray(powers / wave_sum(powers), F)


def router_topk(
    logits: Floats, bias: Floats | None, top_k: int, *, sigmoid: bool, normalised: bool, scale: float
) -> tuple[Ids, Floats]:
    """Ids and weights [tokens, top_k]."""
    ids = np.zeros((len(logits), top_k), np.int32)
    weights = np.zeros((len(logits), top_k), F)
    for token, row in enumerate(logits):
        score = scores(row, sigmoid=sigmoid)
        ranked = score if bias is None else score + bias
        ids[token] = np.argsort(-ranked, kind="stable")[:top_k]
        chosen = score[ids[token]]
        total = F(0)
        for value in chosen:
            total = F(total + value)
        weights[token] = chosen / (total + F(1e-20) if normalised else F(1)) * F(scale)
    return ids, weights


def ecap_redirect(ids: Ids, weights: Floats, cap: int) -> tuple[Ids, Floats]:
    """The contract of the cap, entry by entry."""
    tokens, top_k = ids.shape
    new_ids, new_weights = ids.copy().reshape(-1), weights.copy().reshape(-1)
    if tokens <= 1 or cap >= ids.size:
        return ids.copy(), weights.copy()
    tail = [entry for entry in range(top_k, ids.size) if new_ids[entry] >= 0]
    ranked = sorted(tail, key=lambda entry: (-np.nan_to_num(new_weights[entry], nan=-np.inf), entry))
    kept = {*range(top_k), *ranked[: max(cap - top_k, 0)]}
    experts = list(dict.fromkeys(int(new_ids[entry]) for entry in sorted(kept) if new_ids[entry] >= 0))
    for turn, entry in enumerate(entry for entry in tail if entry not in kept):
        new_ids[entry] = experts[turn % len(experts)] if experts else -1
        new_weights[entry] = 0
    return new_ids.reshape(ids.shape), new_weights.reshape(ids.shape)


def tail_skip(ids: Ids, weights: Floats, slot_of_expert: Ids, rank: int) -> tuple[Ids, Floats]:
    """Drop experts without a slot that no token ranks above `rank` by weight."""
    new_ids, new_weights = ids.copy(), weights.copy()
    high = set()
    for row, values in zip(ids, weights, strict=True):
        by_weight = sorted(np.flatnonzero(row >= 0), key=lambda pick: (-values[pick], pick))
        high |= {int(row[pick]) for pick in by_weight[:rank]}
    for place in np.ndindex(ids.shape) if rank else ():
        expert = int(ids[place])
        if expert >= 0 and slot_of_expert[expert] < 0 and expert not in high:
            new_ids[place], new_weights[place] = -1, 0
    return new_ids, new_weights


@dataclass(frozen=True)
class Plan:
    """Groups are (slot, first, count, expert), and for the host's memory (expert, first, count, expert).

    An entry's owner is 0 for nobody, 1 for the device, 2 for the CPU.
    """

    groups: list[tuple[int, int, int, int]]
    pcie: list[tuple[int, int, int, int]]
    entries: list[int]
    cpu: list[int]
    owner: list[int]


def resident_plan(ids: Ids, weights: Floats | None, slot_of_expert: Ids, share: int = 0) -> Plan:
    """Group the entries of resident experts, by first appearance; list the others.

    `share` of 1024 parts of the experts without slots are the device's too: those of the most entries.
    """
    members: dict[int, list[int]] = {}
    owner = [0] * ids.size
    for entry, expert in enumerate(ids.reshape(-1).tolist()):
        if expert >= 0 and (weights is None or weights.reshape(-1)[entry] != 0):
            members.setdefault(expert, []).append(entry)
    missing = [expert for expert in members if slot_of_expert[expert] < 0]
    by_size = sorted(missing, key=lambda expert: -len(members[expert]))
    read = set(by_size[: int(len(missing) * share / 1024 + 0.5)])
    groups: list[tuple[int, int, int, int]] = []
    pcie: list[tuple[int, int, int, int]] = []
    entries: list[int] = []
    for chosen, found in ((lambda expert: slot_of_expert[expert] >= 0, groups), (read.__contains__, pcie)):
        for expert, own in members.items():
            if chosen(expert):
                found.append((expert if found is pcie else int(slot_of_expert[expert]), len(entries), len(own), expert))
                entries += own
    for expert, own in members.items():
        for entry in own:
            owner[entry] = 1 if slot_of_expert[expert] >= 0 or expert in read else 2
    return Plan(groups, pcie, entries, [entry for entry, who in enumerate(owner) if who == 2], owner)


def doorbell(ring: int, layer: int, x: Floats, ids: Ids, weights: Floats | None) -> bytes:
    """The doorbell block and the activations behind it, zeros where nothing is written."""
    block = np.zeros(1, DOORBELL)
    block["published"], block["layer"] = ring, layer
    block["tokens"], block["top_k"], block["has_weights"] = *ids.shape, weights is not None
    block["ids"][0, : ids.size] = ids.reshape(-1)
    if weights is not None:
        block["weights"][0, : ids.size] = weights.reshape(-1)
    return block.tobytes() + x.tobytes()


def add_rows(rows: Floats, weights: Floats, residual: Floats, chosen: NDArray[np.bool_] | None = None) -> Floats:
    """residual + weights * rows, picks ascending, for the chosen entries of a weight other than 0."""
    sums = residual.copy()
    tokens, top_k = weights.shape
    for token, pick in np.ndindex(tokens, top_k):
        entry = token * top_k + pick
        if weights[token, pick] != 0 and (chosen is None or chosen.reshape(-1)[entry]):
            sums[token] += weights[token, pick] * rows[entry]
    return sums


def slice_columns(columns: int) -> list[Ids]:
    """The columns of every slice in their order: chunks of 256 are dealt out to a power of two of slices, at most 8."""
    chunks = [np.arange(first, min(first + 256, columns)) for first in range(0, columns, 256)]
    count = max(power for power in (1, 2, 4, 8) if power <= len(chunks))
    return [np.concatenate(chunks[first::count]).astype(np.int32) for first in range(count)]


def quantize(x: Floats) -> tuple[NDArray[np.int8], Floats, Floats]:
    """Rows in blocks of 32: integers [rows, columns], scales, and scales times sums [rows, columns / 32]."""
    blocks = x.reshape(len(x), x.shape[1] // 32, 32)
    scale = np.abs(blocks).max(2) / F(127)
    whole = np.rint(np.divide(blocks, scale[..., None], out=np.zeros_like(blocks), where=scale[..., None] > 0))
    return whole.reshape(x.shape).astype(np.int8), scale, scale * whole.sum(2)


def pack(x: Floats) -> NDArray[np.uint8]:
    """Quantised rows as kernels lay them out."""
    return np.concatenate([part.reshape(-1).view(np.uint8) for part in quantize(x)])


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c, rounded once: the product is exact in float64, and of its sum float32 keeps the nearest."""
    return np.asarray(a.astype(np.float64) * b + c, F)


def _of_floats(decoded: Floats, x: Floats) -> Floats:
    sums = [wave_sum(x[:, None, own] * decoded[None, :, own]) for own in slice_columns(x.shape[1])]
    return np.asarray(_in_order(sums), F)


def _in_order(sums: list[Floats]) -> Floats:
    total = sums[0]
    for each in sums[1:]:
        total = total + each
    return total


def _of_integers(info: FormatInfo, blocks: NDArray[np.uint8], x: Floats) -> Floats:
    rows, columns = len(blocks), x.shape[1]
    flat = blocks.reshape(-1, info.block_bytes)
    assert info.quants is not None and info.scale is not None
    weights = info.quants.read(flat).reshape(rows, columns).astype(np.int64)
    of_block = info.scale.read(flat).reshape(rows, -1)
    scales = None if info.scales is None else info.scales.read(flat).astype(F).reshape(rows, -1)
    part = 32 if scales is None else min(columns // scales.shape[1], 32)
    whole, inputs, totals = quantize(x)
    sums = []
    for own in slice_columns(columns):
        acc = np.zeros((len(x), rows), F)
        for begin in own[:: info.block_elements].tolist():
            scaled, minimums = np.zeros_like(acc), np.zeros_like(acc)
            for first in range(begin, begin + info.block_elements, part):
                input_scale = np.broadcast_to(inputs[:, first // 32, None], acc.shape)
                exact = whole[:, first : first + part].astype(np.int64) @ weights[:, first : first + part].T
                scale = input_scale if scales is None else scales[None, :, first // part] * input_scale
                scaled = fused(exact.astype(F), scale, scaled)
                if info.minimums is not None:
                    least = info.minimums.read(flat).astype(F).reshape(rows, -1)[None, :, first // part]
                    minimums = fused(least, totals[:, first // 32, None], minimums)
            acc = fused(of_block[None, :, begin // info.block_elements], scaled, acc)
            if info.minimum is not None:
                factor = info.minimum.read(flat).reshape(rows, -1)[None, :, begin // info.block_elements]
                acc = fused(-factor, minimums, acc)
        sums.append(acc)
    return _in_order(sums)


def products(info: FormatInfo, blocks: NDArray[np.uint8], x: Floats) -> Floats:
    """Products [tokens, rows] of stored rows [rows, row bytes] with inputs [tokens, columns]."""
    if info.quants is None:
        return _of_floats(info.decode(blocks), x)
    return _of_integers(info, blocks, x)


def gate_up(gate: Floats, up: Floats, gate_scale: float = 1, up_scale: float = 1) -> Floats:
    """silu(gate) * up of products with both."""
    value = gate * F(gate_scale)
    return np.asarray(value / (F(1) + exp(-value)) * (up * F(up_scale)), F)


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """Floats as their bits, so that equal means the same bits, NaN included."""
    return values.view(np.uint32) if values.dtype == F else values
