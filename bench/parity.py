"""What strata computes beside transformers in float32: log-probabilities on this project's own source text, and text.

    python bench/parity.py                         # as stored, then with q8_0 experts
    python bench/parity.py --positions 500 --json

First, over whole rows of log-probabilities: the largest difference, the Kullback-Leibler divergence, and how often
both name the same next token. Then greedy text: how many of the prompts get the same tokens, and where they part, how
close the two candidates were.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MODEL, ROOT, project_text, quiet_transformers, report
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

from strata_runtime import Engine, SamplingParams
from strata_runtime.bench.columns import table

WINDOW = 500
PROMPT_TOKENS = 40

Rows = NDArray[np.float64]


class Oracle:
    """transformers in float32."""

    def __init__(self, model: Path) -> None:
        quiet_transformers()
        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of plain text."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return ids

    @torch.inference_mode()
    def logprobs(self, ids: Sequence[int]) -> Rows:
        """Return log-probabilities of the next token at each position, `[positions, vocabulary]`."""
        logits = self._model(torch.tensor([ids])).logits[0]
        rows: Rows = torch.log_softmax(logits.double(), -1).numpy()
        return rows

    @torch.inference_mode()
    def generate(self, ids: Sequence[int], tokens: int) -> list[int]:
        """Return the tokens drawn greedily, the end token included."""
        prompt = torch.tensor([ids])
        drawn = self._model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=tokens
        )
        continuation: list[int] = drawn[0, len(ids) :].tolist()
        return continuation


def windows(ids: Sequence[int], positions: int) -> Iterator[Sequence[int]]:
    """Yield pieces of `ids` that hold `positions` tokens together."""
    if len(ids) < positions:
        raise SystemExit(f"the project's sources have {len(ids)} tokens, fewer than {positions}")
    for start in range(0, positions, WINDOW):
        yield ids[start : min(start + WINDOW, positions)]


def compare_rows(engine: Engine, oracle: Oracle, pieces: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the differences over every position of every piece."""
    largest, divergences, agreed = 0.0, [], []
    for piece in pieces:
        theirs = oracle.logprobs(piece)
        ours = np.concatenate(list(engine.logprob_rows(piece))).astype(np.float64)
        largest = max(largest, float(np.abs(ours - theirs).max()))
        divergences.append((np.exp(theirs) * (theirs - ours)).sum(-1))
        agreed.append(ours.argmax(-1) == theirs.argmax(-1))
    kl = np.concatenate(divergences)
    return {
        "positions": len(kl),
        "max_difference": largest,
        "mean_kl": float(kl.mean()),
        "max_kl": float(kl.max()),
        "top1": float(np.concatenate(agreed).mean()),
    }


def compare_text(engine: Engine, oracle: Oracle, prompts: Sequence[Sequence[int]], tokens: int) -> dict[str, Any]:
    """Return how many prompts get equal greedy continuations, and the oracle's margin wherever they part."""
    parted = []
    for index, prompt in enumerate(prompts):
        theirs = oracle.generate(prompt, tokens)
        ours = list(engine.generate(prompt, SamplingParams(temperature=0), max_tokens=tokens).run().token_ids)
        if ours != theirs:
            at = next(
                (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
            )
            best = np.sort(oracle.logprobs([*prompt, *theirs[:at]])[-1])[-2:]
            parted.append({"prompt": index, "token": at, "margin_nats": float(best[1] - best[0])})
    return {"prompts": len(prompts), "tokens": tokens, "equal": len(prompts) - len(parted), "parted": parted}


def prompts_of(oracle: Oracle, count: int) -> list[list[int]]:
    """Return the beginnings of the project's `count` longest Python files, in name order."""
    files = [*ROOT.glob("generator/**/*.py"), *ROOT.glob("runtime/**/*.py")]
    longest = sorted(sorted(files, key=lambda file: (-file.stat().st_size, file))[:count])
    return [oracle.encode(file.read_text(encoding="utf-8"))[:PROMPT_TOKENS] for file in longest]


def main() -> None:
    """Compare each expert format and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=200, help="greedy tokens a prompt")
    parser.add_argument("--formats", nargs="+", default=["stored", "q8_0"], help="values of engine.expert_format")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    oracle = Oracle(options.model)
    pieces = list(windows(oracle.encode(project_text()), options.positions))
    prompts = prompts_of(oracle, options.prompts)
    results: dict[str, Any] = {}
    for form in options.formats:
        with Engine.load(options.model, pool_threads=options.threads, engine_expert_format=form) as engine:
            results[form] = {
                "rows": compare_rows(engine, oracle, pieces),
                "text": compare_text(engine, oracle, prompts, options.tokens),
            }
    report({"formats": results}, lines_of(results), as_json=options.json)


def lines_of(results: dict[str, Any]) -> list[str]:
    """Return the results as a table, and a line for each text that parted."""
    rows = [("experts", "positions", "largest difference", "mean KL", "largest KL", "same top-1", "equal texts")]
    partings = []
    for form, result in results.items():
        numbers, text = result["rows"], result["text"]
        rows.append(
            (
                form,
                f"{numbers['positions']}",
                f"{numbers['max_difference']:.2e}",
                f"{numbers['mean_kl']:.2e}",
                f"{numbers['max_kl']:.2e}",
                f"{numbers['top1']:.2%}",
                f"{text['equal']} of {text['prompts']}",
            )
        )
        partings += [
            f"{form}: prompt {each['prompt']} parts at token {each['token']}, margin {each['margin_nats']:.2e} nats"
            for each in text["parted"]
        ]
    return ["", *table(rows), *([""] if partings else []), *partings]


if __name__ == "__main__":
    main()
