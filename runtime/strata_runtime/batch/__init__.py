"""Several requests on one model: slots, joint windows, and prompts that are read beside them."""

from strata_runtime.batch.batch import Batch, QueueFull, Ticket
from strata_runtime.batch.events import Event, Failure, Listener, TokenLogprobs
from strata_runtime.batch.status import RequestUsage, SlotStatus, Status, Totals

__all__ = [
    "Batch",
    "Event",
    "Failure",
    "Listener",
    "QueueFull",
    "RequestUsage",
    "SlotStatus",
    "Status",
    "Ticket",
    "TokenLogprobs",
    "Totals",
]
