"""A GPU's log-probabilities and texts beside those of the CPU target: precisions, placements of experts, kinds of pass.

    python bench/gpu_accuracy.py [--model DIR] [--inline]

Needs two kernels packages in build/: one for the CPU, one for this machine's GPU. A position's difference is the
largest among the twenty tokens that the CPU target finds likeliest. `--inline` runs what a GPU does with inline
kernels, for machines without one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MODEL, ROOT, report
from numpy.typing import NDArray

from strata_runtime import Engine, SamplingParams
from strata_runtime.bench.columns import table
from strata_runtime.provider import Provider, find_provider

POSITIONS = 512
TEXT_TOKENS = 64
LIKELIEST = 20
PROMPTS = ("def add(a, b):", "import os\n", "class Tree:")
WINDOWS: Mapping[str, int | None] = {"prompt": None, "windows of 1": 1, "windows of 5": 5}
PRECISIONS: Mapping[str, float] = {"fp32": 1e-3, "bf16": 2e-2}
SHARES: Mapping[str, float] = {"all": 1.0, "half": 0.5, "none": 0.0}

Rows = NDArray[np.float32]


def package(backend: str) -> Provider:
    """Return the one package of a backend. Exits when there is none or several."""
    found = sorted((ROOT / "build" / backend).glob("*/package/strata_kernels_*"))
    if len(found) != 1:
        raise SystemExit(f"build/{backend} holds {len(found)} packages, and one is needed")
    return find_provider({"STRATA_PROVIDER_PATH": str(found[0])})


def read(engine: Engine, ids: list[int], window: int | None) -> Rows:
    """Return log-probabilities after every token, [positions, vocab]."""
    return np.concatenate([np.array(rows) for rows in engine.logprob_rows(ids, window)])


def texts(engine: Engine) -> list[tuple[int, ...]]:
    """Return greedy texts."""
    greedy = SamplingParams(temperature=0)
    return [engine.generate(prompt, greedy, max_tokens=TEXT_TOKENS).run().token_ids for prompt in PROMPTS]


def differences(found: Rows, expected: Rows) -> Rows:
    """Return the largest difference of every position."""
    likeliest = np.argsort(-expected, 1)[:, :LIKELIEST]
    a, b = (np.take_along_axis(rows, likeliest, 1) for rows in (found, expected))
    worst: Rows = np.abs(a - b).max(1)
    return worst


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--inline", action="store_true", help="without a GPU, on the CPU package alone")
    parser.add_argument("--positions", type=int, default=POSITIONS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    cpu = package("cpu")
    gpu, device = (cpu, torch.device("cpu")) if options.inline else (package("cuda"), None)
    shared: dict[str, Any] = {"environ": {}, "engine_context": 2 * options.positions, "report": lambda _: None}
    with Engine.load(options.model, provider=cpu, **shared) as engine:
        text = (ROOT / "generator" / "strata_gen" / "host.py").read_text(encoding="utf-8")
        ids = list(engine.encode(text))[: options.positions]
        expected = {name: read(engine, ids, window) for name, window in WINDOWS.items()}
        written = texts(engine)
        layers, experts = engine.info.layers, engine.info.experts
    rows = []
    for precision, limit in PRECISIONS.items():
        for placement, share in SHARES.items():
            own: dict[str, Any] = {"device_precision": precision, "expert_cache": int(share * layers * experts)}
            with Engine.load(options.model, provider=gpu, device=device, **shared, **own) as engine:
                same = sum(a == b for a, b in zip(texts(engine), written, strict=True))
                for name, window in WINDOWS.items():
                    worst = differences(read(engine, ids, window), expected[name])
                    rows.append(
                        {
                            "precision": precision,
                            "experts in slots": placement,
                            "read as": name,
                            "largest": float(worst.max()),
                            "median": float(np.median(worst)),
                            "above the limit": float((worst > limit).mean()),
                            "limit": limit,
                            "equal texts": f"{same} of {len(PROMPTS)}",
                        }
                    )
    shown = [[_shown(value) for value in row.values()] for row in rows]
    report({"rows": rows}, table([list(rows[0]), *shown]), as_json=options.json)


def _shown(value: object) -> str:
    return f"{value:.1e}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
