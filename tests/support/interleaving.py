"""Compute layouts in numpy, placed byte by byte as the specs say: what arranged weights are compared with."""

from __future__ import annotations

import numpy as np

from strata_gen.model.interleaved import UNIT, InterleavedPlan, Segment, SegmentKind, plan_interleaved
from strata_runtime.formats import Field, FormatInfo
from support.blocks import all_formats
from support.kernels import Array, Stored

SIDE_BY_SIDE = 16


def plan_of(name: str) -> InterleavedPlan:
    return plan_interleaved(next(spec for spec in all_formats() if spec.name == name))


def interleave(weights: Stored) -> Array:
    """The bytes of one group: `SIDE_BY_SIDE` rows, block after block."""
    info, plan = weights.format, plan_of(weights.format.name)
    assert weights.rows == SIDE_BY_SIDE
    blocks = weights.blocks.reshape(SIDE_BY_SIDE, -1, info.block_bytes).transpose(1, 0, 2)
    group = np.zeros((len(blocks), SIDE_BY_SIDE * plan.bytes), np.uint8)
    for block, out in zip(np.ascontiguousarray(blocks), group, strict=True):
        _place_block(info, plan, block, out)
    return group.ravel()


def arrange(weights: Stored) -> Array:
    """The bytes of all rows: whole groups, then the other rows as they are stored."""
    whole = weights.rows // SIDE_BY_SIDE * SIDE_BY_SIDE
    groups = [
        Stored(weights.format, weights.blocks[first : first + SIDE_BY_SIDE], weights.decoded[:SIDE_BY_SIDE])
        for first in range(0, whole, SIDE_BY_SIDE)
    ]
    return np.concatenate([*map(interleave, groups), weights.blocks[whole:].ravel()])


def device_matrix(info: FormatInfo, blocks: Array) -> Array:
    """The bytes of a device matrix of stored rows [rows, row bytes]: groups, the last one filled up with zeros."""
    if info.quants is None:
        return blocks.ravel()
    padded = np.pad(blocks, ((0, -len(blocks) % SIDE_BY_SIDE), (0, 0)))
    nothing = np.zeros((SIDE_BY_SIDE, 0), np.float32)
    groups = [Stored(info, padded[at : at + SIDE_BY_SIDE], nothing) for at in range(0, len(padded), SIDE_BY_SIDE)]
    return np.concatenate([*map(interleave, groups)])


def _place_block(info: FormatInfo, plan: InterleavedPlan, block: Array, out: Array) -> None:
    """Place one block of every row: uint8 [rows, block bytes]."""

    def put(place: int, values: Array) -> None:
        data = np.ascontiguousarray(values).view(np.uint8).ravel()
        out[SIDE_BY_SIDE * place :][: len(data)] = data

    assert info.scale is not None
    put(plan.scale, _factor(block, info.scale))
    if plan.minimum is not None and info.minimum is not None:
        put(plan.minimum, _factor(block, info.minimum))
    if plan.scales is not None and info.scales is not None:
        put(plan.scales, info.scales.read(block).astype(np.int8).T)
    if plan.minimums is not None and info.minimums is not None:
        pairs = info.minimums.read(block).astype(np.uint8).reshape(SIDE_BY_SIDE, -1, 2)
        put(plan.minimums, pairs.transpose(1, 0, 2))
    for segment in plan.segments:
        units = _units(info, segment, block)
        for index in range(units.shape[1]):
            put(segment.place + segment.stride * index, units[:, index])


def _factor(block: Array, field: Field) -> Array:
    return block[:, field.offset : field.offset + (1 if field.type == "e8m0_half" else 2)]


def _units(info: FormatInfo, segment: Segment, block: Array) -> Array:
    """What a segment becomes: uint8 [rows, units, bytes of a unit]."""
    stored = block[:, segment.byte : segment.byte + segment.count]
    match segment.kind:
        case SegmentKind.BYTES:
            return stored.reshape(SIDE_BY_SIDE, -1, UNIT)
        case SegmentKind.SIGNED:
            return (stored ^ 0x80).reshape(SIDE_BY_SIDE, -1, UNIT)
        case SegmentKind.BITS:
            bits = np.unpackbits(stored, axis=1, bitorder="little").reshape(SIDE_BY_SIDE, -1, 8, 4)
            lanes = bits.transpose(1, 2, 0, 3).reshape(len(bits[0]), -1)  # of every lane, four bits of each row
            return np.packbits(lanes, axis=1, bitorder="little").reshape(-1, SIDE_BY_SIDE, UNIT).transpose(1, 0, 2)
        case SegmentKind.CODES:
            assert info.quants is not None
            numbers = info.quants.read(block).reshape(SIDE_BY_SIDE, -1, 2, 16)
            codes = np.searchsorted(info.quants.levels, np.abs(numbers)) | (numbers < 0) << 3
            return (codes[:, :, 0] | codes[:, :, 1] << 4).astype(np.uint8).reshape(SIDE_BY_SIDE, -1, UNIT)
