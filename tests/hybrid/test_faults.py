"""A signal that comes late, never, early or twice, under every combination of knobs: the same bits, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from strata_runtime.engine import Engine
from strata_runtime.errors import StallError, UserError
from strata_runtime.hybrid import half
from strata_runtime.hybrid.choice import choose_executor
from strata_runtime.hybrid.stock import Stock
from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from strata_runtime.provider import Provider
from strata_runtime.signals import SignalInfo
from support.checkpoints import make_config, write_checkpoint
from support.gate import Gate, child_code, opened_at_end

pytestmark = pytest.mark.native

TINY = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
MS = 1_000_000
MIXTURES, EXPERTS = 5, 6
SOME = MIXTURES * EXPERTS // 2
IDS = torch.tensor([5, 9, 2, 7, 11])

KNOBS: Mapping[str, Mapping[str, object]] = {
    "slots": {"expert_cache": SOME},
    "late below 0.5": {"verify_defer_cpu": "1", "verify_defer_cpu_below": 0.5},
    "late below 0.5, slots": {"verify_defer_cpu": "1", "verify_defer_cpu_below": 0.5, "expert_cache": SOME},
    "all late": {"verify_defer_cpu": "1", "verify_defer_cpu_below": 1.0},
    "check": {"verify_defer_cpu": "check", "verify_defer_cpu_below": 0.5},
    "device plan": {"verify_device_plan": True},
    "device plan, all late, slots": {"verify_device_plan": True, "verify_defer_cpu": "1", "expert_cache": SOME},
    "cap and skip": {"verify_ecap": 5, "route_tail_skip": 1, "expert_cache": SOME},
}

Make = Callable[..., Model]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_config(num_hidden_layers=MIXTURES + 1)
    return write_checkpoint(tmp_path_factory.mktemp("faults") / "model", config)


@pytest.fixture
def make(folder: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Loads models; `faults` and `wedge` are for the first host half alone."""
    models: list[Model] = []
    native: Any = provider.native
    make_half = native.make_host_half

    def load(faults: Sequence[object] = (), wedge: int = -1, **settings: object) -> Model:
        pending = [{"faults": list(faults), "wedge": wedge}]
        half = lambda *arguments: make_half(*arguments, **(pending.pop() if pending else {}))  # noqa: E731
        monkeypatch.setattr(native, "make_host_half", half)
        python = {"pool_threads": 2, "verify_timeout": 120 * MS, **settings}
        values = provider.settings_type.from_values(resolve(provider.knobs, environ={}, python=python).values)
        models.append(Model.load(folder, provider, values))
        return models[-1]

    yield load
    for model in models:
        model.close()


@pytest.fixture
def gate(make: Make) -> Iterator[Gate]:
    """Opens before the models of `make` are closed."""
    yield from opened_at_end()


def read(model: Model) -> torch.Tensor:
    """Two windows of one text."""
    cache = model.new_cache(16)
    return torch.cat([model.forward(part, cache, logits="all", window=True) for part in (IDS[:3], IDS[3:])])


def words_of(provider: Provider, settings: Mapping[str, object]) -> list[SignalInfo]:
    """The words that layers are raised and waited for with: those of errors have tests of their own."""
    values = resolve(provider.knobs, environ={}, python=settings).values
    return [signal for signal in provider.signals if signal.kind == "ring" and signal.exists(values)]


@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("kind", ["late", "never", "early", "twice"])
def test_a_faulty_word_costs_time_or_its_request_and_nothing_else(
    make: Make, provider: Provider, knobs: str, kind: str
) -> None:
    settings = KNOBS[knobs]
    expected = read(make(**settings))
    # The layer in the middle of the second window: one that defers where any does.
    ring = MIXTURES + 3
    for signal in words_of(provider, settings):
        word = signal.name
        is_survived = kind == "late" or (kind == "early" and not signal.stamped)
        # An early one that is noticed ends its delay.
        model = make([(word, kind, ring, 15 * MS if is_survived else 5000 * MS)], **settings)
        if is_survived:
            assert torch.equal(read(model), expected), word
            continue
        with pytest.raises(StallError) as stalled:
            read(model)
        assert f"{word} = " in str(stalled.value)
        assert torch.equal(read(model), expected), word
        model.close()


@pytest.mark.parametrize("knobs", KNOBS)
def test_every_combination_has_its_words(provider: Provider, knobs: str) -> None:
    expected = {"seq", "plan_ready", "pcie_ready", "rows_ready"}
    if "device plan" in knobs:
        expected.remove("plan_ready")
    if knobs in ("late below 0.5", "late below 0.5, slots", "check"):
        expected.add("partial_ready")
    assert {signal.name for signal in words_of(provider, KNOBS[knobs])} == expected


def test_what_a_window_does_follows_from_the_signals_that_exist(make: Make, provider: Provider) -> None:
    for settings in KNOBS.values():
        executor: Any = make(**settings)._windows
        words = {signal.name for signal in words_of(provider, settings)}
        assert (executor._options.threshold is not None) == ("partial_ready" in words)
        assert executor._options.device_plan == ("plan_ready" not in words)


def test_a_wedged_pool_ends_its_request_with_a_report_and_the_next_one_works(make: Make, gate: Gate) -> None:
    expected = read(make(**KNOBS["all late"]))
    model = make(wedge=gate.file, **KNOBS["all late"])
    stuck = model._host.pool
    cache = model.new_cache(16)
    with pytest.raises(StallError) as stalled:
        model.forward(IDS, cache, window=True)
    report = str(stalled.value)
    assert report.startswith("a window came to no end: another thread does not give the pool back\n")
    assert "seq = 1 (device; A layer's doorbell block has been written.)" in report
    assert "host half: computing the first rows of ring value 1 of layer 0 for" in report
    assert "pool of 2 workers" in report
    assert cache.length == 0
    assert model._host.pool is not stuck
    assert torch.equal(read(model), expected)
    model.close()


def test_the_layers_and_the_host_half_share_one_pool(make: Make) -> None:
    model = make(pool_threads=3, **KNOBS["all late"])
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    read(model)
    assert len(list(tasks.iterdir())) == before + 1  # the half's own thread, and no workers


def test_the_host_half_follows_the_pool_of_the_model(make: Make, provider: Provider) -> None:
    model = make(**KNOBS["all late"])
    expected = read(model)
    other = provider.native.make_pool([("pool.threads", "1")])
    with model.computing(provider.native, other):
        assert torch.equal(read(model), expected)
        executor: Any = model._windows
        assert "pool of 1 worker\n" in executor._half.report()
    assert torch.equal(read(model), expected)
    assert "pool of 2 workers" in executor._half.report()
    other.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_to_load_an_engine_of_its_own_and_ends(provider: Provider) -> None:
    settings: dict[str, Any] = {"engine_context": 64, "pool_threads": 2, "verify_defer_cpu": "1"}
    engine = Engine.load(TINY, environ={}, provider=provider, report=lambda _: None, **settings)
    expected = list(engine.encode("one text and another"))
    rows = [row.copy() for row in engine.logprob_rows(expected, 3)]

    def child() -> None:
        with pytest.raises(UserError, match=r"loaded before fork\(\): load another one in the child process"):
            engine.generate("one").run()
        engine.close()

    assert child_code(child) == 0
    for row, again in zip(rows, engine.logprob_rows(expected, 3), strict=True):
        assert (row == again).all()
    engine.close()


def test_a_slot_that_was_lent_is_noticed_before_the_window(make: Make) -> None:
    model = make(expert_cache=MIXTURES * EXPERTS)
    expected = read(model)
    executor: Any = model._windows
    table = executor._residency.table
    lent = table[2].copy()
    table[2] = -1
    # Another device computes these rows: close, and not an error.
    assert torch.allclose(read(model), expected, atol=1e-3)
    table[2] = lent
    assert torch.equal(read(model), expected)


@pytest.mark.parametrize("kind", [None, "late", "never"])
def test_a_slot_that_is_lent_within_a_window_ends_its_request(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    faults = [("plan_error", kind, 0, 15 * MS)] if kind else []
    model = make(faults, expert_cache=MIXTURES * EXPERTS)
    executor: Any = model._windows
    table = executor._residency.table
    lent = table[2].copy()
    with monkeypatch.context() as patched:
        patched.setattr(type(executor._residency), "is_complete", property(lambda self: True))
        table[2] = -1
        with pytest.raises(StallError, match=r"plan of layer 2 was given up: expert \d+ .* has no slot|leaves out"):
            read(model)
    table[2] = lent
    assert torch.isfinite(read(model)).all()


def test_ring_values_do_not_run_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "RINGS_AT_MOST", MIXTURES - 1)
    model = make(**KNOBS["late below 0.5"])
    executor: Any = model._windows
    first = read(model)
    used: Any = executor._half
    assert used._native.ring == MIXTURES
    assert torch.equal(read(model), first)
    assert executor._half is not used


def test_a_pass_that_ends_midway_leaves_no_late_rows(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(**KNOBS["all late"])
    expected = read(model)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(model._layers[3], "_attention", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read(model)
    assert torch.equal(read(model), expected)


def test_closing_in_the_middle_of_a_window_ends_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(**KNOBS["all late"])
    monkeypatch.setattr(model._layers[3], "_attention", lambda *_: model.close())
    with pytest.raises((RuntimeError, StallError)):
        read(model)


def test_a_closed_model_makes_no_host_half_any_more(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(**KNOBS["all late"])
    read(model)
    model.close()
    made: list[object] = []
    monkeypatch.setattr(model._windows, "_make_half", lambda _: made.append(None))
    with pytest.raises(RuntimeError, match="closed"):
        read(model)
    assert made == []


def test_knobs_of_experts_on_a_model_without_any_are_said_to_change_nothing(provider: Provider) -> None:
    nobody: Any = None
    for environ, said in (({}, False), ({"STRATA_VERIFY_DEFER_CPU": "1"}, True), ({"STRATA_VERIFY_ECAP": "9"}, True)):
        settings = provider.settings_type.from_values(resolve(provider.knobs, environ=environ).values)
        device: Any = SimpleNamespace(is_gpu=False)
        chosen = choose_executor(provider, settings, nobody, device, nobody, Stock((), None, ()), None)
        assert chosen.executor is None
        assert chosen.notes == (("this model has no routed experts: verify, route and expert change nothing",) * said)


def test_a_window_that_device_kernels_do_not_take_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(verify_ecap=3)
    monkeypatch.setattr(model, "_most", 2)
    with pytest.raises(UserError, match=r"a window of 3 tokens .* --set window\.max_tokens=3"):
        read(model)
    model.forward(IDS, model.new_cache(16))  # a prompt may have more


def test_unset_makes_nothing_and_calls_nothing_new(
    folder: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError

    native: Any = provider.native
    monkeypatch.setattr(native, "make_host_half", forbidden)
    for name in set(dir(native.device)) - {"router_topk"}:  # which every pass calls
        if callable(getattr(native.device, name)) and not name.startswith("_"):
            monkeypatch.setattr(native.device, name, forbidden)
    values = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
    model = Model.load(folder, provider, values)
    assert model._windows is model._prompts
    assert model.phases is None
    read(model)
    model.close()
