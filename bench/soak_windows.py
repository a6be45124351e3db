"""Windows of random knobs and placements, one loaded engine after the other: nothing stalls, all is finite.

    python bench/soak_windows.py [--configurations 40] [--windows 50] [--seed 0] [--inline]

Each configuration draws slots of experts, deferral, cap, tail skip, plan, precision, threads, experts that move or that
a GPU reads from the host, and the width of its windows, reads a text through windows with them and writes a few tokens.
Where nothing approximates, precision is single and experts are as stored, log-probabilities must be those with every
expert in a slot. `--inline` runs what a GPU does inline.
"""

from __future__ import annotations

import argparse
import os
import random
from time import perf_counter
from typing import Any

import numpy as np
import torch
from common import MODEL, project_text, report
from numpy.typing import NDArray

from strata_runtime import Engine, SamplingParams
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.errors import UserError
from strata_runtime.provider import Provider, find_provider

TOKENS = 8
CLOSE = 1e-3

Rows = NDArray[np.float32]


def draw(chance: random.Random, total: int, top_k: int) -> dict[str, Any]:
    """Return settings by field; what a knob's default is may be left out."""
    settings: dict[str, Any] = {
        "expert_cache": chance.choice([0, total, chance.randrange(total)]),
        "device_precision": chance.choice(["fp32", "bf16"]),
        "pool_threads": chance.randint(1, usable_cpus()),
        "verify_defer_cpu": chance.choice(["0", "0", "1", "check"]),
        "verify_profile": chance.random() < 0.25,
    }
    if chance.random() < 0.5:
        settings["verify_defer_cpu_below"] = chance.choice([0.05, 0.1, 0.3])
    if chance.random() < 0.3:
        settings["verify_ecap"] = chance.randint(top_k, 40)
    if chance.random() < 0.3:
        settings["route_tail_skip"] = chance.randint(1, top_k - 1)
    if chance.random() < 0.5:
        settings["verify_device_plan"] = chance.random() < 0.5
    if chance.random() < 0.5:
        # A GPU reads experts of the host where they are arranged for it, which those of this model are not as stored.
        settings |= {"engine_expert_format": "q8_0", "engine_weight_layout": "compute"}
        settings["expert_pcie_frac"] = chance.choice([0.0, 0.3, 1.0, -1.0])
        settings["expert_adapt"] = chance.random() < 0.5
        settings["expert_adapt_bytes"] = chance.choice([1, 1 << 18])
    return settings


def is_exact(settings: dict[str, Any]) -> bool:
    """Whether log-probabilities may differ from exact ones in their last bits alone."""
    # Experts in 8 bits meet near ties of rounding, and one in the first token shows in all others.
    apart = {"verify_ecap", "route_tail_skip", "engine_expert_format"}
    approximates = settings["verify_defer_cpu"] == "1" or apart & settings.keys()
    return not approximates and settings["device_precision"] == "fp32"


def run(provider: Provider, device: torch.device | None, settings: dict[str, Any], ids: list[int], width: int) -> Rows:
    """Read `ids` in windows and write a few tokens; return the log-probabilities, [positions, vocab]."""
    shared: dict[str, Any] = {"environ": {}, "engine_context": len(ids) + TOKENS + 8, "report": lambda _: None}
    with Engine.load(MODEL, provider=provider, device=device, **shared, **settings) as engine:
        rows = np.concatenate([np.array(rows) for rows in engine.logprob_rows(ids, width)])
        engine.generate(ids[:16], SamplingParams(temperature=0), max_tokens=TOKENS, ignore_eos=True).run()
    return rows


def main() -> int:
    """Run all configurations; return 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configurations", type=int, default=40)
    parser.add_argument("--windows", type=int, default=50, help="of each configuration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inline", action="store_true", help="without a GPU, on a CPU package")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    provider = find_provider(os.environ)
    device = torch.device("cpu") if options.inline else None
    chance = random.Random(options.seed)
    with Engine.load(MODEL, provider=provider, environ={}, report=lambda _: None) as engine:
        total, top_k = engine.info.layers * engine.info.experts, engine.info.experts_per_token
        text = list(engine.encode(project_text()[:40_000]))
    plain = {"device_precision": "fp32", "expert_cache": total}
    failures, windows, exact, started = [], 0, 0, perf_counter()
    for number in range(options.configurations):
        settings, width = draw(chance, total, top_k), chance.randint(1, 8)
        ids = text[: width * options.windows]
        try:
            found = run(provider, device, settings, ids, width)
        except UserError as problem:
            failures.append(f"{number}: {settings}, windows of {width}: {problem}")
            continue
        windows += options.windows
        if not np.isfinite(found.max(1)).all():
            failures.append(f"{number}: {settings}, windows of {width}: not finite")
        if is_exact(settings):
            exact += 1
            apart = float(np.abs(found - run(provider, device, plain, ids, width)).max())
            if apart > CLOSE:
                failures.append(f"{number}: {settings}, windows of {width}: {apart:.1e} from all experts in slots")
    result = {"windows": windows, "exact": exact, "failures": failures, "seconds": perf_counter() - started}
    line = f"{windows} windows in {options.configurations} configurations, {exact} compared, {len(failures)} failures"
    report(result, [line, *failures], as_json=options.json)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
