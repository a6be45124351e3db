"""What knobs do to the speed of windows: arms beside each other on one loaded file, in turns.

    python bench/window_knobs.py MODEL.gguf --arm off: --arm late:verify.defer_cpu=1,verify.defer_cpu_below=0.1 \
        --window 1,4,5 --expert-cache 0 --threads 16

Every arm has a model of its own, so memory must hold as many. In each round all arms run in turn, windows of every size
over random token ids; a round's ratio is that of an arm's median over the first arm's. On a GPU and on a CPU.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from common import report

from strata_runtime.ab.arms import Arm, make_arms
from strata_runtime.bench.cases import Case
from strata_runtime.bench.columns import table
from strata_runtime.bench.subject import Subject
from strata_runtime.knobs import Given, Origin, Source, resolve
from strata_runtime.provider import Provider, find_provider

SAMPLES = 3


def load(provider: Provider, model: Path, arm: Arm, shared: dict[str, Given], options: argparse.Namespace) -> Subject:
    """Load the model of one arm."""
    own = {name: Given(text, Origin(Source.COMMAND_LINE, f"--arm {arm.name}")) for name, text in arm.texts.items()}
    chosen = resolve(provider.knobs, environ=os.environ, command_line={**shared, **own})
    subject = Subject.load(
        model, provider, chosen, threads=(options.threads,), positions=lambda _: options.context + 64, seed=0
    )
    subject.fill(options.context)
    return subject


def measure(subject: Subject, tokens: int, turn: int, options: argparse.Namespace) -> float:
    """Return the seconds of a window."""
    case = Case("window", tokens, options.context, options.threads)
    return median(subject.seconds(case, SAMPLES * turn + sample) for sample in range(SAMPLES))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--arm", action="append", default=[], help="NAME:KNOB=VALUE,...; the first is the reference")
    parser.add_argument("--window", default="1,4,5", help="comma-separated numbers of tokens")
    parser.add_argument("--context", type=int, default=64, help="positions in front of the windows")
    parser.add_argument("--expert-cache", default="", help="slots of all arms")
    parser.add_argument("--threads", type=int, default=0, help="workers; 0: one per physical core")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    provider = find_provider(os.environ)
    shared = {"pool.threads": str(options.threads), "expert.cache": options.expert_cache}
    given = {name: text for name, text in shared.items() if text}
    flags = {name: Given(text, Origin(Source.COMMAND_LINE, name)) for name, text in given.items()}
    arms = make_arms(options.arm, provider.knobs, os.environ, flags)
    sizes = [int(size) for size in options.window.split(",")]
    seconds: dict[tuple[str, int], list[float]] = {(arm.name, size): [] for size in sizes for arm in arms}
    with ExitStack() as stack:
        subjects = [(arm.name, stack.enter_context(load(provider, options.model, arm, flags, options))) for arm in arms]
        for turn in range(options.rounds + 1):
            for size in sizes:
                for name, subject in subjects[turn % len(subjects) :] + subjects[: turn % len(subjects)]:
                    taken = measure(subject, size, turn, options)
                    if turn > 0:  # the first round captures graphs and fills caches
                        seconds[name, size].append(taken)
    rows = [result(seconds, arms[0].name, *key) for key in seconds]
    head = ("tokens", "arm", "ms a window", "tokens/s", "over the first", "every round")
    report({"windows": rows}, table([head, *map(cells, rows)]), as_json=options.json)


def result(seconds: dict[tuple[str, int], list[float]], first: str, name: str, size: int) -> dict[str, Any]:
    """Return one row: median seconds, and the first arm's time over this one's, round by round."""
    own = seconds[name, size]
    ratios = [reference / taken for reference, taken in zip(seconds[first, size], own, strict=True)]
    return {"tokens": size, "arm": name, "seconds": median(own), "ratio": median(ratios), "ratios": ratios}


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the printed table."""
    rate, rounds = row["tokens"] / row["seconds"], " ".join(f"{ratio:.3f}" for ratio in row["ratios"])
    return str(row["tokens"]), row["arm"], f"{row['seconds'] * 1e3:.3f}", f"{rate:.1f}", f"{row['ratio']:.3f}", rounds


if __name__ == "__main__":
    main()
