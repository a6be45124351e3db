"""Which executor reads windows, as the knobs have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from strata_runtime.checkpoint.network import Network
from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.laps import DeviceLaps
from strata_runtime.errors import UserError
from strata_runtime.hybrid import asked
from strata_runtime.hybrid.adapting import Adapting
from strata_runtime.hybrid.half import Half, InlineHalf, LaunchedHalf
from strata_runtime.hybrid.hybrid import Hybrid, HybridOptions
from strata_runtime.hybrid.residency import Residency, row_of
from strata_runtime.hybrid.sharing import share_experts
from strata_runtime.hybrid.stock import Stock
from strata_runtime.hybrid.trim import WindowTrim
from strata_runtime.layers.executor import Direct, Executor, Trim
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.phases import Stopwatch
from strata_runtime.provider import Provider, make_pool

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


@dataclass(frozen=True, slots=True)
class WindowExecutor:
    """What windows are read with: None where nothing sets them apart from prompts.

    `exact`: does what that does without what the knobs change, on a GPU. `most`: tokens of a window that device kernels
    take, None where none is called. `stopwatch`: of `verify.profile`.
    `notes`: lines to be said at the start. `residency`: the slots that windows use. `has_registered`: a GPU reads the
    host's experts where they are.
    """

    executor: Executor | None
    most: int | None
    stopwatch: Stopwatch | DeviceLaps | None
    notes: tuple[str, ...]
    exact: Executor | None = None
    residency: Residency | None = None
    has_registered: bool = False


def choose_executor(
    provider: Provider,
    settings: Settings,
    compute: PoolCompute,
    device: DeviceCompute,
    network: Network,
    stock: Stock,
    slots: int | None,
) -> WindowExecutor:
    """Make the executor of windows over the layers with routed experts, and fill slots with them.

    compute: what experts of the CPU are computed with. device: what others are. On a GPU all windows are shared out.
    slots: how many there are to be, None for what `expert.cache` says.

    Raises `UserError` for settings that do not fit the model, and for a model that does not fit the device kernels.
    """
    verify, layers = settings.verify, stock.loaded
    shares, trims = device.is_gpu or asked.shares_out(settings), asked.trims(settings)
    stopwatch = (DeviceLaps(device) if device.is_gpu else Stopwatch()) if verify.profile else None
    if not layers or not (shares or trims):
        notes = ["this model has no routed experts: verify, route and expert change nothing"] if shares or trims else []
        return WindowExecutor(Direct(compute, laps=stopwatch) if stopwatch else None, None, stopwatch, tuple(notes))
    _require_fitting(settings, network)
    most = settings.window.max_tokens
    shared = share_experts(settings, compute, device, stock, network.experts, slots)
    residency, pcie, notes = shared.residency, shared.pcie, list(shared.notes)
    trim = WindowTrim(device, residency, verify.ecap, settings.route.tail_skip) if trims else None
    if verify.ecap is not None and verify.ecap <= network.top_k:
        notes.append(
            f"verify.ecap is {verify.ecap}, at most the {network.top_k} experts of one token: no token of a window "
            "behind the first keeps any"
        )
    if not shares:
        return WindowExecutor(Direct(compute, trim, stopwatch), most, stopwatch, tuple(notes))
    values = {knob.name: getattr(getattr(settings, knob.section), knob.attribute) for knob in provider.knobs}

    def share_out(values: Mapping[str, object], trim: Trim | None, adapting: Adapting | None) -> Hybrid:
        noted = None if adapting is None else adapting.asked
        present = [signal.name for signal in provider.signals if signal.exists(values)]
        options = HybridOptions(
            hidden=network.hidden_size,
            width=network.expert_width,
            tokens=most,
            top_k=network.top_k,
            defer=_deferral(values),
            threshold=verify.defer_cpu_below if "partial_ready" in present else None,
            device_plan="plan_ready" not in present,
            all_resident=verify.all_resident,
        )

        def make_half() -> Half:
            native = compute.native.make_host_half(
                compute.pool,
                [(layer.experts, residency.row(at), row_of(noted, at)) for at, layer in enumerate(layers)],
                residency.slots,
                (residency, noted, pcie),
                options.hidden,
                options.threshold,
                verify.timeout,
                present,
                0 if pcie is None else pcie.host_address,
                residency.entries.ctypes.data,
            )
            if not device.is_gpu:
                return InlineHalf(native)
            sizes = residency.slots, options.hidden, verify.timeout
            return LaunchedHalf(native, device, residency.tables, *sizes, pcie)

        renew = partial(make_pool, provider, settings)
        return Hybrid(compute, device, residency, options, make_half, renew, trim, stopwatch, adapting, pcie)

    executor = share_out(values, trim, shared.adapting)
    changed = {name: value for name, value in _EXACT.items() if values[name] != value}
    exact = share_out({**values, **changed}, None, None) if device.is_gpu and (trims or changed) else executor
    return WindowExecutor(executor, most, stopwatch, tuple(notes), exact, residency, shared.is_registered)


_EXACT = {"verify.defer_cpu": "0", "verify.device_plan": False}
"""Settings with which sharing out changes nothing but the order of sums."""


def _deferral(values: Mapping[str, object]) -> Literal["0", "1", "check"]:
    match values["verify.defer_cpu"]:
        case "1":
            return "1"
        case "check":
            return "check"
        case _:
            return "0"


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
