"""Log-probabilities of strata and of llama.cpp on one GGUF file, and how far each is from exact arithmetic.

    python bench/vs_llama_logits.py model.gguf --positions 500 --llama-library /path/to/folder/of/libllama.so

Needs llama-cpp-python; `--llama-library` takes another build of llama.cpp than its own. Both read the project's sources
in windows of 500 tokens from the same ids; llama.cpp with keys and values in F32 and without flash attention, which
alone would move its figures by more than the formats do.

Exact is what a file means: its weights in F32, and activations that nothing rounds. So a second file is written with
every tensor dequantised, on which both engines must agree to float rounding. A mixture of experts then turns small
differences into large ones where two experts are nearly equal: the last row lets strata use the experts that llama.cpp
chose, and what remains there is arithmetic alone.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import project_text, report
from f32_twin import write_f32_twin
from numpy.typing import NDArray
from workers import Message, Worker, serve

from strata_runtime.bench.columns import table

WINDOW = 500
BOUND = 2e-2
TOP = 10

Array = NDArray[Any]


@dataclass(frozen=True)
class Run:
    """Rows of log-probabilities [positions, vocabulary], and the experts chosen [layers, positions, top_k]."""

    rows: Array
    experts: Array

    def save(self, path: Path) -> None:
        """Write both."""
        np.savez(path, rows=self.rows, experts=self.experts)

    @staticmethod
    def load(path: Path) -> Run:
        """Read both."""
        with np.load(path) as found:
            return Run(found["rows"], found["experts"])

    @staticmethod
    def joined(runs: Sequence[Run]) -> Run:
        """Put windows one behind another."""
        return Run(np.concatenate([run.rows for run in runs]), np.concatenate([run.experts for run in runs], 1))


def _spread(values: Array) -> list[float]:
    return [float(np.median(values)), float(np.percentile(values, 99)), float(values.max())]


def differences(ours: Run, theirs: Run, following: Array) -> dict[str, Any]:
    """Compare at each position; `following` [positions] holds the tokens that the text goes on with.

    Each difference is given as median, 99th percentile and maximum over positions: that of the token that follows, the
    largest of the ten that `theirs` finds likeliest, and the largest of all.
    """
    far = np.abs(ours.rows - theirs.rows)
    likeliest = np.argpartition(-theirs.rows, TOP, -1)[:, :TOP]
    top = np.take_along_axis(far, likeliest, 1).max(1)
    same = (np.sort(ours.experts, -1) == np.sort(theirs.experts, -1)).all((0, 2))
    return {
        "next": _spread(np.take_along_axis(far, following[:, None], 1)),
        "top10": _spread(top),
        "all": _spread(far.max(1)),
        "top10_over_bound": float((top > BOUND).mean()),
        "top1": float((ours.rows.argmax(-1) == theirs.rows.argmax(-1)).mean()),
        "mean_kl": float((np.exp(theirs.rows) * (theirs.rows - ours.rows)).sum(-1).mean()),
        "same_experts": float(same.mean()),
    }


class Strata:
    """The engine under test, asked for its experts or told them."""

    def __init__(self) -> None:
        from strata_runtime.layers.router import Router

        self._chosen: dict[int, list[Array]] = {}
        self._forced: Array | None = None
        choose: Any = Router.__call__

        def routed(router: Any, buffers: Any) -> Any:
            return self._routed(choose, router, buffers)

        untyped: Any = Router
        untyped.__call__ = routed

    def _routed(self, choose: Any, router: Any, buffers: Any) -> Any:
        import torch

        chosen, rule = self._chosen.setdefault(id(router), []), router._rule
        weights = choose(router, buffers)
        if self._forced is not None:
            layer, start = list(self._chosen).index(id(router)), sum(map(len, chosen))
            wanted = torch.from_numpy(self._forced[layer, start : start + buffers.tokens].astype(np.int64))
            # Scores are at most 1: a larger bias decides which are chosen, and leaves their weights alone.
            biases = torch.zeros(buffers.router.shape).scatter_(1, wanted, 10.0)
            for bias, *row in zip(biases, buffers.router, buffers.expert_ids, weights, strict=True):
                router._compute.choose(replace(rule, bias=bias), *(each[None] for each in row))
        chosen.append(buffers.expert_ids.numpy().copy())
        return weights

    def run(self, model: str, ids: Sequence[int], forced: str | None, **_: Any) -> Run:
        """Read `ids`."""
        from strata_runtime import Engine

        self._chosen.clear()
        self._forced = None if forced is None else Run.load(Path(forced)).experts
        with Engine.load(model, pool_threads=1, report=lambda line: None) as engine:
            rows = np.concatenate(list(engine.logprob_rows(ids)))
        return Run(rows, np.stack([np.concatenate(layer) for layer in self._chosen.values()]))


class Llama:
    """llama.cpp through the C interface that llama-cpp-python declares."""

    def __init__(self, library: Path | None) -> None:
        if library is not None:
            os.environ["LLAMA_CPP_LIB_PATH"] = str(library)
        import ctypes

        llama_cpp: Any = importlib.import_module("llama_cpp")
        self._llama = llama_cpp
        folder = library or Path(llama_cpp.__file__).parent / "lib"
        self._ggml: Any = ctypes.CDLL(str(folder / "libggml-base.so"))
        self._ggml.ggml_get_name.restype = ctypes.c_char_p
        self._ggml.ggml_get_name.argtypes = [ctypes.c_void_p]
        self._ggml.ggml_nbytes.restype = ctypes.c_size_t
        self._ggml.ggml_nbytes.argtypes = [ctypes.c_void_p]
        self._ggml.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2
        self._ranked: dict[int, list[Array]] = {}
        self._silent = llama_cpp.llama_log_callback(lambda *_: None)
        self._watch = llama_cpp.ggml_backend_sched_eval_callback(self._watched)
        llama_cpp.llama_log_set(self._silent, ctypes.c_void_p())
        llama_cpp.llama_backend_init()

    def _watched(self, tensor: int, asks: bool, _: object) -> bool:
        name, _, layer = self._ggml.ggml_get_name(tensor).decode().rpartition("-")
        wanted = bool(name == "ffn_moe_argsort")
        if asks or not wanted:
            return wanted
        raw = np.empty(self._ggml.ggml_nbytes(tensor) // 4, np.int32)
        self._ggml.ggml_backend_tensor_get(tensor, raw.ctypes.data, 0, raw.nbytes)
        self._ranked.setdefault(int(layer), []).append(raw)
        return True

    def _open(self, model: str, tokens: int, batch: int) -> tuple[Any, Any]:
        llama = self._llama
        loaded = llama.llama_model_load_from_file(model.encode(), llama.llama_model_default_params())
        wanted = llama.llama_context_default_params()
        wanted.n_ctx, wanted.n_batch, wanted.n_ubatch = tokens, tokens, batch
        wanted.type_k, wanted.type_v, wanted.flash_attn_type = 0, 0, 0
        wanted.n_threads = wanted.n_threads_batch = 1
        wanted.cb_eval = self._watch
        return loaded, llama.llama_init_from_model(loaded, wanted)

    def run(self, model: str, ids: Sequence[int], top_k: int, batch: int = WINDOW, **_: Any) -> Run:
        """Read `ids`, `batch` tokens in one pass."""
        llama, count = self._llama, len(ids)
        self._ranked.clear()
        loaded, context = self._open(model, count, batch)
        words = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(loaded))
        tokens = llama.llama_batch_init(count, 0, 1)
        tokens.n_tokens = count
        for place, token in enumerate(ids):
            tokens.token[place], tokens.pos[place], tokens.logits[place] = token, place, 1
            tokens.n_seq_id[place], tokens.seq_id[place][0] = 1, 0
        if llama.llama_decode(context, tokens):
            raise SystemExit("llama.cpp failed on these tokens")
        rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, place), (words,)) for place in range(count)]
        logits = np.stack(rows).astype(np.float64)
        llama.llama_batch_free(tokens)
        llama.llama_free(context)
        llama.llama_model_free(loaded)
        logits -= logits.max(-1, keepdims=True)
        layers = [np.concatenate(self._ranked[layer]).reshape(count, -1)[:, :top_k] for layer in sorted(self._ranked)]
        return Run(logits - np.log(np.exp(logits).sum(-1, keepdims=True)), np.stack(layers))


class Comparison:
    """Runs of both engines on windows of the project's text, kept in files of `folder`."""

    def __init__(self, workers: Mapping[str, Worker], ids: Sequence[int], folder: Path) -> None:
        """`ids`: what is read, and one more."""
        self._workers, self._folder, self._following = workers, folder, np.array(ids[1:])
        self._pieces = [ids[start : min(start + WINDOW, len(ids) - 1)] for start in range(0, len(ids) - 1, WINDOW)]

    def run(self, name: str, model: Path, experts_of: str | None = None, **options: Any) -> str:
        """Let the worker that `name` begins with read every piece; returns `name`."""
        for index, piece in enumerate(self._pieces):
            forced = None if experts_of is None else str(self._path(experts_of, index))
            out = str(self._path(name, index))
            self._workers[name.partition(" ")[0]].ask(model=str(model), ids=piece, forced=forced, out=out, **options)
        return name

    def load(self, name: str) -> Run:
        """Return all windows of a run."""
        return Run.joined([Run.load(self._path(name, index)) for index in range(len(self._pieces))])

    def compare(self, ours: str, theirs: str) -> dict[str, Any]:
        """Return the differences of two runs."""
        return differences(self.load(ours), self.load(theirs), self._following)

    def _path(self, name: str, index: int) -> Path:
        return self._folder / f"{name}-{index}.npz"


def measure(comparison: Comparison, model: Path, twin: Path) -> dict[str, Any]:
    """Run and compare everything."""
    top_k = comparison.load(comparison.run("strata", model)).experts.shape[-1]
    llama = comparison.run("llama", model, top_k=top_k)
    again = comparison.run("llama one by one", model, top_k=top_k, batch=1)
    exact = comparison.run("strata exact", twin)
    llama_exact = comparison.run("llama exact", twin, top_k=top_k)
    routed = comparison.run("strata routed", model, experts_of=llama)
    pairs = {
        "strata, llama.cpp": ("strata", llama),
        "strata, exact": ("strata", exact),
        "llama.cpp, exact": (llama, exact),
        "llama.cpp, itself a token a pass": (again, llama),
        "strata, llama.cpp, both on the F32 file": (exact, llama_exact),
        "strata with llama.cpp's experts, llama.cpp": (routed, llama),
    }
    return {name: comparison.compare(*pair) for name, pair in pairs.items()}


def be_worker(name: str, library: Path | None) -> None:
    """Answer with runs, written to the file that a message names."""
    engine: Strata | Llama = Strata() if name == "strata" else Llama(library)

    def answer(message: Message) -> Message:
        out = Path(message.pop("out"))
        engine.run(**message).save(out)
        return {}

    serve(answer)


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return the table."""
    head = ("between", "token that follows", "ten likeliest", "all", f"over {BOUND}", "top-1", "mean KL", "experts")
    rows: list[tuple[str, ...]] = [head]
    for name, found in result.items():
        spreads = ["/".join(f"{value:.1e}" for value in found[what]) for what in ("next", "top10", "all")]
        shares = [f"{found[what]:.2%}" for what in ("top10_over_bound", "top1")]
        rows.append((name, *spreads, *shares, f"{found['mean_kl']:.1e}", f"{found['same_experts']:.2%}"))
    explained = "differences as median/99%/maximum over positions; experts: positions with the same ones in every layer"
    return ["", *table(rows), "", explained]


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file with a mixture of experts and a tokenizer")
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--llama-library", type=Path, help="folder of libllama.so; default: llama-cpp-python's own")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--worker", choices=("strata", "llama"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        be_worker(options.worker, options.llama_library)
        return
    from strata_runtime.text.source import open_text

    ids = open_text(options.model).require_tokenizer().encode(project_text())
    words = [] if options.llama_library is None else ["--llama-library", str(options.llama_library)]
    arguments = [str(options.model), *words]
    with TemporaryDirectory() as made:
        twin = write_f32_twin(options.model, Path(made) / "exact.gguf")
        workers = {name: Worker(Path(__file__), name, arguments, threads=1) for name in ("strata", "llama")}
        try:
            comparison = Comparison(workers, ids[: options.positions + 1], Path(made))
            result = measure(comparison, options.model, twin)
        finally:
            for worker in workers.values():
                worker.close()
    report({"pairs": result}, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
