"""Routed experts and the combination of their rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from strata_gen.model.specset import SpecSet
from strata_runtime.provider import Provider
from support.blocks import block_of, names
from support.kernels import Floats, Kernels, Stored, bits, error_scale, expert_row, product, silu

NAMES = names()
Expert = tuple[Stored, Stored, Stored]
pytestmark = pytest.mark.native


def make_layer(kernels: Kernels, name: str | tuple[str, str, str], count: int, hidden: int, width: int) -> list[Expert]:
    """Experts whose weights are near 1 / sqrt(columns), in one format or in those of gate, up and down."""
    seeds = itertools.count()

    def part(name: str, rows: int, columns: int) -> Stored:
        one = kernels.random(name, 1, columns, size=0.01).decoded
        return kernels.random(name, rows, columns, next(seeds), 0.01 / float(np.linalg.norm(one)))

    gate, up, down = (name, name, name) if isinstance(name, str) else name
    return [(part(gate, width, hidden), part(up, width, hidden), part(down, hidden, width)) for _ in range(count)]


def sized(name: str, hidden: int, width: int) -> tuple[int, int]:
    """The next sizes that blocks divide."""
    block = block_of(name)
    return -(-hidden // block) * block, -(-width // block) * block


def inputs(tokens: int, hidden: int) -> Floats:
    return np.random.default_rng(tokens).standard_normal((tokens, hidden), dtype=np.float32)


def routes(tokens: int, top_k: int, count: int, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    generator = np.random.default_rng(seed)
    picks = [generator.choice(count, top_k, replace=False) for _ in range(tokens)]
    return np.array(picks, np.int32).reshape(tokens, top_k)


def bound(specs: SpecSet, activation: str) -> float:
    (kernel,) = (kernel for kernel in specs.kernels if kernel.name == "moe_experts")
    (tolerance,) = (tolerance for tolerance in kernel.tolerances if tolerance.activation == activation)
    return tolerance.bound


def sizes(name: str) -> list[tuple[int, int]]:
    return {1: [(64, 32), (24, 20), (33, 70)], 32: [(64, 32), (96, 96)], 256: [(256, 256), (256, 512)]}[block_of(name)]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_near_the_float64_reference(kernels: Kernels, specs: SpecSet, name: str) -> None:
    for hidden, width in sizes(name):
        layer = make_layer(kernels, name, 6, hidden, width)
        x, ids = inputs(9, hidden), routes(9, 3, 6)
        rows = kernels.experts(layer, x, ids).reshape(9, 3, hidden)
        for token in range(9):
            for pick in range(3):
                gate, up, down = expert = layer[ids[token, pick]]
                middle = silu(product(gate, x[token : token + 1])) * product(up, x[token : token + 1])
                scale = error_scale(down, middle.astype(np.float32))[0]
                error = np.abs(rows[token, pick] - expert_row(expert, x[token]))
                assert (error <= bound(specs, gate.format.activation) * scale).all(), (hidden, width, token, pick)


@pytest.mark.parametrize("names", [("q8_0", "bf16", "q8_0"), ("f32", "q8_0", "bf16"), ("bf16", "f32", "q8_0")])
def test_the_three_matrices_may_be_in_three_formats_and_scaled(
    kernels: Kernels, specs: SpecSet, names: tuple[str, str, str]
) -> None:
    layers = [make_layer(kernels, name, 6, 64, 96) for name in names]
    layer = [(gate[0], up[1], down[2]) for gate, up, down in zip(*layers, strict=True)]
    scales = np.random.default_rng(3).standard_normal((3, 6)).astype(np.float32)
    x, ids = inputs(9, 64), routes(9, 3, 6)
    rows = kernels.experts(layer, x, ids, scales.tolist()).reshape(9, 3, 64)
    for token, pick in np.ndindex(9, 3):
        expert = ids[token, pick]
        (gate, up, down), (gate_scale, up_scale, down_scale) = layer[expert], scales[:, expert].astype(np.float64)
        given = x[token : token + 1]
        middle = silu(gate_scale * product(gate, given)) * up_scale * product(up, given)
        expected = down_scale * middle @ down.decoded.astype(np.float64).T
        error = np.abs(rows[token, pick] - expected[0])
        scale = abs(down_scale) * error_scale(down, middle.astype(np.float32))[0]
        assert (error <= bound(specs, "int8") * scale).all(), (token, pick)


@pytest.mark.parametrize("name", NAMES)
def test_a_rows_bits_do_not_depend_on_the_window(kernels: Kernels, name: str) -> None:
    hidden, width = sized(name, 64, 96)
    layer = make_layer(kernels, name, 5, hidden, width)
    x, ids = inputs(30, hidden), routes(30, 2, 5)
    together = kernels.experts(layer, x, ids).reshape(30, 2, hidden)
    for tokens in (1, 2, 3, 5, 8, 13):
        for first in (0, 4, 17):
            part = slice(first, first + tokens)
            alone = kernels.experts(layer, np.ascontiguousarray(x[part]), np.ascontiguousarray(ids[part]))
            assert np.array_equal(bits(alone.reshape(tokens, 2, hidden)), bits(together[part]))


@pytest.mark.parametrize("arranged", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_threads_or_claims(provider: Provider, name: str, arranged: bool) -> None:
    outputs = []
    for threads in ("1", "2", "5"):
        for claim in ("0", "32", "8192"):
            knobs = {"pool.threads": threads, "pool.claim_rows": claim}
            with Kernels(provider, knobs=knobs, arranged=arranged) as kernels:
                layer = make_layer(kernels, name, 8, *sized(name, 256, 96))
                outputs.append(bits(kernels.experts(layer, inputs(12, 256), routes(12, 4, 8))))
    assert all(np.array_equal(outputs[0], other) for other in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_one_id_for_all_entries_makes_one_large_group(kernels: Kernels, name: str) -> None:
    hidden, width = sized(name, 64, 32)
    layer = make_layer(kernels, name, 3, hidden, width)
    x = inputs(21, hidden)
    rows = kernels.experts(layer, x, np.full((21, 2), 1, np.int32)).reshape(21, 2, hidden)
    assert np.array_equal(bits(rows[:, 0]), bits(rows[:, 1]))
    single = kernels.experts(layer, x[20:], np.array([[1]], np.int32))
    assert np.array_equal(bits(rows[20, 0]), bits(single[0]))


@pytest.mark.parametrize("name", NAMES)
def test_an_id_of_minus_one_gives_zeros_and_changes_nothing_else(kernels: Kernels, name: str) -> None:
    hidden, width = sized(name, 64, 32)
    layer = make_layer(kernels, name, 4, hidden, width)
    x, ids = inputs(6, hidden), routes(6, 3, 4)
    full = kernels.experts(layer, x, ids).reshape(6, 3, hidden)
    holes = ids.copy()
    holes[0, 0] = holes[2] = holes[5, 2] = -1
    rows = kernels.experts(layer, x, holes).reshape(6, 3, hidden)
    gone = holes == -1
    assert not rows[gone].any()
    assert np.array_equal(bits(rows[~gone]), bits(full[~gone]))
    assert not kernels.experts(layer, x, np.full((6, 3), -1, np.int32)).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_long_prompt_equals_its_tokens_one_by_one(provider: Provider, name: str) -> None:
    with Kernels(provider, knobs={"pool.threads": "2"}) as kernels:
        hidden, width = sized(name, 64, 32)
        layer = make_layer(kernels, name, 4, hidden, width)
        x, ids = inputs(600, hidden), routes(600, 2, 4)
        rows = kernels.experts(layer, x, ids).reshape(600, 2, hidden)
        for token in (0, 511, 512, 599):
            alone = kernels.experts(layer, x[token : token + 1], ids[token : token + 1])
            assert np.array_equal(bits(alone), bits(rows[token]))


@pytest.mark.parametrize(
    "parts", [("q4_k", "q4_k", "q6_k"), ("q8_0", "q4_k", "f32"), ("bf16", "q8_0", "q4_k"), ("iq3_s", "f16", "q8_0")]
)
def test_matrices_of_several_formats(kernels: Kernels, specs: SpecSet, parts: tuple[str, str, str]) -> None:
    layer = make_layer(kernels, parts, 4, 512, 256)
    x, ids = inputs(9, 512), routes(9, 2, 4)
    rows = kernels.experts(layer, x, ids).reshape(9, 2, 512)
    for token, pick in itertools.product(range(9), range(2)):
        gate, up, down = expert = layer[ids[token, pick]]
        middle = silu(product(gate, x[token : token + 1])) * product(up, x[token : token + 1])
        scale = error_scale(down, middle.astype(np.float32))[0]
        allowed = max(bound(specs, part.format.activation) for part in expert)
        assert (np.abs(rows[token, pick] - expert_row(expert, x[token])) <= allowed * scale).all()
    for token in (0, 8):
        alone = kernels.experts(layer, x[token : token + 1], ids[token : token + 1])
        assert np.array_equal(bits(alone), bits(rows[token]))


@pytest.mark.parametrize(("tokens", "top_k"), [(0, 4), (3, 0), (0, 0)])
def test_no_entries_are_no_work(kernels: Kernels, tokens: int, top_k: int) -> None:
    layer = make_layer(kernels, "f32", 2, 32, 32)
    ids = np.zeros((tokens, top_k), np.int32)
    assert kernels.experts(layer, inputs(tokens, 32), ids).shape == (0, 32)


@pytest.mark.parametrize("bad", [4, 5, -2, 2**31 - 1, -(2**31)])
def test_an_id_outside_the_experts_is_refused_by_number(kernels: Kernels, bad: int) -> None:
    layer = make_layer(kernels, "f32", 4, 32, 32)
    ids = routes(3, 2, 4)
    ids[2, 1] = bad
    with pytest.raises(ValueError, match=f"id {bad} of token 2, pick 1 is not -1 and not one of the 4 experts"):
        kernels.experts(layer, inputs(3, 32), ids)


def test_silu_is_accurate_and_has_the_same_bits_at_every_level(provider: Provider) -> None:
    """With unit matrices for gate, up and down a row is silu(x) * x, and nothing is rounded but that."""
    points = np.concatenate([np.linspace(-100, 100, 4001), [0.0, -0.0, 1e-30, 1e-45, 87.5, 88.5, 1e4]])
    width = 32
    x = np.resize(points, (len(points) // width + 1, width)).astype(np.float32)
    outputs = []
    for isa in provider.native.ISAS:  # type: ignore[attr-defined]
        with Kernels(provider, isa=isa, knobs={"pool.threads": "1"}) as kernels:
            unit = kernels.store("f32", np.eye(width, dtype=np.float32))
            outputs.append(kernels.experts([(unit, unit, unit)], x, np.zeros((len(x), 1), np.int32)))
    assert all(np.array_equal(bits(outputs[0]), bits(other)) for other in outputs)
    exact = silu(x.astype(np.float64)) * x
    assert np.allclose(outputs[0], exact, rtol=5e-7, atol=1e-34)


def test_combine_adds_picks_in_order_in_float32(kernels: Kernels) -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((5 * 4, 70), dtype=np.float32)
    weights = generator.random((5, 4), dtype=np.float32)
    start = generator.standard_normal((5, 70), dtype=np.float32)
    expected = start.copy()
    for pick in range(4):
        expected += weights[:, pick, None] * rows.reshape(5, 4, 70)[:, pick]
    assert np.array_equal(bits(kernels.combine(rows, weights, start)), bits(expected))


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("held", [np.inf, -np.inf, np.nan])
def test_a_weight_of_zero_adds_nothing_whatever_the_row_holds(kernels: Kernels, zero: float, held: float) -> None:
    rows = np.ones((2, 33), np.float32)
    rows[0] = held
    out = kernels.combine(rows, np.array([[zero, 0.5]], np.float32), np.full((1, 33), -0.0, np.float32))
    assert np.array_equal(out, np.full((1, 33), 0.5, np.float32))
    nothing = kernels.combine(rows, np.array([[zero, zero]], np.float32), np.full((1, 33), -0.0, np.float32))
    assert np.array_equal(bits(nothing), bits(np.full((1, 33), -0.0, np.float32)))


def test_combining_nothing_changes_nothing(kernels: Kernels) -> None:
    out = np.ones((3, 8), np.float32)
    assert np.array_equal(kernels.combine(np.zeros((0, 8), np.float32), np.zeros((3, 0), np.float32), out), out)
