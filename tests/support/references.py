"""What kernels are compared with: one function per kernel, named as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from support import device_reference, interleaving, layer_reference
from support.device_reference import Ids
from support.kernels import Array, Floats, Stored, expert_row, product, silu

Doubles = NDArray[np.float64]

INPUT_PARTS = {
    "int8": (("values", "i1", 1), ("correction", "<i4", 4), ("scales", "<f4", 32), ("starts", "<i4", 32)),
    "int8_256": (
        ("values", "i1", 1),
        ("sums", "<i2", 16),
        ("totals", "<f4", 32),
        ("scales", "<f4", 256),
        ("wide_sums", "<i2", 32),
        ("starts", "<i4", 32),
        ("half_starts", "<i4", 16),
    ),
}
"""The arrays of a prepared input in memory order: name, type, and how many columns share one of its numbers."""


def rows_dot(weights: Stored, x: Floats) -> Doubles:
    """float64 [tokens, rows]: products of the decoded weights and the inputs [tokens, columns]."""
    return product(weights, x)


def interleaved_dot(weights: Stored, x: Floats) -> Doubles:
    """float64 [tokens, rows]: products of the decoded weights and the inputs [tokens, columns]."""
    return product(weights, x)


def interleaved_dot_ahead(weights: Stored, x: Floats) -> Doubles:
    """float64 [tokens, rows]: products of the decoded weights and the inputs [tokens, columns]."""
    return product(weights, x)


def interleave(weights: Stored) -> Array:
    """The bytes of one group of rows side by side."""
    return interleaving.interleave(weights)


def arrange(weights: Stored) -> Array:
    """The bytes of all rows in their compute layout."""
    return interleaving.arrange(weights)


def linear(weights: Stored, x: Floats) -> Doubles:
    """float64 [tokens, rows]: products of the decoded weights and the inputs [tokens, columns]."""
    return product(weights, x)


def moe_experts(layer: Sequence[tuple[Stored, Stored, Stored]], x: Floats, ids: NDArray[np.int32]) -> Doubles:
    """float64 [tokens * top_k, hidden]: down(silu(gate(x)) * up(x)) of every entry's expert."""
    return np.array([expert_row(layer[expert], given) for given, row in zip(x, ids, strict=True) for expert in row])


def combine(rows: Floats, weights: Floats, out: Floats) -> Floats:
    """float32 [tokens, hidden]: `out` plus each token's weighted rows [tokens * top_k, hidden], picks ascending."""
    result = out.copy()
    tokens, top_k = weights.shape
    for pick in range(top_k):
        result += weights[:, pick, None] * rows.reshape(tokens, top_k, -1)[:, pick]
    return result


def quantize_input(activation: str, x: Floats) -> dict[str, Array]:
    """The arrays of `INPUT_PARTS` for one vector [columns], in float32 and integers."""
    block = 32 if activation == "int8" else 256
    blocks = x.reshape(-1, block)
    largest = np.abs(blocks).max(axis=1)  # NaN wherever there is one
    usable = (largest >= np.float32(2.0**-100)) & np.isfinite(largest)
    step = np.where(usable, largest / np.float32(127), np.float32(1))
    with np.errstate(invalid="ignore"):
        values = np.where(usable[:, None], np.rint(blocks / step[:, None]), 0).astype(np.int32)
    scales = np.where(usable, step, np.where(np.isfinite(largest), 0, np.nan)).astype(np.float32)
    if activation == "int8":
        correction = -128 * values.reshape(-1, 4).sum(axis=1)
        starts = -128 * values.sum(axis=1)
        return {"values": values.ravel(), "correction": correction, "scales": scales, "starts": starts}
    halves = values.reshape(-1, 8, 2, 16).sum(axis=3)
    with np.errstate(over="ignore"):
        totals = scales[:, None] * halves.sum(axis=2).astype(np.float32)
    sums = halves.transpose(0, 2, 1)  # the even sixteenths of a block before the odd ones
    wide_sums = halves.sum(axis=2)
    return {
        "values": values.ravel(),
        "sums": sums.ravel(),
        "totals": totals.ravel(),
        "scales": scales,
        "wide_sums": wide_sums.ravel(),
        "starts": -128 * wide_sums.ravel(),
        "half_starts": -128 * halves.ravel(),
    }


def silu_multiply(gate: Floats, up: Floats) -> Doubles:
    """float64 [count]: silu(gate) * up."""
    return silu(gate.astype(np.float64)) * up


def rms_norm(x: Floats, weight: Floats, eps: float) -> Doubles:
    """float64 [rows, columns]: rows over their root mean square, times the weight."""
    wide = x.astype(np.float64)
    return np.asarray(wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + eps) * weight)


def prepare_heads(
    heads: Floats, norm: Floats | None, eps: float, scale: float, frequencies: Doubles, start: int
) -> Doubles:
    """float64 [tokens, heads, dim]: the first 2 * len(frequencies) elements turn, as pairs half of those apart."""
    normed = scale * (heads.astype(np.float64) if norm is None else rms_norm(heads, norm, eps))
    half = len(frequencies)
    positions = np.arange(start, start + len(heads))[:, None, None]
    turned = (normed[..., :half] + 1j * normed[..., half : 2 * half]) * np.exp(1j * positions * frequencies)
    return np.concatenate((turned.real, turned.imag, normed[..., 2 * half :]), -1)


def attend_span(queries: Floats, keys: Floats, values: Floats) -> Doubles:
    """float64 [group, dim]: the attention of queries [group, dim] over positions [positions, dim]."""
    scores = queries.astype(np.float64) @ keys.astype(np.float64).T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ values.astype(np.float64))


def attend(queries: Floats, cache: Floats, start: int) -> Doubles:
    """float64 [tokens, heads, dim]: token t over positions up to start + t of a cache [2, kv_heads, capacity, dim]."""
    tokens, heads, dim = queries.shape
    kv_heads = cache.shape[1]
    grouped = queries.reshape(tokens, kv_heads, heads // kv_heads, dim)
    out = [
        [attend_span(group, *cache[:, head, : start + token + 1]) for head, group in enumerate(grouped[token])]
        for token in range(tokens)
    ]
    return np.array(out).reshape(queries.shape)


def xor_words(data: NDArray[np.uint8]) -> int:
    """Exclusive or of all whole 64-bit words."""
    return checksum(data)


def checksum(data: NDArray[np.uint8]) -> int:
    """Exclusive or of all whole 64-bit words."""
    return int(np.bitwise_xor.reduce(data[: data.nbytes // 8 * 8].view(np.uint64), initial=0))


def router_topk(logits: Floats, bias: Floats, top_k: int) -> tuple[Ids, Floats]:
    """Ids and weights [tokens, top_k] of sigmoid scores, normalised."""
    return device_reference.router_topk(logits, bias, top_k, sigmoid=True, normalised=True, scale=1.0)


def ecap_redirect(ids: Ids, weights: Floats, cap: int) -> tuple[Ids, Floats]:
    """Ids and weights [tokens, top_k] after the cap."""
    return device_reference.ecap_redirect(ids, weights, cap)


def tail_skip(ids: Ids, weights: Floats, slot_of_expert: Ids, rank: int) -> tuple[Ids, Floats]:
    """Ids and weights [tokens, top_k] without experts that nobody ranks high."""
    return device_reference.tail_skip(ids, weights, slot_of_expert, rank)


def resident_plan(ids: Ids, weights: Floats, slot_of_expert: Ids) -> device_reference.Plan:
    """Groups of the device, entries of the CPU, and each entry's owner."""
    return device_reference.resident_plan(ids, weights, slot_of_expert)


def publish(x: Floats, ids: Ids, weights: Floats) -> bytes:
    """The doorbell block and the activations behind it, zeros where nothing is written."""
    return device_reference.doorbell(7, 0, x, ids, weights)


def flag_wait(word: int, value: int, error: int) -> int:
    """The error word of a wait that nobody ends: 0 when the word has reached the value."""
    return 0 if word >= value else error


def time_stamp(phases: Iterable[int]) -> list[int]:
    """The phases that stamps hold: those that were given. Their times are nobody else's to say."""
    return list(phases)


def rows_copy(rows: Floats, owner: Array, weights: Floats, threshold: float, to: Floats) -> Floats:
    """Rows of the CPU of at least a weight; zeros for what is neither these nor the device's own."""
    light = (owner != device_reference.CPU) | (weights.reshape(-1) < threshold)
    other = np.where((owner == device_reference.DEVICE)[:, None], to, np.float32(0))
    return np.asarray(np.where(light[:, None], other, rows), np.float32)


def late_add(rows: Floats, owner: Array, weights: Floats, threshold: float, residual: Floats) -> Floats:
    """The residual plus the weighted rows of the CPU below a weight, picks ascending."""
    late = (owner == device_reference.CPU) & (weights.reshape(-1) < threshold)
    return device_reference.add_rows(rows, weights, residual, late)


def quantize_rows(x: Floats) -> NDArray[np.uint8]:
    """Blocks of 32 integers, their scales, and those times their sums."""
    return device_reference.pack(x)


def window_linear(weights: Stored, x: Floats, scale: float, before: Floats) -> Floats:
    """before + scale * products, each rounded."""
    return before + device_reference.products(weights.format, weights.blocks, x) * np.float32(scale)


def to_floats(weights: Stored, dtype: str, scale: float) -> Array:
    """Decoded rows times a scale, twice, and without; as float32, or the bits of bfloat16 or half precision."""
    values = np.stack([weights.decoded * np.float32(factor) for factor in (scale, scale, 1)])
    if dtype == "f32":
        return values
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    whole = values.view(np.uint32)
    return ((whole + 0x7FFF + (whole >> 16 & 1)) >> 16).astype(np.uint16)


def expert_gate_up(gate: Stored, up: Stored, x: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    """float32 [tokens, width]: silu(gate(x)) * up(x), and the same quantised."""
    both = (device_reference.products(part.format, part.blocks, x) for part in (gate, up))
    middle = device_reference.gate_up(*both)
    return middle, device_reference.pack(middle)


def expert_down(down: Stored, middle: Floats) -> Floats:
    """float32 [tokens, hidden]: products with the inputs [tokens, width]."""
    return device_reference.products(down.format, down.blocks, middle)


def norm_rows(x: Floats, weight: Floats, eps: float) -> tuple[Floats, bytes]:
    """float32 [rows, columns], and its quantised form."""
    out = layer_reference.rms_norm(x, weight, eps)
    return out, layer_reference.quantised(out)


def silu_rows(gate: Floats, up: Floats) -> tuple[Floats, bytes]:
    """float32 [rows, columns], and its quantised form."""
    out = layer_reference.silu_multiply(gate, up)
    return out, layer_reference.quantised(out)


def add_rows(x: Floats, out: Floats) -> Floats:
    """float32 [count]."""
    return out + x


def argmax_rows(x: Floats) -> Ids:
    """int32 [rows]."""
    return layer_reference.argmax(x)


def embed_rows(table: Stored, ids: Ids) -> Floats:
    """float32 [tokens, columns]: the decoded rows."""
    return table.decoded[ids].astype(np.float32)


def append_heads(
    heads: tuple[Floats, Floats, Floats],
    norms: tuple[Floats, Floats],
    eps: float,
    scale: float,
    angles: Floats,
    cache: Array,
    start: int,
) -> tuple[Floats, Array]:
    """Queries, and the cache [2, kv_heads, capacity, dim] with keys and values from `start` on."""
    queries, keys, values = heads
    here = angles[start : start + len(queries)]
    cache_type = layer_reference.CACHE_TYPES[[np.float32, np.float16, np.uint16].index(cache.dtype.type)]
    appended = np.stack((layer_reference.turned(keys, norms[1], eps, 1, here), values)).swapaxes(1, 2)
    result = cache.copy()
    result[:, :, start : start + len(queries)] = layer_reference.stored(appended, cache_type)
    return layer_reference.turned(queries, norms[0], eps, scale, here), result


def attend_window(queries: Floats, cache: Array, start: int) -> Doubles:
    """float64 [tokens, heads, dim]: token t over positions up to start + t of a cache [2, kv_heads, capacity, dim]."""
    return attend(queries, layer_reference.loaded(cache), start)


def attend_join(queries: Floats, cache: Array, start: int) -> Doubles:
    """float64 [tokens, heads, dim]: token t over positions up to start + t of a cache [2, kv_heads, capacity, dim]."""
    return attend(queries, layer_reference.loaded(cache), start)
