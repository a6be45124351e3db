"""Whether text with drafts equals text without, token by token, for every drafter and width.

    python bench/draft_equality.py                       # 50 prompts of 200 tokens at temperatures 0 and 1
    python bench/draft_equality.py --prompts 5 --tokens 50 --arms mtp:2 ngram:auto --json

Prompts and arms are those of `drafts.py`. A difference is judged where two texts part for the first time, by the
network's distribution there, read token by token: it is a near tie when a change of less than 1e-4 gives the other
token, in the two tokens' log-probabilities or, where tokens are drawn, in the random number. Exits with 1 unless every
difference is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MODEL, report
from drafts import Arm, prompts_of

from strata_runtime import Engine, SamplingParams
from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.sampling import CounterUniform, Row, Sampler

NEAR = 1e-4
ARMS = tuple(f"{draft}:{width}" for draft in ("ngram", "mtp") for width in (*range(2, 9), "auto"))

Texts = list[tuple[int, ...]]
"""The tokens drawn, by prompt."""


@dataclass(frozen=True)
class Difference:
    """Where a text with drafts parts from the one without: the two tokens, and the change that gives the other one."""

    prompt: int
    token: int
    without: int
    drafted: int
    gap: float

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding can decide it."""
        return self.gap < NEAR


def gap_of(row: Row, sampling: SamplingParams, position: int, without: int, drafted: int) -> float:
    """Return the smallest change that gives `drafted` in place of `without` at `position`.

    row: log-probabilities there, float32 [vocab]. The change is one of the difference of the two log-probabilities or,
    where tokens are drawn, of the random number.
    """
    gap = abs(float(row[without]) - float(row[drafted]))
    if sampling.temperature == 0:
        return gap
    assert sampling.seed is not None
    final = Sampler(sampling, len(row)).distribution(row)
    ends = np.cumsum(final.probabilities)
    uniform = CounterUniform(sampling.seed).at(position)
    for at in np.flatnonzero(final.ids == drafted):
        begin = float(ends[at - 1]) if at else 0.0
        gap = min(gap, max(begin - uniform, uniform - float(ends[at]), 0.0))
    return gap


def texts_of(engine: Engine, prompts: Sequence[tuple[int, ...]], temperature: float, tokens: int) -> Texts:
    """Continue every prompt, each with a seed of its own."""
    return [
        engine.generate(prompt, sampling_of(temperature, seed), max_tokens=tokens, ignore_eos=True).run().token_ids
        for seed, prompt in enumerate(prompts)
    ]


def sampling_of(temperature: float, prompt: int) -> SamplingParams:
    """Return how the tokens behind a prompt are drawn."""
    return SamplingParams(temperature=temperature, seed=prompt)


def differences(
    engine: Engine, prompts: Sequence[tuple[int, ...]], temperature: float, plain: Texts, drafted: Texts
) -> Iterator[Difference]:
    """Yield one difference for each text that is not the same. `engine`: one without drafts."""
    for number, (prompt, one, other) in enumerate(zip(prompts, plain, drafted, strict=True)):
        if one == other:
            continue
        at = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        *_, last = engine.logprob_rows([*prompt, *one[:at]], window=1)
        gap = gap_of(last[-1], sampling_of(temperature, number), len(prompt) + at, one[at], other[at])
        yield Difference(number, at, one[at], other[at], gap)


def lines_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table, and a line for each difference."""
    cells = [
        (
            row["arm"],
            f"{row['temperature']:g}",
            f"{row['equal']} of {row['texts']}",
            str(row["tokens"]),
            str(sum(each["is_near_tie"] for each in row["differences"])),
            str(sum(not each["is_near_tie"] for each in row["differences"])),
        )
        for row in rows
    ]
    head = ("drafts", "temperature", "equal texts", "tokens", "near ties", "other differences")
    each = [
        f"{row['arm']} at temperature {row['temperature']:g}, prompt {found['prompt']}, token {found['token']}: "
        f"{found['drafted']} in place of {found['without']}, {found['gap']:.1e} apart"
        for row in rows
        for found in row["differences"]
    ]
    return ["", *table([head, *cells]), *each]


def main() -> int:
    """Compare every arm with the text without drafts, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=200, help="tokens a prompt")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), help="DRAFTER:WIDTH, with 'auto' as a width")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.prompts, options.tokens, options.threads) < 1:
        parser.error("--prompts, --tokens and --threads must be at least 1")
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    with Arm.load("none", options.model, options.threads).engine as exact:
        prompts = prompts_of(exact, options.prompts)
        plain = {value: texts_of(exact, prompts, value, options.tokens) for value in options.temperatures}
        for name in options.arms:
            with Arm.load(name, options.model, options.threads).engine as engine:
                for value in options.temperatures:
                    texts = texts_of(engine, prompts, value, options.tokens)
                    found = list(differences(exact, prompts, value, plain[value], texts))
                    rows.append(
                        {
                            "arm": name,
                            "temperature": value,
                            "texts": len(texts),
                            "equal": len(texts) - len(found),
                            "tokens": sum(map(len, texts)),
                            "differences": [{**asdict(each), "is_near_tie": each.is_near_tie} for each in found],
                        }
                    )
                    print(f"{name} at temperature {value:g}: {len(found)} differences", file=sys.stderr)
    report({"prompts": len(prompts), "rows": rows}, lines_of(rows), as_json=options.json)
    return int(any(not each["is_near_tie"] for row in rows for each in row["differences"]))


if __name__ == "__main__":
    sys.exit(main())
