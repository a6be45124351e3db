"""Random weights of experts in GGUF's block formats, the same in every process that asks for them. numpy alone."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

HIDDEN, WIDTH, TOP_K = 2048, 768, 8
"""The shape of Qwen3-30B-A3B's experts."""

MOST_TOKENS = 64

VARIANTS = 4
"""So many experts have contents of their own; the others repeat them, in memory of their own."""


@dataclass(frozen=True)
class Layout:
    """A format: values and bytes of a block, where its F16 factors are and how large, and GGUF's number of it.

    The factors make weights of about 0.02. A block of one value is a plain float.
    """

    values: int
    bytes: int
    factors: tuple[int, ...]
    size: float
    ggml_type: int

    def matrix_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix."""
        return rows * columns // self.values * self.bytes


LAYOUTS = {
    "f16": Layout(1, 2, (), 0.02, 1),
    "bf16": Layout(1, 2, (), 0.02, 30),
    "q4_0": Layout(32, 18, (0,), 0.004, 2),
    "q8_0": Layout(32, 34, (0,), 0.0003, 8),
    "q4_k": Layout(256, 144, (0, 2), 0.00008, 12),
    "q6_k": Layout(256, 210, (208,), 0.00002, 14),
    "iq3_s": Layout(256, 110, (0,), 0.00015, 21),
}

SHAPES = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
"""Rows and columns of gate, up and down."""


def _variant(name: str, generator: np.random.Generator, count: int) -> Bytes:
    layout = LAYOUTS[name]
    if layout.values == 1:
        floats = generator.standard_normal(count, np.float32) * np.float32(layout.size)
        if name == "f16":
            return floats.astype(np.float16).view(np.uint8)
        return np.ascontiguousarray(floats.view(np.uint16)[1::2]).view(np.uint8)
    blocks = generator.integers(0, 256, (count // layout.values, layout.bytes), np.uint8)
    for at in layout.factors:
        size = np.float16(layout.size) * generator.uniform(0.5, 1.5, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = size.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(-1)


def expert_weights(name: str, experts: int, seed: int = 0) -> list[Bytes]:
    """Return gate, up and down of all experts, each matrix's experts one after the other: uint8 [experts, bytes]."""
    generator = np.random.default_rng(seed)
    result = []
    for rows, columns in SHAPES:
        variants = [_variant(name, generator, rows * columns) for _ in range(VARIANTS)]
        matrices = np.empty((experts, LAYOUTS[name].matrix_bytes(rows, columns)), np.uint8)
        for expert in range(experts):
            matrices[expert] = variants[expert % VARIANTS]
        result.append(matrices)
    return result


def expert_bytes(name: str) -> int:
    """Bytes of one expert."""
    return sum(LAYOUTS[name].matrix_bytes(*shape) for shape in SHAPES)


@dataclass(frozen=True)
class Call:
    """One call of the block: activations [tokens, HIDDEN], ids and weights [tokens, TOP_K]."""

    x: NDArray[np.float32]
    ids: NDArray[np.int32]
    weights: NDArray[np.float32]


def calls_of(tokens: int, experts: int, turn: int, *, walk: bool) -> list[Call]:
    """Return the calls of one sample, the same wherever it is asked for.

    walk: every call takes other experts than the last, so that they come from memory; otherwise one call is repeated,
    and what fits into the caches stays there.
    """
    generator = np.random.default_rng([turn, tokens, experts])
    count = max(2, 16 // tokens)
    order = generator.permutation(experts)

    def one(index: int) -> Call:
        rows: list[NDArray[Any]] = [generator.permutation(experts)[:TOP_K] for _ in range(tokens)]
        if tokens == 1:  # all experts in turn, so that none comes back soon
            rows = [np.take(order, np.arange(TOP_K) + index * TOP_K, mode="wrap")]
        weights = generator.uniform(0.5, 1.5, (tokens, TOP_K)).astype(np.float32)
        x = generator.standard_normal((tokens, HIDDEN), np.float32)
        return Call(x, np.stack(rows).astype(np.int32), weights / weights.sum(-1, keepdims=True))

    return [one(index) for index in range(count)] if walk else [one(0)] * count


def distinct(calls: list[Call]) -> float:
    """Return the mean number of different experts of a call."""
    return sum(len(np.unique(call.ids)) for call in calls) / len(calls)


def formats_and_tokens(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[list[str], list[int]]:
    """Read the lists of `--formats` and `--tokens`, and check `--rounds`; end with a message when one is wrong."""
    formats: list[str] = options.formats.split(",")
    if unknown := [name for name in formats if name not in LAYOUTS]:
        parser.error(f"--formats: no {', '.join(unknown)}; there are {', '.join(LAYOUTS)}")
    words: list[str] = options.tokens.split(",")
    tokens = [int(word) if word.isascii() and word.isdigit() else 0 for word in words]
    if not 1 <= min(tokens) <= max(tokens) <= MOST_TOKENS:
        parser.error(f"--tokens: numbers from 1 to {MOST_TOKENS} with commas between, not {options.tokens}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return formats, tokens
