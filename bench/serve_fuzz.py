"""Requests made from the server's own description, thousands of them: no answer may be a fault of the server.

    python bench/serve_fuzz.py --requests 5000

Half of them hold, half are broken in one place; all go to `strata serve` on strata-tiny. Every answer must have a
status, a type and a shape that the description names; the first one that has not ends this with what it was.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import hypothesis
import schemathesis
from common import MODEL, report
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import serving

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
POSTS = ("/v1/chat/completions", "/v1/completions")
MOST_TOKENS = 8
"""Answers are cut here: it is the requests that are tried, not the model."""


def fuzz(operation: Any, mode: GenerationMode, count: int, seed: int) -> Counter[int]:
    """Send `count` requests; return how often each status came. Raises the first complaint of a check."""
    seen: Counter[int] = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body["max_tokens"] = MOST_TOKENS
            case.body.pop("max_completion_tokens", None)
        seen[case.call_and_validate(checks=CHECKS).status_code] += 1

    ask()
    return seen


def main() -> None:
    """Send them and print what came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    seen: Counter[int] = Counter()
    with serving("--model", str(args.model), "--batch", "4") as facts:
        description: Any = schemathesis.openapi.from_url(facts["url"] + "/openapi.json")
        batch = min(250, args.requests)
        while seen.total() < args.requests:
            before = seen.total()
            for path in POSTS:
                for mode in GenerationMode:
                    seen += fuzz(description[path]["POST"], mode, batch // 4, args.seed + before)
        health = httpx2.get(facts["url"] + "/health").status_code
        status = httpx2.get(facts["url"] + "/status").json()
    busy = sum(slot["state"] != "free" for slot in status["slots"])
    result = {"requests": seen.total(), "by_status": dict(sorted(seen.items())), "health": health, "busy_slots": busy}
    report(result, [f"{name:>14}  {value}" for name, value in result.items()], as_json=args.json)


if __name__ == "__main__":
    main()
