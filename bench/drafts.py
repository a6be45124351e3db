"""Text with drafts beside text without: whether it is the same, how often drafts are right, and what they save.

    python bench/drafts.py                                  # 50 prompts of 200 tokens at temperatures 0 and 1
    python bench/drafts.py --prompts 5 --tokens 50 --json

Prompts are the beginnings of the project's own Python files, which the bundled model was not trained on. Every prompt
is continued by each arm in turn, all with the same seed, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from common import MODEL, ROOT, report

from strata_runtime import Engine, SamplingParams
from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.request import GenerationResult

PROMPT_TOKENS = 100
ARMS = ("none", "mtp:2", "mtp:4", "mtp:auto", "ngram:4", "ngram:auto")


@dataclass(frozen=True)
class Arm:
    """A drafter at one width, over its own engine."""

    name: str
    engine: Engine

    @staticmethod
    def load(name: str, model: Path, threads: int) -> Arm:
        """Load the engine of `DRAFTER` or `DRAFTER:WIDTH`."""
        draft, _, width = name.partition(":")
        settings: dict[str, Any] = (
            {} if draft == "none" else {"window_draft": draft, "window_width": int(width.replace("auto", "0"))}
        )
        return Arm(name, Engine.load(model, pool_threads=threads, engine_context=1024, **settings))


def prompts_of(engine: Engine, count: int) -> list[tuple[int, ...]]:
    """Return the beginnings of the project's `count` longest Python files, in name order."""
    files = [*ROOT.glob("generator/**/*.py"), *ROOT.glob("runtime/**/*.py")]
    longest = sorted(sorted(files, key=lambda file: (-file.stat().st_size, file))[:count])
    return [engine.encode(file.read_text(encoding="utf-8"))[:PROMPT_TOKENS] for file in longest]


def row_of(name: str, found: Sequence[GenerationResult], plain: Sequence[GenerationResult]) -> dict[str, Any]:
    """Return what an arm's texts come to, beside those without drafts."""
    accepted = sum(result.acceptance.accepted for result in found)
    drafted = sum(result.acceptance.drafted for result in found)
    tokens = sum(len(result.token_ids) - 1 for result in found)
    speeds = [
        one.timing.tokens_per_second / other.timing.tokens_per_second for one, other in zip(found, plain, strict=True)
    ]
    return {
        "arm": name,
        "equal": sum(one.token_ids == other.token_ids for one, other in zip(found, plain, strict=True)),
        "texts": len(found),
        "accepted": accepted,
        "drafted": drafted,
        "acceptance": accepted / drafted if drafted else None,
        "tokens_per_pass": tokens / sum(result.acceptance.windows for result in found),
        "speed": median(speeds),
    }


def measure(
    arms: Sequence[Arm], prompts: Sequence[tuple[int, ...]], temperature: float, tokens: int
) -> list[dict[str, Any]]:
    """Continue every prompt with every arm; the first arm is the one without drafts."""
    found: dict[str, list[GenerationResult]] = {arm.name: [] for arm in arms}
    for seed, prompt in enumerate(prompts):
        sampling = SamplingParams(temperature=temperature, seed=seed)
        for arm in arms:
            generation = arm.engine.generate(prompt, sampling, max_tokens=tokens, ignore_eos=True)
            found[arm.name].append(generation.run())
    return [row_of(arm.name, found[arm.name], found[arms[0].name]) for arm in arms]


def lines_of(results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return a table for each temperature."""
    head = ("drafts", "equal texts", "drafts kept", "acceptance", "tokens a pass", "speed over none")
    lines: list[str] = []
    for temperature, arms in results.items():
        rows = [
            (
                arm["arm"],
                f"{arm['equal']} of {arm['texts']}",
                f"{arm['accepted']} of {arm['drafted']}",
                "-" if arm["acceptance"] is None else f"{arm['acceptance']:.1%}",
                f"{arm['tokens_per_pass']:.2f}",
                f"{arm['speed']:.2f}",
            )
            for arm in arms
        ]
        lines += ["", f"temperature {temperature}", *table([head, *rows])]
    return lines


def main() -> None:
    """Compare the arms at each temperature and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=200, help="tokens a prompt")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--arms", nargs="+", default=list(ARMS[1:]), help="DRAFTER:WIDTH, with 'auto' as a width")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.prompts, options.tokens - 1, options.threads) < 1:
        parser.error("--prompts and --threads must be at least 1, --tokens at least 2")
    torch.set_num_threads(options.threads)
    arms = [Arm.load(name, options.model, options.threads) for name in (ARMS[0], *options.arms)]
    prompts = prompts_of(arms[0].engine, options.prompts)
    results = {f"{value:g}": measure(arms, prompts, value, options.tokens) for value in options.temperatures}
    report(
        {"prompts": len(prompts), "tokens": options.tokens, "temperatures": results},
        lines_of(results),
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
