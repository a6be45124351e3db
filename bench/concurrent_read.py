"""Measures what decoding streams feel of a long prompt that joins them: off, in pieces, and beside windows.

Every round loads the model once for each way, in turns, and plays the scenario; figures are medians over the rounds,
and ratios are of the same round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from strata_runtime import Engine
from strata_runtime.batch import Batch
from strata_runtime.bench.streams import Felt, Scenario, play, scenarios

ROOT = Path(__file__).resolve().parents[1]
WAYS: dict[str, dict[str, object]] = {
    "off": {},
    "pieces": {"piped_piece": 512},
    "beside": {"piped_concurrent": True},
}


def measure(model: Path, way: str, scenario: Scenario, options: argparse.Namespace) -> Felt:
    """Load, play once, and return what was felt."""
    knobs = {"batch_slots": scenario.slots, "batch_prefix": "off", "engine_context": options.context, **WAYS[way]}
    with Engine.load(model, report=lambda _: None, **knobs) as engine:
        text = engine.encode((ROOT / "README.md").read_text())
        batch = Batch(engine)
        try:
            return play(batch, scenario, text)
        finally:
            batch.close()


ROWS: dict[str, Callable[[Felt], float | None]] = {
    "longest pause, s": lambda felt: felt.pause,
    "rate during / before": lambda felt: felt.during / felt.before,
    "joiner's first token, s": lambda felt: felt.joiner,
    "question's first token, s": lambda felt: felt.question,
    "same work, s": lambda felt: felt.total,
}


def table(rounds: list[dict[str, Felt]]) -> str:
    """Write medians of each way, and the ratio to `off` of the same round."""
    lines = ["| | " + " | ".join(WAYS) + " | beside / off |", "|---|" + "---:|" * (len(WAYS) + 1)]
    for name, of in ROWS.items():
        values = {way: [of(each[way]) for each in rounds] for way in WAYS}
        if any(value is None for each in values.values() for value in each):
            continue
        known = {way: [value or 0.0 for value in each] for way, each in values.items()}
        ratio = median(b / a if a else 0.0 for a, b in zip(known["off"], known["beside"], strict=True))
        lines.append(
            f"| {name} | " + " | ".join(f"{median(each):.3f}" for each in known.values()) + f" | {ratio:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "examples" / "models" / "strata-tiny")
    parser.add_argument("--prompt", type=int, default=4096, help="tokens of a cold prompt")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--stream-tokens", type=int, default=400)
    parser.add_argument("--warm", type=float, default=1.0, help="seconds before a prompt joins, and a question behind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scenario", action="append", help="one of cold, followup, two_joiners; all unless given")
    parser.add_argument("--json", action="store_true", help="print seconds and rates of every round instead")
    options = parser.parse_args()
    known = scenarios(options.prompt, options.stream_tokens, options.warm)
    found = {}
    for name in options.scenario or known:
        rounds = []
        for number in range(options.rounds):
            ways = list(WAYS)[number % len(WAYS) :] + list(WAYS)[: number % len(WAYS)]
            rounds.append({way: measure(options.model, way, known[name], options) for way in ways})
        found[name] = [{way: asdict(felt) for way, felt in each.items()} for each in rounds]
        if not options.json:
            print(f"{name}: {options.prompt} tokens, {options.rounds} rounds\n{table(rounds)}\n", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
