"""Kernels on a real GPU have the bits of the same kernels inline. Skipped where there is none, or no package for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from strata_gen.paths import project_root, specs_root
from strata_runtime.device.registered import Registered
from strata_runtime.memory import huge_bytes
from strata_runtime.native_device import DeviceKernels, quantized_bytes
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider
from support.compiled import compiled_provider
from support.random_blocks import random_blocks

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]

HIDDEN, WIDTH, EXPERTS, TOP_K = 512, 256, 40, 8
TOKENS = (1, 2, 5, 8)
SHAPE = (8, 2, 64)
CAPACITY = 1024

NAMES = sorted(path.stem for path in (specs_root() / "formats").glob("*.yaml"))
"""Of formats: the generator reads them with packages that a machine with a GPU may lack."""

Run = Callable[[DeviceKernels, Sequence[int], int], None]
"""Calls kernels with the addresses of tensors, on a stream."""


@pytest.fixture(scope="module")
def inline() -> DeviceKernels:
    return compiled_provider().native.device


@pytest.fixture(scope="module")
def gpu() -> Provider:
    found = sorted(project_root().glob("build/cuda/*/package/strata_kernels_*"))
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    fitting = [folder for folder in found if folder.parts[-3] == arch]
    if not fitting:
        pytest.skip(f"no package for {arch}: strata-gen build --target cuda {arch}")
    return find_provider({PATH_VARIABLE: str(fitting[0])})


@pytest.fixture
def same(inline: DeviceKernels, gpu: Provider) -> Callable[[Sequence[torch.Tensor], Run], None]:
    def check(tensors: Sequence[torch.Tensor], run: Run) -> None:
        here, there = [each.clone() for each in tensors], [each.cuda() for each in tensors]
        run(inline, [each.data_ptr() for each in here], 0)
        run(gpu.native.device, [each.data_ptr() for each in there], torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        for number, (a, b) in enumerate(zip(here, there, strict=True)):
            differing = (a.view(torch.uint8) != b.cpu().view(torch.uint8)).sum()
            assert int(differing) == 0, f"tensor {number}: {int(differing)} bytes of {a.nbytes} differ"

    return check


def floats(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def room(size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8)


def matrix(inline: DeviceKernels, name: str, rows: int, columns: int, seed: int) -> torch.Tensor:
    info = next(info for info in compiled_provider().formats if info.name == name)
    stored = random_blocks(info, rows, columns, seed)
    out = room(inline.matrix_bytes(name, rows, columns))
    inline.arrange(name, rows, columns, int(stored.ctypes.data), out.data_ptr())
    return out


def quantised(inline: DeviceKernels, x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    q = room(quantized_bytes(rows, columns))
    inline.quantize_rows(rows, columns, x.data_ptr(), q.data_ptr(), 0)
    return q


def block_of(name: str) -> int:
    return next(info.block_elements for info in compiled_provider().formats if info.name == name)


def columns_of(name: str) -> int:
    return max(HIDDEN, block_of(name))


@pytest.mark.parametrize("tokens", TOKENS)
def test_rows(tokens: int, same: Callable[..., None]) -> None:
    x, weight = floats(0, tokens, HIDDEN), floats(1, HIDDEN)
    q = room(quantized_bytes(tokens, HIDDEN))

    def run(kernels: DeviceKernels, at: Sequence[int], stream: int) -> None:
        x, weight, out, q, gated, gated_q, summed, best = at
        kernels.rms_norm(tokens, HIDDEN, x, weight, 1e-6, out, q, stream)
        kernels.silu_multiply(tokens, HIDDEN, x, out, gated, gated_q, stream)
        kernels.add(tokens * HIDDEN, gated, summed, stream)
        kernels.argmax(tokens, HIDDEN, summed, best, stream)

    best = torch.zeros(tokens, dtype=torch.int32)
    same([x, weight, torch.zeros_like(x), q, torch.zeros_like(x), q, floats(2, tokens, HIDDEN), best], run)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", TOKENS)
def test_products(name: str, tokens: int, same: Callable[..., None], inline: DeviceKernels) -> None:
    columns = columns_of(name)
    x = floats(0, tokens, columns)
    rows = (96, 40)

    def run(kernels: DeviceKernels, at: Sequence[int], stream: int) -> None:
        x, q, first, second, out, other, decoded = at
        pairs = [((name, rows[0], columns, first, 0.5), out), ((name, rows[1], columns, second, 1.0), other)]
        kernels.linear(pairs, tokens, x, q, False, stream)
        kernels.linear(pairs[:1], tokens, x, q, True, stream)
        kernels.to_floats((name, rows[0], columns, first, 0.5), "f32", decoded, stream)

    weights = [matrix(inline, name, count, columns, seed) for seed, count in enumerate(rows)]
    outs = [torch.zeros(tokens, count) for count in rows]
    same([x, quantised(inline, x), *weights, *outs, torch.zeros(rows[0], columns)], run)


@pytest.mark.parametrize("share", [0, 512, 1024])
@pytest.mark.parametrize("tokens", TOKENS)
def test_experts_in_the_memory_of_the_host(
    tokens: int, share: int, same: Callable[..., None], inline: DeviceKernels
) -> None:
    """A GPU reads them where they are: in pages that are registered for it."""
    name, entries = "q4_k", tokens * TOP_K
    shapes = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
    parts = [matrix(inline, name, *shape, seed) for seed in range(EXPERTS) for shape in shapes]
    memory = torch.from_numpy(huge_bytes(sum(part.numel() for part in parts)))
    memory.copy_(torch.cat(parts))
    up, stride, at = parts[0].numel(), sum(part.numel() for part in parts[:3]), memory.data_ptr()
    seed = torch.Generator().manual_seed(tokens)
    ids = torch.stack([torch.randperm(EXPERTS, generator=seed)[:TOP_K] for _ in range(tokens)]).to(torch.int32)
    x, weights = floats(0, tokens, HIDDEN), torch.rand(tokens, TOP_K, generator=seed)

    def run(kernels: DeviceKernels, addresses: Sequence[int], stream: int) -> None:
        x, q, ids, weights, table, parts, plan, error, middle, middle_q, rows = addresses
        where = ids, weights, table, plan, error, stream, parts
        kernels.resident_plan(tokens, TOP_K, EXPERTS, EXPERTS, False, *where)
        sizes, between = (tokens, TOP_K, HIDDEN, WIDTH, plan), (middle, middle_q)
        kernels.expert_gate_up(name, *sizes, at, stride, 0, up, 0, 0, x, q, *between, stream, True)
        kernels.expert_down(name, *sizes, at, stride, 2 * up, 0, *between, rows, stream, True)

    held = Registered(torch.device("cuda"), [(at, memory.numel())])
    table, parts_of_all = torch.full((EXPERTS,), -1, dtype=torch.int32), torch.tensor([share], dtype=torch.int32)
    between = torch.zeros(entries, WIDTH), room(quantized_bytes(entries, WIDTH))
    plan = room(inline.PLAN_BYTES), torch.zeros(1, dtype=torch.int32)
    made = x, quantised(inline, x), ids, weights, table, parts_of_all, *plan, *between, torch.zeros(entries, HIDDEN)
    same(made, run)
    held.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", TOKENS)
def test_experts(name: str, tokens: int, same: Callable[..., None], inline: DeviceKernels) -> None:
    hidden, width = columns_of(name), max(WIDTH, block_of(name))
    entries = tokens * TOP_K
    x, seed = floats(0, tokens, hidden), torch.Generator().manual_seed(tokens)
    ids = torch.stack([torch.randperm(EXPERTS, generator=seed)[:TOP_K] for _ in range(tokens)]).to(torch.int32)
    weights = torch.rand(tokens, TOP_K, generator=seed)
    table = torch.where(torch.arange(EXPERTS) % 4 == 3, -1, torch.arange(EXPERTS)).to(torch.int32)
    parts = [
        torch.cat([matrix(inline, name, *shape, 100 * part + expert) for part, shape in enumerate(shapes)])
        for expert in range(EXPERTS)
        for shapes in [((width, hidden), (width, hidden), (hidden, width))]
    ]
    stride = len(parts[0])
    up = inline.matrix_bytes(name, width, hidden)

    def run(kernels: DeviceKernels, at: Sequence[int], stream: int) -> None:
        x, q, ids, weights, table, slots, plan, error, middle, middle_q, rows, residual = at
        sizes = tokens, TOP_K, hidden, width
        kernels.resident_plan(tokens, TOP_K, EXPERTS, EXPERTS, False, ids, weights, table, plan, error, stream)
        between = middle, middle_q
        kernels.expert_gate_up(name, *sizes, plan, slots, stride, 0, up, 0, 0, x, q, *between, stream)
        kernels.expert_down(name, *sizes, plan, slots, stride, 2 * up, 0, *between, rows, stream)
        kernels.combine(tokens, TOP_K, hidden, rows, weights, residual, stream)

    blocks = width // 32 * 40 if width % 32 == 0 else 0
    between = torch.zeros(entries, width), room(entries * max(blocks, 1))
    same(
        [
            *(x, quantised(inline, x), ids, weights, table, torch.cat(parts), room(inline.PLAN_BYTES)),
            *(torch.zeros(1, dtype=torch.int32), *between, torch.zeros(entries, hidden), floats(5, tokens, hidden)),
        ],
        run,
    )


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("tokens", TOKENS)
def test_choices(tokens: int, sigmoid: bool, same: Callable[..., None]) -> None:
    def run(kernels: DeviceKernels, at: Sequence[int], stream: int) -> None:
        logits, bias, ids, weights, table, rows, owner, residual, copied = at
        kernels.router_topk(tokens, EXPERTS, TOP_K, logits, bias, sigmoid, True, 2.5, ids, weights, stream)
        kernels.ecap_redirect(tokens, TOP_K, TOP_K + 3, ids, weights, stream)
        kernels.tail_skip(tokens, TOP_K, EXPERTS, 5, table, ids, weights, stream)
        kernels.rows_copy(tokens * TOP_K, HIDDEN, "at_least", 0.2, True, rows, owner, weights, copied, stream)
        kernels.late_add(tokens, TOP_K, HIDDEN, "below", 0.2, rows, owner, weights, residual, stream)

    entries = tokens * TOP_K
    table = torch.where(torch.arange(EXPERTS) % 2 == 1, -1, torch.arange(EXPERTS)).to(torch.int32)
    owner = torch.arange(entries).remainder(3).to(torch.uint8)
    same(
        [
            *(floats(0, tokens, EXPERTS), floats(1, EXPERTS), torch.zeros(tokens, TOP_K, dtype=torch.int32)),
            *(torch.zeros(tokens, TOP_K), table, floats(2, entries, HIDDEN), owner, floats(3, tokens, HIDDEN)),
            floats(4, entries, HIDDEN),
        ],
        run,
    )


@pytest.mark.parametrize("filled", [0, 1, 300, 700])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("tokens", TOKENS)
def test_heads(
    tokens: int, kind: str, filled: int, same: Callable[..., None], inline: DeviceKernels, gpu: Provider
) -> None:
    heads, kv_heads, dim = SHAPE
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[kind]
    cache = floats(0, 2, kv_heads, CAPACITY, dim).to(dtype)
    queries, keys, values = (
        floats(seed, tokens, count, dim) for seed, count in ((1, heads), (2, kv_heads), (3, kv_heads))
    )
    tensors = [
        *(cache, torch.tensor([filled], dtype=torch.int32), floats(4, CAPACITY, 2, dim // 2), floats(5, dim)),
        *(floats(6, dim), queries, keys, values),
    ]

    def prepare(kernels: DeviceKernels, at: Sequence[int], stream: int) -> None:
        cache, position, angles, q_norm, k_norm, queries, keys, values = at[:8]
        rules = q_norm, k_norm, 1e-6, dim**-0.5, dim
        where = tokens, position, angles, queries, keys, values
        kernels.prepare_heads(SHAPE, rules, (cache, kind, CAPACITY), *where, stream)  # type: ignore[arg-type]

    same(tensors, prepare)
    size = inline.attend_workspace(SHAPE, tokens, CAPACITY)

    def attend(kernels: DeviceKernels, tensors: Sequence[torch.Tensor], stream: int) -> torch.Tensor:
        at = [each.data_ptr() for each in tensors]
        prepare(kernels, at, stream)
        out = torch.zeros(tokens, heads * dim, device=tensors[0].device)
        q = torch.zeros(quantized_bytes(tokens, heads * dim), dtype=torch.uint8, device=out.device)
        work = torch.zeros(size, dtype=torch.uint8, device=out.device)
        where = tokens, at[1], at[5], out.data_ptr(), q.data_ptr(), work.data_ptr()
        kernels.attend(SHAPE, (at[0], kind, CAPACITY), *where, stream)  # type: ignore[arg-type]
        torch.cuda.synchronize()
        return out.cpu()

    expected = attend(inline, [each.clone() for each in tensors], 0)
    stream = torch.cuda.current_stream().cuda_stream
    found = attend(gpu.native.device, [each.cuda() for each in tensors], stream)
    if kind == "f32":
        assert torch.equal(found.view(torch.int32), expected.view(torch.int32))
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol={"f16": 4e-3, "bf16": 3e-2}[kind])
