"""A server under load: many clients on few slots, beside one client alone.

    python bench/serve_load.py --slots 4 --clients 64 --rounds 3

Every client sends its requests one after the other as streams: other prompts of the same length, cut out of the
project's own sources, greedy, always the same number of tokens. Rounds with one client and with all of them take turns
on one server. Throughput counts the tokens that were drawn over the time from the first request to the last answer;
what the clients themselves take of the same CPUs is in it. The time to the first token counts from when a request is
sent.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2
from common import MODEL, project_text, report
from serving import serving

from strata_runtime.bench.columns import table

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Sample:
    """One answer: seconds to its first token and in all, and its tokens."""

    first_s: float
    seconds: float
    tokens: int


class Prompts:
    """Texts of about the same length that begin differently, so that no prefix is shared."""

    def __init__(self, characters: int, seed: int) -> None:
        self._text = project_text()
        self._draw = random.Random(seed)
        self._characters = characters

    def next(self) -> str:
        """Return another text."""
        start = self._draw.randrange(len(self._text) - self._characters)
        return self._text[start : start + self._characters]


async def ask(client: httpx2.AsyncClient, prompt: str, tokens: int) -> Sample:
    """Send one request and read its stream."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    started, first_s = time.perf_counter(), 0.0
    async with client.stream("POST", "/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not first_s and line.startswith("data: {"):
                first_s = time.perf_counter() - started
            if line.startswith('data: {"error"'):
                raise RuntimeError(line)
    return Sample(first_s, time.perf_counter() - started, tokens)


async def load(url: str, clients: int, requests: int, prompts: Prompts, tokens: int) -> tuple[list[Sample], float]:
    """Let so many clients send so many requests each; return the samples and the seconds of it all."""

    async def one(client: httpx2.AsyncClient) -> list[Sample]:
        return [await ask(client, prompts.next(), tokens) for _ in range(requests)]

    limits = httpx2.Limits(max_connections=clients)
    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as client:
        started = time.perf_counter()
        found = await asyncio.gather(*(one(client) for _ in range(clients)))
        return [sample for each in found for sample in each], time.perf_counter() - started


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile."""
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def summary(samples: list[Sample], rates: list[float]) -> dict[str, float]:
    """Return the figures of all rounds of one number of clients."""
    first = [sample.first_s for sample in samples]
    return {
        "requests": len(samples),
        "tokens_per_second": median(rates),
        "first_token_median_s": median(first),
        "first_token_99_s": percentile(first, 99),
        "request_median_s": median(sample.seconds for sample in samples),
    }


def measure(url: str, args: argparse.Namespace) -> dict[int, dict[str, float]]:
    """Run the rounds; return figures by the number of clients."""
    prompts = Prompts(args.characters, args.seed)
    samples: dict[int, list[Sample]] = {1: [], args.clients: []}
    rates: dict[int, list[float]] = {1: [], args.clients: []}
    asyncio.run(load(url, 1, 2, prompts, args.tokens))
    for _ in range(args.rounds):
        for clients in samples:
            requests = args.requests * (args.slots if clients == 1 else 1)
            found, seconds = asyncio.run(load(url, clients, requests, prompts, args.tokens))
            samples[clients] += found
            rates[clients].append(sum(sample.tokens for sample in found) / seconds)
    return {clients: summary(found, rates[clients]) for clients, found in samples.items()}


def lines(figures: dict[int, dict[str, float]]) -> list[str]:
    """Return the figures as a table."""
    head = ["clients", "requests", "tokens/s", "first token s", "99th percentile", "request s"]
    rows = [
        [
            str(clients),
            str(int(each["requests"])),
            f"{each['tokens_per_second']:.1f}",
            f"{each['first_token_median_s']:.3f}",
            f"{each['first_token_99_s']:.3f}",
            f"{each['request_median_s']:.3f}",
        ]
        for clients, each in figures.items()
    ]
    rates = [each["tokens_per_second"] for each in figures.values()]
    return [*table([head, *rows]), f"throughput over one client's: {rates[-1] / rates[0]:.2f}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2, help="of each client in each round")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--characters", type=int, default=300, help="of each prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    options = ["--batch", str(args.slots), "--batch-queue", str(args.clients)]
    with serving("--model", str(args.model), *options) as facts:
        figures = measure(facts["url"], args)
    result: dict[str, Any] = {"slots": args.slots, "clients": {str(key): each for key, each in figures.items()}}
    report(result, [f"{args.slots} slots", *lines(figures)], as_json=args.json)


if __name__ == "__main__":
    main()
