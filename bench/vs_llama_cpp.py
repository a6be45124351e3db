"""Decode and short prompts beside llama.cpp: the same GGUF file, threads, machine and run.

    python bench/vs_llama_cpp.py MODEL.gguf ... --llama-bench PATH/llama-bench --threads 2

The peer is a `llama-bench` of your own, built for this machine. Its sources come with a Python package too:

    pip download --no-deps --no-binary :all: llama-cpp-python
    tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON
    cmake --build build --target llama-bench test-backend-ops

Both read random token ids from an empty context, one pass per token for decode and one pass for the prompt, and draw
nothing. In each round one runs after the other, in turn first. llama-bench loads the file and warms up in each round;
strata stays loaded, its first round does not count, and it sleeps while the other runs. llama.cpp keeps its KV cache in
F16, strata in F32. Where the time of strata goes is measured after the rounds.

Both wait for their threads by spinning, and suffer from other work on the machine: the load is shown with the figures.
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
from workers import Message, Worker, serve

from strata_runtime.bench.cases import Case
from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.bench.memory import peak_resident
from strata_runtime.bench.parts import middle
from strata_runtime.bench.subject import Subject
from strata_runtime.knobs import resolve
from strata_runtime.provider import find_provider

WORKER = "strata"
PARTS_ROUNDS = 3


def cases_of(options: argparse.Namespace) -> dict[str, Case]:
    """Return what is raced, by name."""
    return {
        "decode": Case("decode", options.tokens, 0, options.threads),
        f"prompt of {options.prompt}": Case("prompt", options.prompt, 0, options.threads),
    }


def run_worker(options: argparse.Namespace) -> None:
    """Answer {turn} with tokens per second by case, and {parts} with seconds of each part of a unit by case."""
    provider = find_provider(os.environ)
    cases = cases_of(options)
    with Subject.load(
        options.models[0],
        provider,
        resolve(provider.knobs, environ=os.environ),
        threads=(options.threads,),
        positions=lambda _: max(case.end for case in cases.values()),
        seed=options.seed,
    ) as subject:

        def rate(case: Case, turn: int) -> float:
            repeats = range(1 if case.kind == "decode" else options.repetitions)
            seconds = [subject.seconds(case, turn * options.repetitions + repeat) for repeat in repeats]
            return case.tokens_per_unit / median(seconds)

        def parts(case: Case) -> dict[str, float]:
            samples = [subject.parts(case, 1_000_000 + turn) for turn in range(PARTS_ROUNDS)]
            return {part.name: part.seconds for part in middle(samples)}

        def answer(message: Message) -> Message:
            if "turn" in message:
                return {name: rate(case, message["turn"]) for name, case in cases.items()}
            return {"parts": {name: parts(case) for name, case in cases.items()}, "peak": peak_resident()}

        serve(answer)


def llama_bench(options: argparse.Namespace, model: Path) -> dict[str, float]:
    """Run the peer once; return its tokens per second by case. Raises `SystemExit` when it fails."""
    words = ["-m", model, "-t", options.threads, "-p", options.prompt, "-n", options.tokens, "-o", "json"]
    command = [str(word) for word in (options.llama_bench, *words, "-r", options.repetitions)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    decode, prompt = cases_of(options)
    names = {(0, options.tokens): decode, (options.prompt, 0): prompt}
    return {names[row["n_prompt"], row["n_gen"]]: median(row["samples_ts"]) for row in json.loads(done.stdout)}


def race(options: argparse.Namespace, model: Path) -> dict[str, Any]:
    """Run all rounds over one file."""
    arguments = [str(model), "--llama-bench", str(options.llama_bench)]
    for name in ("threads", "tokens", "prompt", "repetitions", "seed"):
        arguments += [f"--{name}", str(getattr(options, name))]
    worker = Worker(Path(__file__), WORKER, arguments, options.threads)
    worker.ask(turn=0)
    ours, theirs = [], []
    for turn in range(1, options.rounds + 1):
        if turn % 2:
            ours.append(worker.ask(turn=turn))
        theirs.append(llama_bench(options, model))
        if not turn % 2:
            ours.append(worker.ask(turn=turn))
    closing = worker.ask(parts=True)
    worker.close()
    return {
        "model": str(model),
        "bytes": model.stat().st_size,
        "peak_bytes": closing["peak"],
        "cases": {name: summary(name, ours, theirs, closing["parts"][name]) for name in cases_of(options)},
    }


def summary(
    name: str, ours: list[Message], theirs: list[dict[str, float]], parts: Mapping[str, float]
) -> dict[str, Any]:
    """Summarise one case: rates of both, the ratio of each round, and the parts' shares of the time."""
    ratios = [a[name] / b[name] for a, b in zip(ours, theirs, strict=True)]
    whole = sum(parts.values())
    return {
        "strata": spread([each[name] for each in ours]),
        "llama.cpp": spread([each[name] for each in theirs]),
        "ratios": ratios,
        "ratio": spread(ratios),
        "parts": {part: seconds / whole for part, seconds in parts.items()},
    }


def lines_of(result: dict[str, Any]) -> list[str]:
    """Return the result as a table."""
    parts = list(next(iter(result["races"][0]["cases"].values()))["parts"])
    rows = [("", "strata", "llama.cpp", "ratio", "lowest", "highest", *parts)]
    for each in result["races"]:
        for name, case in each["cases"].items():
            ratio = case["ratio"]
            rows.append(
                (
                    f"{Path(each['model']).name}, {name}",
                    f"{case['strata']['median']:.2f}",
                    f"{case['llama.cpp']['median']:.2f}",
                    f"{ratio['median']:.2f}",
                    f"{ratio['min']:.2f}",
                    f"{ratio['max']:.2f}",
                    *(f"{case['parts'][part]:.0%}" for part in parts),
                )
            )
    head = f"tokens/s, medians of {result['rounds']} rounds, {result['threads']} threads; ratios are paired"
    memory = [
        f"{Path(each['model']).name}: peak memory of strata {each['peak_bytes'] / each['bytes']:.2f} of the file"
        for each in result["races"]
    ]
    return ["", f"{head}; the last columns are parts of strata's time", "", *table(rows), "", *memory]


def main() -> None:
    """Parse the command line; be the parent or the worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="GGUF", help="files that both can read")
    parser.add_argument("--llama-bench", type=Path, required=True, metavar="PATH", help="the peer's program")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="threads of each")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a decode")
    parser.add_argument("--prompt", type=int, default=5, help="tokens of the prompt")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repetitions", type=int, default=3, help="samples in a round, whose median counts")
    parser.add_argument("--seed", type=int, default=0, help="seed of strata's token ids")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--worker", choices=[WORKER], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.threads, options.tokens, options.prompt, options.rounds, options.repetitions) < 1:
        parser.error("all numbers must be at least 1")
    if options.worker:
        run_worker(options)
        return
    for path in (*options.models, options.llama_bench):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    races = [race(options, model) for model in options.models]
    result = {"threads": options.threads, "rounds": options.rounds, "races": races}
    report(result, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
