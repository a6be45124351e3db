"""Log-probabilities that are told with a token."""

from __future__ import annotations

import numpy as np

from strata_runtime.batch.events import TokenLogprobs
from strata_runtime.sampling import Row, log_softmax


def logprobs_of(row: Row, token: int, count: int) -> TokenLogprobs:
    """Return those of a drawn token and of the `count` most probable ones, equal ones by id.

    row: logits, float32 [vocab], as the network has them: no penalty, no temperature.
    """
    values = log_softmax(row)
    best = np.argsort(-values, kind="stable")[:count]
    return TokenLogprobs(token, float(values[token]), tuple((int(each), float(values[each])) for each in best))
