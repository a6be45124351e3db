"""Where the parts of a network work: all on the pool, or layers on a GPU and the experts it has no room for there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.weights import LayerWeights, Weights
from strata_runtime.device.budget import dense_bytes, slots_beside_prompts
from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.graphs import Graphs
from strata_runtime.device.precision import Precision
from strata_runtime.device.prompts import BySize, Prompts, decoded_bytes, experts_together, passing_bytes
from strata_runtime.device.weights import Uploader
from strata_runtime.errors import UserError
from strata_runtime.formats import FormatInfo
from strata_runtime.hybrid.choice import WindowExecutor, choose_executor
from strata_runtime.hybrid.residency import slot_bytes
from strata_runtime.hybrid.stock import Stock
from strata_runtime.hybrid.store import SlotStore
from strata_runtime.layers.compute import Compute
from strata_runtime.layers.executor import Direct, Executor
from strata_runtime.layers.experts import LoadedExperts
from strata_runtime.layers.kv_cache import cache_values, context_length
from strata_runtime.layers.lanes import Lanes
from strata_runtime.layers.layout import Choice, choose_layout
from strata_runtime.layers.passes import Eager, Runner
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native import Pool
from strata_runtime.params import MAX_WINDOW
from strata_runtime.provider import Provider

if TYPE_CHECKING:
    from strata_runtime._settings import Settings

_PRECISIONS = {"bf16": Precision("f16", "bf16"), "fp32": Precision("f32", "f32")}


@dataclass(frozen=True, slots=True)
class Plans:
    """What is known before any weight is brought to its place.

    `layers`: all that will be made. `wanted`: the format that experts are re-encoded to, None for the stored one.
    """

    provider: Provider
    settings: Settings
    pool: Pool
    network: Network
    weights: Weights
    layers: Sequence[LayerWeights]
    wanted: FormatInfo | None

    @property
    def cache_values(self) -> int:
        """Numbers of all KV caches."""
        positions = context_length(self.settings.engine.context, self.network.context_length)
        return cache_values(self.network, positions, len(self.layers))

    @property
    def mixtures(self) -> list[LayerWeights]:
        """The layers with routed experts, without those that predict further tokens."""
        return [layer for layer in self.weights.layers if layer.experts]


@dataclass(frozen=True, slots=True)
class Engines:
    """What runs passes: executors of prompts, windows and drafts by a further layer, and what calls operations."""

    prompts: Executor
    windows: WindowExecutor
    drafts: Executor
    runner: Runner


class Assembly(Protocol):
    """A way to put a network together. `compute` is for layers, `host` for routed experts of the CPU."""

    @property
    def compute(self) -> Compute: ...  # noqa: D102
    @property
    def host(self) -> PoolCompute: ...  # noqa: D102
    @property
    def layout(self) -> Choice: ...  # noqa: D102

    def engines(self, experts: Sequence[LoadedExperts], further: LoadedExperts | None) -> Engines:
        """Make what runs passes over layers with these routed experts; `further`: those of a layer that drafts."""
        ...


def _inline_device(plans: Plans, lanes: Lanes) -> DeviceCompute:
    native, cpu = plans.provider.native, torch.device("cpu")
    uploader, most = Uploader(native, cpu, 1), _most_rows(plans.settings)
    return DeviceCompute(native, cpu, _PRECISIONS["fp32"], uploader, lanes, is_gpu=False, most_rows=most)


def _most_rows(settings: Settings) -> int:
    """Return how many tokens the kernels of windows take at a time."""
    return min(MAX_WINDOW, settings.window.max_tokens)


class OnPool:
    """Everything on the pool; device kernels run inline. Implements `Assembly`."""

    def __init__(self, plans: Plans) -> None:
        native, pool = plans.provider.native, plans.pool
        to_come = PoolCompute(native, pool).cache_bytes(plans.cache_values)
        choice = plans.settings.engine.weight_layout
        self.layout = choose_layout(native, pool, plans.weights.head, plans.layers, plans.wanted, choice, to_come)
        self.compute = self.host = PoolCompute(native, pool, self.layout.placer)
        self._plans = plans

    def engines(self, experts: Sequence[LoadedExperts], further: LoadedExperts | None) -> Engines:
        """See `Assembly`."""
        plans, host = self._plans, self.host
        device = _inline_device(plans, host.lanes)
        stock = Stock(plans.mixtures, plans.wanted, experts)
        windows = choose_executor(plans.provider, plans.settings, host, device, plans.network, stock, None)
        direct = Direct(host)
        return Engines(direct, windows, direct, Eager(host))


class OnDevice:
    """Layers and the experts with slots on a GPU, the others on the pool. Implements `Assembly`.

    On `cpu` the same is done with kernels that run inline: for tests.
    """

    def __init__(self, plans: Plans, device: torch.device) -> None:
        native, settings = plans.provider.native, plans.settings
        uploader = Uploader(native, device, min(16, os.cpu_count() or 1))
        precision = _PRECISIONS[settings.device.precision]
        lanes, most = Lanes(), _most_rows(settings)
        self.compute = DeviceCompute(native, device, precision, uploader, lanes, is_gpu=True, most_rows=most)
        self._plans, self._slots = plans, self._count_slots(plans)
        is_resident = self._slots == len(plans.mixtures) * plans.network.experts
        # Experts that have slots are read again only where a slot is lent: from the file.
        choice = "stored" if is_resident else settings.engine.weight_layout
        experts = [replace(layer, tensors={}) for layer in plans.layers if layer.experts]
        self.layout = choose_layout(native, plans.pool, None, experts, plans.wanted, choice, 0)
        self.host = PoolCompute(native, plans.pool, self.layout.placer, lanes)

    def _count_slots(self, plans: Plans) -> int:
        compute, mixtures, settings = self.compute, plans.mixtures, plans.settings
        total, wanted = len(mixtures) * plans.network.experts, settings.expert.cache
        if wanted < 0 and plans.provider.unified_memory:
            return total  # the CPU's experts would take as much of the same memory
        if wanted >= 0 or not mixtures or compute.device.type != "cuda":
            return min(max(0, wanted), total)
        uploader, weights = compute.uploader, plans.weights
        stride = slot_bytes(uploader, mixtures, plans.wanted)
        dense = [each for layer in plans.layers for each in layer.tensors.values()]
        taken = dense_bytes(uploader, [*dense, weights.head], weights.tensors["embedding"])
        taken += compute.cache_bytes(plans.cache_values) * settings.batch.slots
        further = len(plans.layers) - len(plans.weights.layers)
        taken += stride * plans.network.experts * further
        lanes = 2 if settings.piped.concurrent else 1  # drafts beside a prompt decode weights too
        taken += decoded_bytes(plans.network, compute.precision) * (1 + lanes * further)
        taken += passing_bytes(plans.network, compute.precision, settings.engine.prompt_chunk)
        taken += max(stride, settings.expert.adapt_bytes) if settings.expert.adapt else 0
        free, _ = torch.cuda.mem_get_info(compute.device)
        staging = 2 * stride * experts_together(plans.network, compute.precision)
        return slots_beside_prompts(free, taken, settings.vram.reserve_mib << 20, stride, total, staging)

    def engines(self, experts: Sequence[LoadedExperts], further: LoadedExperts | None) -> Engines:
        """See `Assembly`."""
        prompts, windows = self._executors(self._plans.mixtures, experts, self._slots)
        drafts = prompts
        if further is not None:
            # All of them have slots: drafts that wait for the CPU would come too late.
            drafts, _ = self._executors([self._plans.layers[-1]], [further], self._plans.network.experts)
        return Engines(prompts, windows, drafts, Graphs(self.compute))

    def _executors(
        self, layers: Sequence[LayerWeights], experts: Sequence[LoadedExperts], slots: int
    ) -> tuple[Executor, WindowExecutor]:
        plans, host, compute = self._plans, self.host, self.compute
        stock = Stock(layers, plans.wanted, experts)
        windows = choose_executor(plans.provider, plans.settings, host, compute, plans.network, stock, slots)
        if windows.exact is None or windows.residency is None:
            return Direct(host), windows
        store = SlotStore(compute, host, windows.residency, stock, is_registered=windows.has_registered)
        return BySize(windows.exact, Prompts(compute, plans.network, store), compute), windows


def current_gpu(backend: str) -> torch.device:
    """Return the GPU that torch works on. Raises `UserError` when torch was made for another kind than `backend`."""
    made_for = "hip" if torch.version.hip else "cuda" if torch.version.cuda else "cpu"
    if made_for != backend:
        raise UserError(
            f"the kernels package is for {backend}, and torch {torch.__version__} was made for {made_for}: "
            f"'strata-gen doctor --target {backend}' says which one to install"
        )
    return torch.device("cuda", torch.cuda.current_device())


def assemble(plans: Plans, device: torch.device | None) -> Assembly:
    """Choose where a network works: on `device`, or as the kernels package says."""
    if device is None and plans.provider.backend != "cpu":
        device = current_gpu(plans.provider.backend)
    return OnPool(plans) if device is None else OnDevice(plans, device)
