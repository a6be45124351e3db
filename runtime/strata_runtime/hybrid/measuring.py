"""How fast a device and the pool read experts of the host's memory, both at once."""

from __future__ import annotations

from time import perf_counter

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.hybrid.balance import share_of
from strata_runtime.hybrid.residency import SlotLayout
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.pool import PoolCompute

_EXPERTS = 8  # of each layer, by each half
_LAYERS = 8


def measured_share(device: DeviceCompute, host: PoolCompute, stock: Stock) -> float:
    """Return the share of experts with which both halves end together, from 0 to 1.

    The device copies some of some layers, while the pool computes others of them for one token. On a CPU one comes
    after the other.
    """
    layers = range(min(_LAYERS, len(stock.layers)))
    count = min(_EXPERTS, stock.loaded[0].experts.count)
    layouts = [SlotLayout.of(device.uploader, stock.layers[at], stock.wanted, at) for at in layers]
    scratch = device.uploader.room(max(layout.bytes for layout in layouts))
    is_gpu = device.device.type == "cuda"
    begun, ended = (_event() for _ in range(2)) if is_gpu else (None, None)
    started = perf_counter()
    if begun is not None:
        begun.record()
    for at in layers:
        for expert in range(count):
            last = stock.loaded[at].experts.count - 1
            stock.bring(host, device.uploader, at, last - expert, layouts[at].parts(scratch))
    if ended is not None:
        ended.record()
    copied = perf_counter() - started
    computed = _compute(host, stock, layers, count)
    if begun is not None and ended is not None:
        ended.synchronize()
        copied = begun.elapsed_time(ended) * 1e-3
    return share_of(1 / max(copied, 1e-9), 1 / max(computed, 1e-9))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _compute(host: PoolCompute, stock: Stock, layers: range, count: int) -> float:
    """Return the seconds of the pool for the first experts of some layers."""
    hidden = stock.layers[0].experts["expert_gate"][0].shape[1]
    x, rows = torch.zeros(1, hidden), torch.empty(count, hidden)
    ids = torch.arange(count, dtype=torch.int32)
    started = perf_counter()
    for at in layers:
        where = x.data_ptr(), ids.data_ptr(), rows.data_ptr()
        host.native.experts(host.pool, stock.loaded[at].experts, 1, count, *where)
    return perf_counter() - started
