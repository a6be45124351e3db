"""Decode, windows and prompts on a GPU beside llama.cpp: the same GGUF file, placements of experts, and run.

    python bench/gpu_race.py MODEL.gguf --llama-bench PATH/llama-bench --threads 16

Needs a kernels package for the GPU, and a `llama-bench` that was built for it (bench/vs_llama_cpp.py says where its
sources are; add -DGGML_CUDA=ON). Placements: all experts on the GPU, those of half of the layers, none. In each round
one runs after the other, in turn first. Both read random token ids and draw nothing; llama.cpp keeps its KV cache in
F16 and uses flash attention, strata keeps it in F16.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from common import report, spread

from strata_runtime.bench.cases import Case
from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.bench.subject import Subject
from strata_runtime.checkpoint.network import Network
from strata_runtime.knobs import resolve
from strata_runtime.provider import find_provider

PLACEMENTS: Mapping[str, float] = {"all on the GPU": 1.0, "half on the GPU": 0.5, "experts on the CPU": 0.0}
WINDOW = 5
SEED = 0


def cases_of(options: argparse.Namespace, placement: str) -> dict[str, Case]:
    """Return what is raced in a placement, by name."""
    cases = {
        "decode": Case("decode", options.tokens, 0, options.threads),
        f"window of {WINDOW}": Case("window", WINDOW, 0, options.threads),
    }
    if placement == "all on the GPU" and options.prompt:
        cases[f"prompt of {options.prompt}"] = Case("prompt", options.prompt, 0, options.threads)
    return cases


def load(options: argparse.Namespace, model: Path, placement: str, network: tuple[int, int]) -> Subject:
    """Load a model with a share of its experts on the GPU."""
    provider = find_provider(os.environ)
    layers, experts = network
    slots = round(layers * PLACEMENTS[placement]) * experts
    settings = {
        "expert_cache": slots,
        "engine_prompt_chunk": min(options.prompt or 512, 8192),
        "pool_threads": options.threads,
    }
    chosen = resolve(provider.knobs, environ=os.environ, python=settings)
    cases = cases_of(options, placement).values()
    return Subject.load(
        model,
        provider,
        chosen,
        threads=(options.threads,),
        positions=lambda _: max(case.end for case in cases),
        seed=SEED,
    )


def ours(subject: Subject, cases: Mapping[str, Case], turn: int) -> dict[str, float]:
    """Return strata's tokens per second by case."""
    rates = {}
    for name, case in cases.items():
        samples = [subject.seconds(case, 10 * turn + sample) for sample in range(3)]
        rates[name] = case.tokens_per_unit / median(samples)
    return rates


def theirs(options: argparse.Namespace, model: Path, placement: str, layers: int) -> dict[str, float]:
    """Run the peer once; return its tokens per second by case."""
    on_cpu = layers - round(layers * PLACEMENTS[placement])
    prompts = [str(WINDOW)]
    if placement == "all on the GPU" and options.prompt:
        prompts.append(str(options.prompt))
    words = ["-m", model, "-t", options.threads, "-ngl", 99, "-fa", 1, "-ncmoe", on_cpu, "-n", options.tokens]
    words += ["-p", ",".join(prompts), "-ub", max(512, min(4096, options.prompt)), "-b", 4096, "-o", "json", "-r", 3]
    command = [str(word) for word in (options.llama_bench, *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    rates = {}
    for row in json.loads(done.stdout):
        size = row["n_prompt"]
        name = "decode" if not size else f"window of {size}" if size == WINDOW else f"prompt of {size}"
        rates[name] = median(row["samples_ts"])
    return rates


def race(options: argparse.Namespace, model: Path, placement: str, network: tuple[int, int]) -> dict[str, Any]:
    """Run all rounds of one placement."""
    cases = cases_of(options, placement)
    mine, peers = [], []
    with load(options, model, placement, network) as subject:
        ours(subject, cases, 0)
        for turn in range(1, options.rounds + 1):
            if turn % 2:
                mine.append(ours(subject, cases, turn))
            if options.llama_bench:
                peers.append(theirs(options, model, placement, network[0]))
            if not turn % 2:
                mine.append(ours(subject, cases, turn))
    result: dict[str, Any] = {}
    for name in cases:
        result[name] = {"strata": spread([each[name] for each in mine])}
        if peers:
            result[name]["llama.cpp"] = spread([each[name] for each in peers])
            result[name]["ratio"] = spread([a[name] / b[name] for a, b in zip(mine, peers, strict=True)])
    return result


def shape_of(model: Path) -> tuple[int, int]:
    """Return the number of layers with routed experts, and of experts in each."""
    from strata_runtime.checkpoint.network import read_network
    from strata_runtime.checkpoint.source import open_checkpoint

    provider = find_provider(os.environ)
    checkpoint = open_checkpoint(model, provider.families, provider.formats)
    network: Network = read_network(checkpoint.config)
    return network.layers, network.experts


def lines_of(result: dict[str, Any]) -> list[str]:
    """Return the result as a table."""
    rows: list[tuple[str, ...]] = [("", "strata", "llama.cpp", "ratio", "lowest", "highest")]
    for model, placements in result["races"].items():
        for placement, cases in placements.items():
            for name, case in cases.items():
                figures = [f"{case['strata']['median']:.1f}"]
                if "ratio" in case:
                    ratio = case["ratio"]
                    figures += [f"{case['llama.cpp']['median']:.1f}", f"{ratio['median']:.2f}"]
                    figures += [f"{ratio['min']:.2f}", f"{ratio['max']:.2f}"]
                rows.append((f"{Path(model).name}, {placement}, {name}", *figures, *[""] * (5 - len(figures))))
    head = f"tokens/s, medians of {result['rounds']} rounds, {result['threads']} threads; ratios are paired"
    return ["", head, "", *table(rows)]


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="GGUF", help="files that both can read")
    parser.add_argument("--llama-bench", type=Path, metavar="PATH", help="the peer's program; none races alone")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="threads of each")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a decode")
    parser.add_argument("--prompt", type=int, default=4096, help="tokens of the prompt; 0 reads none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--placement", action="append", choices=list(PLACEMENTS), help="all unless given")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    races = {}
    for model in options.models:
        network = shape_of(model)
        races[str(model)] = {
            placement: race(options, model, placement, network) for placement in options.placement or PLACEMENTS
        }
    result = {"threads": options.threads, "rounds": options.rounds, "races": races}
    report(result, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
