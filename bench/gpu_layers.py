"""Device kernels between the products of a layer, on a GPU: microseconds, and bytes per second beside a copy's.

    python bench/gpu_layers.py [--kernel PATTERN] [--tokens 1,5,8] [--device cuda] [--json]

The kernels package is the one that `strata` would use; STRATA_PROVIDER_PATH names another. Shapes are those of
Qwen3-30B-A3B: hidden 2048, 32 queries and 4 keys of 128 elements, 128 experts of which a token takes 8.

Every line is one CUDA graph of launches that follow each other, and its time is shared out to them; those of attention
go round as many caches as the second-level cache cannot hold. Small kernels move next to nothing: what counts is what
a launch of them takes. `error` is the largest difference from torch in float64, as a share of the largest result;
attention also compares a token's bits in the window with those of the token alone, and says `company!` where they
differ. `--device cpu` runs it inline on small shapes, which tries the script and says nothing of speed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial

import numpy as np
import torch
from common import report
from gpu_device import Launch, TimedDevice
from pool import random_blocks

from strata_runtime.bench.columns import table

HIDDEN, WIDTH, TOP_K, VOCABULARY = 2048, 768, 8, 151936
HEADS, KV_HEADS, DIM = SHAPE = 32, 4, 128
SPREAD_BYTES = 512 << 20
"""Memory that the launches of a graph go round: several times the second-level cache."""

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Result:
    """One row of the table. `share` is the fraction of the copy's bandwidth."""

    kernel: str
    size: str
    tokens: int
    microseconds: float
    gigabytes_per_second: float
    share: float
    error: str


@dataclass(frozen=True)
class Case:
    """Launches that do the same, what one moves, and how wrong its result is. `keep` holds memory of the launches."""

    kernel: str
    size: str
    tokens: int
    launches: Sequence[Launch]
    bytes: int
    error: Callable[[], str]
    keep: tuple[object, ...]


class Device(TimedDevice):
    """The kernels of a package, and where they run."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.repeats = 64 if self.is_gpu else 2

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return memory."""
        return torch.zeros(shape, dtype=dtype, device=self.name)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return normal numbers, always the same ones."""
        generator = torch.Generator(self.name).manual_seed(sum(shape))
        return torch.randn(shape, generator=generator, device=self.name).to(dtype)

    def integers(self, *values: int) -> torch.Tensor:
        """Return int32 numbers."""
        return torch.tensor(values, dtype=torch.int32, device=self.name)


def _quantised(device: Device, x: torch.Tensor) -> torch.Tensor:
    return device.empty(x.numel() * 40 // 32, dtype=torch.uint8)


def _error(found: torch.Tensor, expected: torch.Tensor) -> str:
    return f"{float((found.double() - expected.double()).abs().max() / expected.double().abs().max()):.0e}"


def _case(
    device: Device, name: str, size: str, tokens: int, call: Launch, moved: int, error: Callable[[], str], *keep: object
) -> Case:
    return Case(name, size, tokens, [call] * device.repeats, moved, error, keep)


def attention(device: Device, kind: str, positions: int, tokens: int) -> Case:
    """A window over long caches, several in turn; both launches together."""
    dtype, capacity = TYPES[kind], positions + 64
    moved = 2 * KV_HEADS * positions * DIM * dtype.itemsize
    count = max(2, SPREAD_BYTES // moved if device.is_gpu else 2)
    caches = [device.normal(2, KV_HEADS, capacity, DIM, dtype=dtype) for _ in range(min(count, 64))]
    queries = device.normal(tokens, HEADS, DIM) * DIM**-0.5 * 3
    out, position = device.empty(tokens, HEADS, DIM), device.integers(positions - tokens)
    q, workspace = _quantised(device, out), device.empty(device.kernels.attend_workspace(SHAPE, tokens, capacity) // 4)

    def run(cache: torch.Tensor, first: int, count: int, to: torch.Tensor, stream: int) -> object:
        at = device.integers(positions - tokens + first) if first else position
        given = queries[first : first + count]
        places = (at.data_ptr(), given.data_ptr(), to.data_ptr(), q.data_ptr(), workspace.data_ptr(), stream)
        return at, device.kernels.attend(SHAPE, (cache.data_ptr(), kind, capacity), count, *places)

    def error() -> str:
        run(caches[0], 0, tokens, out, device.stream)
        wrong = _error(out, _attended(queries, caches[0], positions))
        alone = device.empty(1, HEADS, DIM)
        held = run(caches[0], tokens - 1, 1, alone, device.stream)
        is_same = torch.equal(alone[0].view(torch.int32), out[-1].view(torch.int32))
        return wrong if is_same and held else f"{wrong} company!"

    launches = [partial(run, cache, 0, tokens, out) for cache in caches]
    keep = (caches, queries, out, q, workspace, position)
    return Case("attend", f"{kind} {positions}", tokens, launches, moved, error, keep)


def _attended(queries: torch.Tensor, cache: torch.Tensor, positions: int) -> torch.Tensor:
    tokens, results = len(queries), []
    for head in range(HEADS):
        keys, values = cache[:, head // (HEADS // KV_HEADS), :positions].double()
        scores = queries[:, head].double() @ keys.T
        behind = (
            torch.arange(positions, device=scores.device)[None] - torch.arange(tokens, device=scores.device)[:, None]
        )
        scores.masked_fill_(behind > positions - tokens, -torch.inf)
        results.append(torch.softmax(scores, -1) @ values)
    return torch.stack(results, 1)


def rms_norm(device: Device, rows: int) -> Case:
    """Rows of hidden states, quantised too."""
    x, weight, out = device.normal(rows, HIDDEN), device.normal(HIDDEN), device.empty(rows, HIDDEN)
    q = _quantised(device, x)
    places = (x.data_ptr(), weight.data_ptr(), 1e-6, out.data_ptr(), q.data_ptr())

    def error() -> str:
        wide = x.double()
        return _error(out, wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.double())

    def call(stream: int) -> object:
        return device.kernels.rms_norm(rows, HIDDEN, *places, stream)

    moved = 2 * x.nbytes + weight.nbytes + q.nbytes
    return _case(device, "rms_norm", f"{HIDDEN}", rows, call, moved, error, x, weight, out, q)


def silu_multiply(device: Device, tokens: int) -> Case:
    """Gates of a shared expert."""
    gate, up, out = device.normal(tokens, WIDTH), device.normal(tokens, WIDTH) + 1, device.empty(tokens, WIDTH)
    q = _quantised(device, gate)
    places = (gate.data_ptr(), up.data_ptr(), out.data_ptr(), q.data_ptr())

    def error() -> str:
        return _error(out, torch.nn.functional.silu(gate.double()) * up.double())

    def call(stream: int) -> object:
        return device.kernels.silu_multiply(tokens, WIDTH, *places, stream)

    return _case(device, "silu_multiply", f"{WIDTH}", tokens, call, 3 * gate.nbytes + q.nbytes, error, gate, up, out, q)


def embed(device: Device, form: str, tokens: int) -> Case:
    """Rows of a table."""
    info, rows = device.formats[form], VOCABULARY if device.is_gpu else 512
    stored = random_blocks(info, rows * info.row_bytes(HIDDEN) // info.block_bytes, seed=0)
    table_bytes = torch.from_numpy(stored).view(torch.uint8).reshape(rows, -1)
    memory = table_bytes.to(device.name)
    chosen = torch.randint(rows, (tokens,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    ids, out = chosen.to(device.name), device.empty(tokens, HIDDEN)

    def error() -> str:
        decoded = info.decode(table_bytes[chosen.long()].numpy().reshape(tokens, -1, info.block_bytes))
        return _error(out.cpu(), torch.from_numpy(np.asarray(decoded, np.float32).reshape(tokens, HIDDEN)))

    def call(stream: int) -> object:
        return device.kernels.embed(form, HIDDEN, memory.data_ptr(), ids.data_ptr(), tokens, out.data_ptr(), stream)

    return _case(device, "embed", form, tokens, call, out.nbytes, error, memory, ids, out)


def argmax(device: Device, tokens: int) -> Case:
    """Logits."""
    x, out = device.normal(tokens, VOCABULARY), device.empty(tokens, dtype=torch.int32)

    def error() -> str:
        return "0" if torch.equal(out.long(), x.argmax(-1)) else "wrong!"

    def call(stream: int) -> object:
        return device.kernels.argmax(tokens, VOCABULARY, x.data_ptr(), out.data_ptr(), stream)

    return _case(device, "argmax", f"{VOCABULARY}", tokens, call, x.nbytes, error, x, out)


def prepare_heads(device: Device, tokens: int) -> Case:
    """Queries, keys and values into a cache of float16."""
    capacity, start = tokens + 100, 77
    queries, given = device.normal(tokens, HEADS, DIM), device.normal(tokens, HEADS, DIM)
    keys, values = device.normal(tokens, KV_HEADS, DIM), device.normal(tokens, KV_HEADS, DIM) + 1
    turns = torch.arange(capacity)[:, None] * 1e6 ** -(torch.arange(DIM // 2) / (DIM // 2))
    angles = torch.stack((turns.cos(), turns.sin()), 1).to(device.name)
    norm, position = device.normal(DIM), device.integers(start)
    cache = device.empty(2, KV_HEADS, capacity, DIM, dtype=torch.float16)
    rules = (norm.data_ptr(), norm.data_ptr(), 1e-6, DIM**-0.5, DIM)
    where = (cache.data_ptr(), "f16", capacity)
    places = tuple(each.data_ptr() for each in (position, angles, queries, keys, values))

    def call(stream: int) -> object:
        return device.kernels.prepare_heads(SHAPE, rules, where, tokens, *places, stream)

    def error() -> str:
        queries.copy_(given)
        call(device.stream)
        turned = [_turned(each, norm, angles[start : start + tokens]) for each in (given, keys)]
        stored = cache[:, :, start : start + tokens].transpose(1, 2)
        wrong = (_error(queries, turned[0] * DIM**-0.5), _error(stored[0], turned[1]), _error(stored[1], values))
        return f"{wrong[0]} {max(wrong[1:])}"

    moved = 2 * queries.nbytes + 3 * keys.nbytes
    keep = (queries, keys, values, angles, norm, position, cache)
    return _case(device, "prepare_heads", "f16", tokens, call, moved, error, *keep)


def _turned(heads: torch.Tensor, norm: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    wide = heads.double()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * norm.double()
    a, b = normed.chunk(2, -1)
    cosine, sine = angles.double()[:, 0, None], angles.double()[:, 1, None]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


def router_topk(device: Device, experts: int, tokens: int) -> Case:
    """Logits of a layer's experts."""
    logits = device.normal(tokens, experts)
    ids, weights = device.empty(tokens, TOP_K, dtype=torch.int32), device.empty(tokens, TOP_K)
    places = (logits.data_ptr(), 0, False, True, 1.0, ids.data_ptr(), weights.data_ptr())

    def error() -> str:
        best = torch.softmax(logits.double(), -1).topk(TOP_K)
        wrong = "" if torch.equal(best.indices, ids.long()) else " ids!"
        return _error(weights, best.values / best.values.sum(-1, keepdim=True)) + wrong

    def call(stream: int) -> object:
        return device.kernels.router_topk(tokens, experts, TOP_K, *places, stream)

    return _case(device, "router_topk", f"{experts}", tokens, call, logits.nbytes, error, logits, ids, weights)


def resident_plan(device: Device, experts: int, tokens: int) -> Case:
    """A window's plan with half of the experts resident."""
    chosen = torch.stack([torch.randperm(experts)[:TOP_K] for _ in range(tokens)])
    slots = torch.where(torch.arange(experts) % 2 == 0, torch.arange(experts) // 2, -1)
    ids, slot = chosen.to(device.name, torch.int32), slots.to(device.name, torch.int32)
    weights, word = device.normal(tokens, TOP_K).abs() + 1, device.integers(0)
    plan = device.empty(device.kernels.PLAN_BYTES, dtype=torch.uint8)
    places = tuple(each.data_ptr() for each in (ids, weights, slot, plan, word))

    def error() -> str:
        first = plan[:20].view(torch.int32).tolist()
        resident = int((chosen % 2 == 0).sum())
        return "0" if first[1:] == [0, resident, tokens * TOP_K - resident, 0] and not word.item() else "wrong!"

    def call(stream: int) -> object:
        return device.kernels.resident_plan(tokens, TOP_K, experts, experts, False, *places, stream)

    return _case(
        device, "resident_plan", f"{experts}", tokens, call, plan.nbytes, error, ids, slot, weights, plan, word
    )


def combine(device: Device, tokens: int) -> Case:
    """Rows of experts into the residual."""
    rows, weights = device.normal(tokens * TOP_K, HIDDEN), device.normal(tokens, TOP_K)
    residual = device.empty(tokens, HIDDEN)
    places = (rows.data_ptr(), weights.data_ptr(), residual.data_ptr())

    def call(stream: int) -> object:
        return device.kernels.combine(tokens, TOP_K, HIDDEN, *places, stream)

    def error() -> str:
        residual.zero_()
        call(device.stream)
        return _error(residual, (weights.double()[..., None] * rows.double().view(tokens, TOP_K, HIDDEN)).sum(1))

    moved = rows.nbytes + 2 * residual.nbytes
    return _case(device, "combine", f"{HIDDEN}", tokens, call, moved, error, rows, weights, residual)


def add(device: Device, tokens: int) -> Case:
    """Hidden states."""
    x, out = device.normal(tokens, HIDDEN), device.empty(tokens, HIDDEN)

    def call(stream: int) -> object:
        return device.kernels.add(x.numel(), x.data_ptr(), out.data_ptr(), stream)

    def error() -> str:
        out.zero_()
        call(device.stream)
        return _error(out, x)

    return _case(device, "add", f"{HIDDEN}", tokens, call, 3 * x.nbytes, error, x, out)


def cases(device: Device, tokens: Sequence[int]) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Names, and what makes the case."""
    lengths = (512, 1024, 4096, 32768, 131072) if device.is_gpu else (70,)
    for count in tokens:
        for length in lengths:
            yield "attend", partial(attention, device, "f16", length, count)
        yield "attend", partial(attention, device, "bf16", lengths[-1] // 4, count)
        yield "attend", partial(attention, device, "f32", lengths[0], count)
    for count in tokens:
        for make in (rms_norm, silu_multiply, argmax, prepare_heads, combine, add):
            yield make.__name__, partial(make, device, count)
        yield "embed", partial(embed, device, "q6_k", count)
        for experts in (128, 512):
            yield "router_topk", partial(router_topk, device, experts, count)
        yield "resident_plan", partial(resident_plan, device, 128, count)
    yield "embed", partial(embed, device, "iq3_s", 5)
    if device.is_gpu:
        yield "rms_norm", partial(rms_norm, device, 8192)
        yield "prepare_heads", partial(prepare_heads, device, 8192)


def measure(device: Device, case: Case, bandwidth: float) -> Result:
    """Time a case and look at its result."""
    seconds = device.seconds(case.launches)
    speed = case.bytes / seconds
    share = speed / bandwidth
    return Result(case.kernel, case.size, case.tokens, seconds * 1e6, speed / 1e9, share, case.error())


def main() -> None:
    """Run from the command line."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="*", help="pattern of kernels (%(default)s)")
    parser.add_argument("--tokens", default="1,5,8", help="tokens of a window (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where to run (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    device = Device(arguments.device)
    bandwidth = device.copy_bandwidth()
    chosen = cases(device, [int(count) for count in arguments.tokens.split(",")])
    results = [measure(device, make(), bandwidth) for name, make in chosen if fnmatchcase(name, arguments.kernel)]
    rows = [("kernel", "size", "T", "us", "GB/s", "of copy", "error")]
    for each in results:
        numbers = (f"{each.microseconds:.1f}", f"{each.gigabytes_per_second:.0f}", f"{each.share:.2f}")
        rows.append((each.kernel, each.size, str(each.tokens), *numbers, each.error))
    where = torch.cuda.get_device_name() if device.is_gpu else "CPU, inline"
    lines = ["", f"{where}: a copy moves {bandwidth / 1e9:.0f} GB/s", "", *table(rows)]
    report({"copy": bandwidth, "results": [asdict(each) for each in results]}, lines, as_json=arguments.json)


if __name__ == "__main__":
    main()
