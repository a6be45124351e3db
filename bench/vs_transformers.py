"""Decode speed and memory of strata beside transformers' own `generate`: same model, prompt, threads, machine and run.

Greedy, warmed up, each in its own process, rounds interleaved, so that what else the machine does hits all alike. The
rate counts the tokens after the first: reading the prompt is not decoding.

    python bench/vs_transformers.py --rounds 9 --threads 1
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from common import MODEL, quiet_transformers, report, spread
from workers import Message, Worker, serve

from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.bench.memory import peak_resident

PROMPT = "import argparse\nimport json\nfrom pathlib import Path\n\n\n"
PEERS = ("transformers float32", "transformers bfloat16")
NAMES = ("strata", *PEERS)


class Decoder(Protocol):
    """Draws tokens greedily and says when each was there."""

    def decode(self, tokens: int) -> tuple[list[int], list[float]]:
        """Return `tokens` token ids and the time of each, in seconds of the monotonic clock."""
        ...


class Strata:
    """The engine under test."""

    def __init__(self, model: Path, threads: int, expert_format: str) -> None:
        from strata_runtime import Engine

        self._engine = Engine.load(model, pool_threads=threads, engine_expert_format=expert_format)

    def decode(self, tokens: int) -> tuple[list[int], list[float]]:
        """See `Decoder`."""
        from strata_runtime import SamplingParams

        ids, times = [], []
        for chunk in self._engine.generate(PROMPT, SamplingParams(temperature=0), max_tokens=tokens, ignore_eos=True):
            times.append(time.perf_counter())
            ids.append(chunk.token_id if chunk.token_id is not None else -1)
        return ids, times


class Transformers:
    """Transformers with its defaults. Its streamer hands over every token as it is drawn."""

    def __init__(self, model: Path, dtype: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        quiet_transformers()
        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self._inputs: Any = AutoTokenizer.from_pretrained(model)(PROMPT, return_tensors="pt")

    def decode(self, tokens: int) -> tuple[list[int], list[float]]:
        """See `Decoder`."""
        streamer = _Times()
        self._model.generate(
            **self._inputs, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, streamer=streamer
        )
        return streamer.ids, streamer.times


class _Times:
    def __init__(self) -> None:
        self.ids: list[int] = []
        self.times: list[float] = []
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        if self._prompt_seen:
            self.times.append(time.perf_counter())
            self.ids.append(int(value))
        self._prompt_seen = True

    def end(self) -> None:
        pass


def run_worker(name: str, options: argparse.Namespace) -> None:
    """Answer {tokens} with {rate, first, last, digest, peak}."""
    import torch

    torch.set_num_threads(options.threads)
    decoder: Decoder
    if name == "strata":
        decoder = Strata(options.model, options.threads, options.expert_format)
    else:
        decoder = Transformers(options.model, name.split()[1])

    def answer(message: Message) -> Message:
        ids, times = decoder.decode(message["tokens"])
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        return {
            "rate": (len(times) - 1) / (times[-1] - times[0]),
            "median_ms": gaps[len(gaps) // 2] * 1e3,
            "digest": hashlib.sha256(repr(ids).encode()).hexdigest()[:12],
            "peak": peak_resident(),
        }

    serve(answer)


def measure(options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Run all rounds; return rates, ratios and memory by name."""
    workers = [Worker(Path(__file__), name, arguments, options.threads) for name in NAMES]
    rounds: list[dict[str, Message]] = []
    for worker in workers:
        worker.ask(tokens=options.tokens)
    for index in range(options.rounds):
        turn = index % len(workers)
        order = workers[turn:] + workers[:turn]
        answers = {worker.name: worker.ask(tokens=options.tokens) for worker in order}
        rounds.append(answers)
    for worker in workers:
        worker.close()
    rates = {name: [answers[name]["rate"] for answers in rounds] for name in NAMES}
    ratios = {
        peer: [ours / theirs for ours, theirs in zip(rates["strata"], rates[peer], strict=True)] for peer in PEERS
    }
    return {
        "tokens": options.tokens,
        "threads": options.threads,
        "expert_format": options.expert_format,
        "rates": rates,
        "tokens_per_second": {name: spread(rates[name]) for name in NAMES},
        "median_token_ms": {name: spread([each[name]["median_ms"] for each in rounds])["median"] for name in NAMES},
        "ratio": {peer: spread(ratios[peer]) for peer in PEERS},
        "peak_bytes": {name: rounds[-1][name]["peak"] for name in NAMES},
        "same_tokens_as_float32": rounds[-1]["strata"]["digest"] == rounds[-1][PEERS[0]]["digest"],
    }


def lines_of(result: dict[str, Any]) -> list[str]:
    """Return the result as a table."""
    rows = [("", "tokens/s", "lowest", "highest", "median token", "strata is", "peak memory")]
    for name in NAMES:
        rate = result["tokens_per_second"][name]
        ratio = f"{result['ratio'][name]['median']:.2f} x" if name in PEERS else ""
        rows.append(
            (
                name,
                f"{rate['median']:.1f}",
                f"{rate['min']:.1f}",
                f"{rate['max']:.1f}",
                f"{result['median_token_ms'][name]:.2f} ms",
                ratio,
                f"{result['peak_bytes'][name] / 2**20:.0f} MiB",
            )
        )
    same = "the same" if result["same_tokens_as_float32"] else "other"
    settings = f"{result['tokens']} tokens greedily, {result['threads']} threads, experts {result['expert_format']}"
    return ["", settings, "", *table(rows), "", f"strata drew {same} tokens as transformers in float32"]


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw every round of every implementation."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    for row, name in enumerate(reversed(NAMES)):
        rates = result["rates"][name]
        axes.plot(rates, [row] * len(rates), "o", alpha=0.5)
        axes.plot([result["tokens_per_second"][name]["median"]] * 2, [row - 0.25, row + 0.25], "k-")
    axes.set_yticks(range(len(NAMES)), labels=list(reversed(NAMES)))
    axes.set_ylim(-0.5, len(NAMES) - 0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"decode, tokens/s ({result['threads']} threads; a dot per round, a bar at the median)")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Parse the command line; be the parent or a worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--tokens", type=int, default=200, help="tokens a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="threads of each implementation")
    parser.add_argument("--expert-format", default="stored", help="engine.expert_format of strata")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the rounds into this file")
    parser.add_argument("--worker", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.tokens - 1, options.rounds, options.threads) < 1:
        parser.error("--tokens must be at least 2, --rounds and --threads at least 1")
    if options.worker:
        run_worker(options.worker, options)
        return
    arguments = ["--model", str(options.model), "--threads", str(options.threads)]
    arguments += ["--expert-format", options.expert_format]
    result = measure(options, arguments)
    report(result, lines_of(result), as_json=options.json)
    if options.plot:
        plot(result, options.plot)


if __name__ == "__main__":
    main()
