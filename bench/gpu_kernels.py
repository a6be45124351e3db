"""Device kernels that read weights, on a GPU: microseconds, and bytes of weights per second beside a copy's.

    python bench/gpu_kernels.py [--kernel PATTERN] [--tokens 1,5,8] [--formats q4_k,q6_k,q8_0] [--device cuda] [--json]

The kernels package is the one that `strata` would use; STRATA_PROVIDER_PATH names another. Shapes are those of
Qwen3-30B-A3B: hidden 2048, 128 experts of width 768, 8 for each token.

Every line is one CUDA graph of launches that go round many copies of the weights, so that the second-level cache never
has those of the next one; its time is shared out to them. GB/s count device matrices (of `to_floats` also what it
writes), the copy what it reads and writes. `error` is the largest difference from a product in float64 with the same
quantised inputs, as a share of the sum of |weight| times |input|: a wrong kernel shows there. `--device cpu` runs it
inline on small shapes, which tries the script and says nothing of speed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial

import numpy as np
import torch
from common import report
from gpu_device import Launch, TimedDevice
from pool import random_blocks

from strata_runtime.bench.columns import table
from strata_runtime.native_device import quantized_bytes

HIDDEN, WIDTH, EXPERTS, TOP_K = 2048, 768, 128, 8
SPREAD_BYTES = 512 << 20
"""Weights that the launches of a graph go round: several times the second-level cache."""


@dataclass(frozen=True)
class Result:
    """One row of the table. `share` is the fraction of the copy's bandwidth."""

    kernel: str
    format: str
    tokens: int
    microseconds: float
    gigabytes_per_second: float
    share: float
    error: float


@dataclass(frozen=True)
class Case:
    """Launches that do the same to different memory, what one moves, and how wrong its result is.

    `keep` holds the memory that launches have addresses of.
    """

    kernel: str
    format: str
    tokens: int
    launches: Sequence[Launch]
    bytes: int
    error: Callable[[], float]
    keep: tuple[object, ...]


class Device(TimedDevice):
    """The kernels of a package, and memory that they read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.shrink = 1 if self.is_gpu else 8
        self.spread = SPREAD_BYTES if self.is_gpu else 1 << 20

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return a tensor of zeros."""
        return torch.zeros(shape, dtype=dtype, device=self.name)

    def normal(self, *shape: int) -> torch.Tensor:
        """Return normal numbers, always the same ones."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(self.name)

    def matrix(self, form: str, rows: int, columns: int, seed: int = 0) -> torch.Tensor:
        """The bytes of a device matrix of random weights."""
        info = self.formats[form]
        if info.quants is None:
            weights = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) / 30
            kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[form]
            return weights.to(kind).view(torch.uint8).reshape(-1).to(self.name)
        stored = random_blocks(info, rows * info.row_bytes(columns) // info.block_bytes, seed)
        made = np.empty(self.kernels.matrix_bytes(form, rows, columns), np.uint8)
        self.kernels.arrange(form, rows, columns, stored.ctypes.data, made.ctypes.data)
        return torch.from_numpy(made).to(self.name)

    def quantised(self, x: torch.Tensor) -> torch.Tensor:
        """Return the inputs of products with quantised weights."""
        q = self.zeros(quantized_bytes(*x.shape), dtype=torch.uint8)
        self.kernels.quantize_rows(*x.shape, x.data_ptr(), q.data_ptr(), self.stream)
        return q

    def inputs(self, form: str, x: torch.Tensor) -> torch.Tensor:
        """What a format's products read of `x`: the values that its quantised form stands for, in float64."""
        if self.formats[form].quants is None:
            return x.double()
        rows, columns = x.shape
        q = self.quantised(x)
        values = q[: rows * columns].view(torch.int8).view(rows, -1, 32)
        scales = q[rows * columns :][: rows * columns // 8].view(torch.float32).view(rows, -1, 1)
        return (values.double() * scales.double()).view(rows, columns)

    def floats(self, form: str, rows: int, columns: int, weights: torch.Tensor) -> torch.Tensor:
        """Return what a device matrix stands for, in float64."""
        out = self.zeros(rows, columns)
        self.kernels.to_floats((form, rows, columns, weights.data_ptr(), 1.0), "f32", out.data_ptr(), self.stream)
        return out.double()


def _error(found: torch.Tensor, weights: torch.Tensor, inputs: torch.Tensor) -> float:
    expected, most = inputs @ weights.T, inputs.abs() @ weights.abs().T
    return float(((found.double() - expected).abs() / most).max())


def _copies(device: Device, weights: torch.Tensor) -> list[torch.Tensor]:
    count = max(2, device.spread // weights.nbytes)
    return [weights, *(weights.clone() for _ in range(min(count, 64) - 1))]


def linear(device: Device, name: str, form: str, shapes: Sequence[int], columns: int, tokens: int) -> Case:
    """Matrices of the same inputs, in one launch."""
    sizes = [rows // device.shrink for rows in shapes]
    columns //= device.shrink if columns > 2048 else 1
    weights = [device.matrix(form, rows, columns, seed) for seed, rows in enumerate(sizes)]
    x = device.normal(tokens, columns)
    q = device.quantised(x)
    outs = [device.zeros(tokens, rows) for rows in sizes]
    joined = torch.cat(weights)
    starts = np.cumsum([0, *(part.nbytes for part in weights[:-1])]).tolist()

    def launch_of(copy: torch.Tensor) -> Launch:
        matrices = [
            ((form, rows, columns, copy.data_ptr() + start, 1.0), out.data_ptr())
            for rows, start, out in zip(sizes, starts, outs, strict=True)
        ]
        return lambda stream: device.kernels.linear(matrices, tokens, x.data_ptr(), q.data_ptr(), False, stream)

    copies = _copies(device, joined)
    launches = list(map(launch_of, copies))

    def error() -> float:
        parts = zip(outs, weights, sizes, strict=True)
        inputs = device.inputs(form, x)
        return max(_error(out, device.floats(form, rows, columns, part), inputs) for out, part, rows in parts)

    return Case(name, form, tokens, launches, joined.nbytes, error, (copies, x, q, outs))


@dataclass(frozen=True)
class Routes:
    """A window's plan over slots of all experts; `used` is how many different ones it asks for."""

    plan: torch.Tensor
    ids: torch.Tensor
    used: int


def _routes(device: Device, tokens: int, experts: int, seed: int) -> Routes:
    generator = np.random.default_rng(seed)
    chosen = np.stack([generator.permutation(experts)[:TOP_K] for _ in range(tokens)]).astype(np.int32)
    ids, slots = torch.from_numpy(chosen).to(device.name), torch.arange(experts, dtype=torch.int32, device=device.name)
    plan, error = device.zeros(device.kernels.PLAN_BYTES, dtype=torch.uint8), device.zeros(1, dtype=torch.int32)
    where = (ids.data_ptr(), 0, slots.data_ptr(), plan.data_ptr(), error.data_ptr())
    device.kernels.resident_plan(tokens, TOP_K, experts, experts, True, *where, device.stream)
    return Routes(plan, ids, len(np.unique(chosen)))


def experts(device: Device, half: str, form: str, tokens: int) -> Case:
    """One half of a layer's experts; every launch routes anew."""
    hidden, width, count = HIDDEN // (2 if device.shrink > 1 else 1), WIDTH // (3 if device.shrink > 1 else 1), EXPERTS
    if not device.is_gpu:
        count = 16
    gate_up = half == "gate_up"
    rows, columns, matrices = (width, hidden, 2) if gate_up else (hidden, width, 1)
    expert = torch.cat([device.matrix(form, rows, columns, seed) for seed in range(matrices)])
    size = expert.nbytes // matrices
    slots = [expert.repeat(count) for _ in range(6)]  # neighbours in the graph share none
    routes = [_routes(device, tokens, count, seed) for seed in range(18)]
    entries = tokens * TOP_K
    x = device.normal(tokens if gate_up else entries, columns)
    q, out = device.quantised(x), device.zeros(entries, rows)
    out_q = device.zeros(quantized_bytes(entries, rows), dtype=torch.uint8)

    def launch_of(number: int) -> Launch:
        place = (routes[number].plan.data_ptr(), slots[number % len(slots)].data_ptr(), expert.nbytes)
        sizes = (form, tokens, TOP_K, hidden, width)
        if gate_up:
            ends = (0, 0, x.data_ptr(), q.data_ptr(), out.data_ptr(), out_q.data_ptr())
            return lambda stream: device.kernels.expert_gate_up(*sizes, *place, 0, size, *ends, stream)
        last = (0, x.data_ptr(), q.data_ptr(), out.data_ptr())
        return lambda stream: device.kernels.expert_down(*sizes, *place, 0, *last, stream)

    def error() -> float:
        inputs = device.inputs(form, x)
        weights = [device.floats(form, rows, columns, expert[size * m :]) for m in range(matrices)]
        if not gate_up:
            return _error(out, weights[0], inputs)
        gate, up = (inputs.repeat_interleave(TOP_K, 0) @ part.T for part in weights)
        expected = torch.nn.functional.silu(gate) * up
        return float(((out.double() - expected).abs() / (gate.abs() * up.abs() + 1)).max())

    moved = sum(route.used for route in routes) * expert.nbytes // len(routes)
    launches, keep = list(map(launch_of, range(len(routes)))), (slots, routes, x, q, out, out_q)
    return Case(f"expert_{half}", form, tokens, launches, moved, error, keep)


def decoding(device: Device, form: str) -> Case:
    """The experts' matrices of one kind to bfloat16, all at once."""
    rows, columns, count = WIDTH, HIDDEN // device.shrink, EXPERTS // device.shrink
    weights = device.matrix(form, rows, columns).repeat(count)
    size = weights.nbytes // count
    addresses = torch.arange(count, dtype=torch.int64, device=device.name) * size + weights.data_ptr()
    out = device.zeros(count, rows, columns, dtype=torch.bfloat16)
    where = (addresses.data_ptr(), count, 0, "bf16", out.data_ptr())

    def error() -> float:
        expected = device.floats(form, rows, columns, weights)
        return float(((out[-1].double() - expected).abs() / expected.abs().max()).max())

    def launch(stream: int) -> object:
        return device.kernels.to_floats_many(form, rows, columns, *where, stream)

    return Case("to_floats", form, 0, [launch] * 4, weights.nbytes + out.nbytes, error, (weights, addresses, out))


SHAPES: Mapping[str, tuple[Sequence[int], int]] = {
    "linear_qkv": ([4096, 512, 512], 2048),
    "linear_o": ([2048], 4096),
    "linear_head": ([151936], 2048),
}
"""Rows of the matrices of a launch, and their columns."""


def cases(device: Device, forms: Sequence[str], tokens: Sequence[int]) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Names, and what makes the case."""
    for form in forms:
        for count in tokens:
            for half in ("gate_up", "down"):
                yield f"expert_{half}", partial(experts, device, half, form, count)
            for name, (rows, columns) in SHAPES.items():
                yield name, partial(linear, device, name, form, rows, columns, count)
        yield "to_floats", partial(decoding, device, form)
    for count in tokens:
        yield "linear_router", partial(linear, device, "linear_router", "f32", [128], HIDDEN, count)


def main() -> None:
    """Run from the command line."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="*", help="pattern of kernels (%(default)s)")
    parser.add_argument("--tokens", default="1,5,8", help="tokens of a window (%(default)s)")
    parser.add_argument("--formats", default="q4_k,q6_k,q8_0,iq3_s", help="formats of the weights (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where to run (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    device = Device(arguments.device)
    bandwidth = device.copy_bandwidth()
    results = []
    tokens = [int(count) for count in arguments.tokens.split(",")]
    for name, make in cases(device, arguments.formats.split(","), tokens):
        if not fnmatchcase(name, arguments.kernel):
            continue
        case = make()
        seconds = device.seconds(case.launches)
        speed = case.bytes / seconds
        error = case.error()
        results.append(Result(name, case.format, case.tokens, seconds * 1e6, speed / 1e9, speed / bandwidth, error))
    rows = [("kernel", "format", "T", "us", "GB/s", "of copy", "error")]
    for each in results:
        numbers = (f"{each.microseconds:.1f}", f"{each.gigabytes_per_second:.0f}", f"{each.share:.2f}")
        rows.append((each.kernel, each.format, str(each.tokens or ""), *numbers, f"{each.error:.0e}"))
    where = torch.cuda.get_device_name() if device.is_gpu else "CPU, inline"
    lines = ["", f"{where}: a copy moves {bandwidth / 1e9:.0f} GB/s", "", *table(rows)]
    report({"copy_gb_s": bandwidth / 1e9, "results": [asdict(each) for each in results]}, lines, as_json=arguments.json)


if __name__ == "__main__":
    main()
