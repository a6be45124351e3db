"""How far each approximation of the verify window is from exact, and how far an independent evaluation says it is.

    python bench/window_arms.py                       # 5,000 positions of this project's own files, strata-tiny
    python bench/window_arms.py --positions 200 --json

The divergence is over the exact run's 20 most probable tokens at each position, in windows of 5. The second one is that
of `tests/support/arms_reference.py`, plain torch in float32 over whole texts. `exact again` is the floor, and skipping
experts at the tail of every token a scale that users know.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MODEL, ROOT, project_text, report

from strata_runtime import Engine
from strata_runtime.bench.columns import table

sys.path.append(str(ROOT / "tests"))
reference_of: Any = import_module("support.arms_reference")

WINDOW, TEXT, TOP = 5, 500, 20


@dataclass(frozen=True)
class Arm:
    """Settings of an engine, and the same for the independent evaluation."""

    settings: Mapping[str, object]
    reference: Mapping[str, object]


def arms_of(mixtures: int, dense: int, experts: int) -> dict[str, Arm]:
    """Return the arms for a network with so many layers with and without experts."""
    half = mixtures * experts // 2
    slots = frozenset((dense + slot // experts, slot % experts) for slot in range(half))

    def late(below: float, check: str = "1", **more: object) -> Arm:
        settings = {"verify_defer_cpu": check, "verify_defer_cpu_below": min(below, 1.0), **more}
        resident = {"resident": slots} if more else {}
        return Arm(settings, {"late_below": below, "check": check == "check", **resident})

    def capped(cap: int) -> Arm:
        return Arm({"verify_ecap": cap}, {"ecap": cap})

    return {
        "exact again": Arm({}, {}),
        "all late": late(math.inf),
        "late below 0.1": late(0.1),
        "late below 0.2": late(0.2),
        "check": late(0.1, "check"),
        "half resident, all late": late(math.inf, expert_cache=half),
        **{f"ecap {cap}": capped(cap) for cap in (12, 16, 24, 32, 40)},
        **{f"tail skip {rank}": Arm({"route_tail_skip": rank}, {"skip_from": rank}) for rank in (7, 6)},
    }


def logprobs(model: Path, texts: Sequence[Sequence[int]], settings: Mapping[str, Any]) -> torch.Tensor:
    """Read all texts in windows; float32 [positions, vocab]."""
    with Engine.load(model, report=lambda _: None, **settings) as engine:
        return torch.from_numpy(np.concatenate([rows for ids in texts for rows in engine.logprob_rows(ids, WINDOW)]))


def divergence(exact: torch.Tensor, other: torch.Tensor) -> float:
    """Mean over positions of the divergence over the exact run's most probable tokens."""
    return float(reference_of.mean_kl(exact, other, TOP))


def main() -> None:
    """Measure every arm and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=5000)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    reference = reference_of.Reference(MODEL)
    with Engine.load(MODEL, report=lambda _: None) as engine:
        ids = list(engine.encode(project_text()))[: options.positions]
    texts = [ids[start : start + TEXT] for start in range(0, len(ids), TEXT)]
    exact = logprobs(MODEL, texts, {})

    def independent(**arm: object) -> torch.Tensor:
        return torch.cat([reference.logprobs(text, reference_of.Arm(window=WINDOW, **arm)) for text in texts])

    plain = independent()
    config = reference.config
    rows: list[dict[str, Any]] = []
    for name, arm in arms_of(reference.layers - reference.dense, reference.dense, config["n_routed_experts"]).items():
        found = logprobs(MODEL, texts, arm.settings)
        row = {
            "arm": name,
            "kl": divergence(exact, found),
            "independent_kl": divergence(plain, independent(**arm.reference)),
            "same_top1": float((exact.argmax(-1) == found.argmax(-1)).double().mean()),
            "same_bits": torch.equal(exact, found),
        }
        rows.append(row)
        print(f"{name}: {row['kl']:.3e}", file=sys.stderr)
    cells = [
        (r["arm"], f"{r['kl']:.3e}", f"{r['independent_kl']:.3e}", f"{r['same_top1']:.2%}", "yes" * r["same_bits"])
        for r in rows
    ]
    head = ("arm", "mean KL", "independent", "same top-1", "same bits")
    lines = ["", *table([head, *cells])]
    report({"positions": len(ids), "window": WINDOW, "arms": rows}, lines, as_json=options.json)


if __name__ == "__main__":
    main()
