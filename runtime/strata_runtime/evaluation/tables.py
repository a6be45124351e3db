"""How far records are apart, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata_runtime.bench.columns import table
from strata_runtime.evaluation.divergence import Divergence
from strata_runtime.session import Session

_NONE = "no session is kept in it"


def by_range(found: Divergence) -> list[str]:
    """Return a table with a row for each range of positions."""
    head = ("positions", "number", "mean KL", "largest", "same top-1")
    rows = [
        (each.name, str(each.positions), f"{each.mean_kl:.6f}", f"{each.largest_kl:.4f}", f"{each.top1:.2%}")
        for each in found.buckets
    ]
    return table([head, *rows])


def by_name(rows: Mapping[str, Divergence], what: str) -> list[str]:
    """Return a table with a row for each name, mean KL by ranges of positions; `what` is the head of the names."""
    first = next(iter(rows.values()))
    head = (what, *(bucket.name for bucket in first.buckets), "largest", "same top-1")
    return table([head, *(_distances(*row) for row in rows.items())])


def _distances(name: str, found: Divergence) -> tuple[str, ...]:
    means = (f"{bucket.mean_kl:.2e}" for bucket in found.buckets)
    return (name, *means, f"{found.overall.largest_kl:.2e}", f"{found.overall.top1:.2%}")


def told_apart(records: Mapping[str, Session | None]) -> Iterator[str]:
    """Yield a line for each record: its session's fingerprint, and what sets it apart from the first one."""
    first = next(iter(records.values()))
    for name, session in records.items():
        if session is None:
            yield f"{name}: {_NONE}"
        elif session == first or first is None:
            yield f"{name}: session {session.fingerprint}"
        else:
            yield f"{name}: session {session.fingerprint}: {', '.join(session.differences(first))}"
