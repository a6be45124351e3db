"""Prometheus metrics: what the batch counts, read when asked for, and how long clients waited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strata_runtime.batch.status import SlotState, SlotStatus, Status

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_STATES = get_args(SlotState)

_TOTALS = {
    "requests": "Requests that were let in.",
    "finished": "Requests that ended by themselves.",
    "failed": "Requests that failed.",
    "cancelled": "Requests whose client left, or that the server's end cut off.",
    "prompt_tokens": "Tokens of prompts.",
    "cached_tokens": "Tokens of prompts that did not have to be read again.",
    "generated_tokens": "Tokens that were drawn.",
    "windows": "Passes for tokens that were drawn.",
    "give_ways": "Reads of prompts that let a shorter prompt go first.",
    "concurrent_reads": "Prompts that were read beside decoding.",
}


def count(slots: Iterable[SlotStatus]) -> dict[str, int]:
    """Return the number of slots in each state."""
    states = [slot.state for slot in slots]
    return {state: states.count(state) for state in _STATES}


class _Batch(Collector):
    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Read the batch's status."""
        status = self._status()
        for name, text in _TOTALS.items():
            yield CounterMetricFamily(f"strata_{name}", text, value=getattr(status.totals, name))
        yield GaugeMetricFamily("strata_queued_requests", "Requests that wait for a slot.", value=status.queued)
        yield GaugeMetricFamily("strata_tokens_per_second", "Tokens drawn lately.", value=status.tokens_per_second)
        yield GaugeMetricFamily("strata_draft_acceptance", "Share of drafts that were right.", value=status.acceptance)
        yield GaugeMetricFamily("strata_uptime_seconds", "Seconds since the batch began.", value=status.uptime_s)
        slots = GaugeMetricFamily("strata_slots", "Slots by what they do.", labels=["state"])
        for state, number in count(status.slots).items():
            slots.add_metric([state], number)
        yield slots
        yield from _where_known(status)


def _where_known(status: Status) -> Iterable[Metric]:
    if status.phases:
        phases = CounterMetricFamily("strata_window_seconds", "Seconds of windows by phase.", labels=["phase"])
        for phase, seconds in status.phases.items():
            phases.add_metric([phase], seconds)
        yield phases
    if status.expert_hits is not None:
        hits, asked = status.expert_hits
        experts = CounterMetricFamily("strata_experts", "Experts asked for, by place.", labels=["place"])
        experts.add_metric(["slot"], hits)
        experts.add_metric(["elsewhere"], asked - hits)
        yield experts


class Metrics:
    """A registry of its own. `status`: how the batch is asked."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Batch(status))
        self.first_token = Histogram(
            "strata_first_token_seconds",
            "From a request to its first token.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.request = Histogram(
            "strata_request_seconds", "From a request to its end.", buckets=_SECONDS, registry=self._registry
        )
        self.responses = Counter(
            "strata_http_responses", "Responses by endpoint and status.", ["path", "status"], registry=self._registry
        )

    def exposition(self) -> bytes:
        """Write all in Prometheus' text format."""
        return generate_latest(self._registry)
