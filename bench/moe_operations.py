"""The products of the mixture-of-experts block beside llama.cpp's own measurement, `test-backend-ops perf`.

    python bench/moe_operations.py --llama-cpp FOLDER

FOLDER holds llama.cpp's `test-backend-ops` and its libraries (`vs_llama_cpp.py` says how to build them). That program
measures MUL_MAT_ID, one product of the chosen experts, weights as stored; the block is twice the product of 768 x 2048
(gate and up) and one of 2048 x 768 (down), and what lies between is left out. It draws the experts once and repeats the
product, so weights that fit into the caches stay there; it runs on half of the usable CPUs, at least one. The block of
strata is measured in the same way here, whole: 8 experts, all taken by every token, repeated, as many threads. (For
more experts that program encodes random weights for minutes; for one token 8 are the same work as 8 of 128.)

Its measurements take about two seconds each, with those of strata between them. `moe_block.py` compares more fairly.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from blocks import HIDDEN, LAYOUTS, SHAPES, TOP_K, WIDTH, expert_bytes, formats_and_tokens
from common import report, spread
from workers import Worker

from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus


def operation_number(folder: Path) -> int:
    """Return llama.cpp's number of MUL_MAT_ID, which differs between its versions."""
    base: Any = ctypes.CDLL(str(folder / "libggml-base.so"))
    base.ggml_op_name.restype = ctypes.c_char_p
    return next(number for number in range(200) if base.ggml_op_name(number) == b"MUL_MAT_ID")


def operation(number: int, name: str, tokens: int, rows: int, columns: int) -> str:
    """Return a line of test-backend-ops's file: the product of `TOP_K` experts and `tokens` tokens."""
    layout, row = LAYOUTS[name], LAYOUTS[name].matrix_bytes(1, columns)
    inputs = 1 if rows == WIDTH else TOP_K  # gate and up read the token, down what each expert made of it
    weights = (layout.ggml_type, columns, rows, TOP_K, 1, layout.bytes, row, row * rows, row * rows * TOP_K)
    floats = (0, columns, inputs, tokens, 1, 4, 4 * columns, 4 * columns * inputs, 4 * columns * inputs * tokens)
    ids = (26, TOP_K, tokens, 1, 1, 4, 4 * TOP_K, 4 * TOP_K * tokens, 4 * TOP_K * tokens)
    words = (number, 0, rows, TOP_K, tokens, 1, 0, 3, *weights, *floats, *ids, f"rows{rows}")
    return " ".join(map(str, words))


def backend_ops(folder: Path, name: str, tokens: int) -> float:
    """Return the seconds of the block's three products. Raises `SystemExit` when the program does not say them."""
    number = operation_number(folder)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(operation(number, name, tokens, *shape) + "\n" for shape in SHAPES[1:]))
        file.flush()
        command = [str(folder / "test-backend-ops"), "perf", "-b", "CPU", "--test-file", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {int(rows): float(us) for rows, us in re.findall(r"name=rows(\d+),.*?([\d.]+) us/run", done.stdout)}
    if set(found) != {WIDTH, HIDDEN}:
        raise SystemExit(f"{' '.join(command)} said no times:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return (2 * found[WIDTH] + found[HIDDEN]) / 1e6


def compare(options: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """Measure one format beside test-backend-ops: a row per number of tokens."""
    arguments = ["--format", name, "--experts", str(TOP_K), "--threads", str(options.threads)]
    worker = Worker(Path(__file__).with_name("moe_block.py"), "strata", arguments, options.threads)
    rows = []
    for tokens in options.tokens:
        ours, theirs = [], []
        for turn in range(options.rounds + 1):
            theirs.append(backend_ops(options.llama_cpp, name, tokens))
            samples = [worker.ask(tokens=tokens, turn=turn * 100 + each, walk=False)["seconds"] for each in range(10)]
            ours.append(median(samples))
        del ours[0], theirs[0]
        rows.append(
            {
                "format": name,
                "tokens": tokens,
                "bytes": TOP_K * expert_bytes(name),
                "strata_seconds": spread(ours),
                "peer_seconds": spread(theirs),
                "ratio": spread([b / a for a, b in zip(ours, theirs, strict=True)]),
            }
        )
    worker.close()
    return rows


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return the result as a table."""
    rows: list[tuple[str, ...]] = [
        ("format", "tokens", "strata us", "GB/s", "peer us", "GB/s", "peer over strata", "lowest", "highest")
    ]
    for row in result["rows"]:
        cells = []
        for arm in ("strata_seconds", "peer_seconds"):
            seconds = row[arm]["median"]
            cells += [f"{seconds * 1e6:.0f}", f"{row['bytes'] / seconds / 1e9:.1f}"]
        ratio = [f"{row['ratio'][name]:.2f}" for name in ("median", "min", "max")]
        rows.append((row["format"], str(row["tokens"]), *cells, *ratio))
    return ["", f"{TOP_K} experts, {result['threads']} threads, {result['rounds']} rounds", "", *table(rows)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=Path, metavar="FOLDER", required=True, help="where test-backend-ops is")
    parser.add_argument("--formats", default="q4_k,q8_0,iq3_s,bf16,f16", help="comma-separated")
    parser.add_argument("--tokens", default="1,4,5,8,32", help="comma-separated numbers of tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    formats, options.tokens = formats_and_tokens(parser, options)
    options.threads = max(1, usable_cpus() // 2)
    rows = [row for name in formats for row in compare(options, name)]
    result = {"threads": options.threads, "rounds": options.rounds, "rows": rows}
    report(result, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
