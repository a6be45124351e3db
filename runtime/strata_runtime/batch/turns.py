"""Whose prompt is read next."""

from __future__ import annotations

from collections.abc import Sequence

from strata_runtime.batch.job import Job


def next_read(current: Job | None, pending: Sequence[Job], give_way: int | None) -> Job | None:
    """Return the job whose prompt is read next.

    current: whose prompt was read last. pending: those with tokens to be read, in the order of their admission.
    give_way: by how many tokens another prompt must be shorter than the rest of the read to go first; None: none does.
    No read lets more tokens go first than its own prompt has, so every one comes to its end.
    """
    if not pending:
        return None
    due = current if current is not None and current in pending else pending[0]
    if give_way is None:
        return due
    shortest = min(pending, key=lambda job: job.rest)
    is_shorter = due.rest - shortest.rest >= give_way
    return shortest if is_shorter and due.let_first + shortest.rest <= len(due.request.ids) else due
