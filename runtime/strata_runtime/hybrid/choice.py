"""Which executor reads windows, as the knobs have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from strata_runtime.checkpoint.network import Network
from strata_runtime.errors import UserError
from strata_runtime.hybrid import asked
from strata_runtime.hybrid.hybrid import Hybrid, HybridOptions
from strata_runtime.hybrid.placement import Placement, by_layer, by_use, read_profile
from strata_runtime.hybrid.residency import Residency
from strata_runtime.hybrid.trim import WindowTrim
from strata_runtime.layers.executor import Direct, Executor
from strata_runtime.layers.experts import LoadedExperts
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native import HostHalf
from strata_runtime.phases import Stopwatch
from strata_runtime.provider import Provider, make_pool

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


@dataclass(frozen=True, slots=True)
class WindowExecutor:
    """What windows are read with: None where nothing sets them apart from prompts.

    `most`: tokens of a window that device kernels take, None where none is called. `stopwatch`: of `verify.profile`.
    `notes`: lines to be said at the start.
    """

    executor: Executor | None
    most: int | None
    stopwatch: Stopwatch | None
    notes: tuple[str, ...]


def choose_executor(
    provider: Provider,
    settings: Settings,
    compute: PoolCompute,
    network: Network,
    layers: Sequence[LoadedExperts],
    make_residency: Callable[[Placement], Residency],
) -> WindowExecutor:
    """Make the executor of windows over the `layers` with routed experts. `make_residency` fills slots with them.

    Raises `UserError` for settings that do not fit the model, and for a model that does not fit the device kernels.
    """
    verify = settings.verify
    shares, trims = asked.shares_out(settings), asked.trims(settings)
    stopwatch = Stopwatch() if verify.profile else None
    if not layers or not (shares or trims):
        notes = ["this model has no routed experts: verify, route and expert change nothing"] if shares or trims else []
        return WindowExecutor(Direct(compute, laps=stopwatch) if stopwatch else None, None, stopwatch, tuple(notes))
    _require_fitting(settings, network)
    most = settings.window.max_tokens
    placed, notes = _placement(settings, network, len(layers))
    residency = make_residency(placed)
    trim = WindowTrim(compute, residency, verify.ecap, settings.route.tail_skip) if trims else None
    if verify.ecap is not None and verify.ecap <= network.top_k:
        notes.append(
            f"verify.ecap is {verify.ecap}, at most the {network.top_k} experts of one token: no token of a window "
            "behind the first keeps any"
        )
    if not shares:
        return WindowExecutor(Direct(compute, trim, stopwatch), most, stopwatch, tuple(notes))
    values = {knob.name: getattr(getattr(settings, knob.section), knob.attribute) for knob in provider.knobs}
    present = [signal.name for signal in provider.signals if signal.exists(values)]
    options = HybridOptions(
        hidden=network.hidden_size,
        width=network.expert_width,
        tokens=most,
        top_k=network.top_k,
        defer=verify.defer_cpu,
        threshold=verify.defer_cpu_below if "partial_ready" in present else None,
        device_plan="plan_ready" not in present,
        all_resident=verify.all_resident,
    )

    def make_half() -> HostHalf:
        return compute.native.make_host_half(
            compute.pool,
            [(layer.experts, residency.row(number)) for number, layer in enumerate(layers)],
            residency.slots,
            residency,
            options.hidden,
            options.threshold,
            verify.timeout,
            present,
        )

    executor = Hybrid(compute, residency, options, make_half, partial(make_pool, provider, settings), trim, stopwatch)
    return WindowExecutor(executor, most, stopwatch, tuple(notes))


def _placement(settings: Settings, network: Network, layers: int) -> tuple[Placement, list[str]]:
    wanted, total = settings.expert.cache, layers * network.experts
    notes = [f"expert.cache is {wanted}: all of the model's {total} experts have slots"] if wanted > total else []
    slots = min(wanted, total)
    if settings.expert.profile is None:
        return by_layer(slots, layers, network.experts), notes
    profile = read_profile(Path(settings.expert.profile), layers, network.experts)
    return by_use(slots, profile.counts), notes


def _require_fitting(settings: Settings, network: Network) -> None:
    if settings.route.tail_skip >= network.top_k:
        raise UserError(
            f"route.tail_skip is {settings.route.tail_skip}: it must be below this model's {network.top_k} experts per "
            "token"
        )
    for what, needed, most, knob in (
        ("experts per token", network.top_k, settings.window.max_top_k, "window.max_top_k"),
        ("experts in a layer", network.experts, settings.window.max_experts, "window.max_experts"),
    ):
        if needed > most:
            raise UserError(
                f"this model has {needed} {what}, and the device kernels of this package take {most}: "
                f"rebuild it with --set {knob}={needed}"
            )
