"""The mixture-of-experts block of peers, as workers of `moe_block.py`. Needs numpy and the peer, nothing of strata.

python moe_peers.py --worker llama.cpp --library FOLDER    # libggml-base.so and libggml-cpu.so
python moe_peers.py --worker kt-kernel --threads 2         # in an environment that has kt-kernel
"""

from __future__ import annotations

import argparse
import ctypes
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from blocks import HIDDEN, LAYOUTS, MOST_TOKENS, SHAPES, TOP_K, WIDTH, Call, calls_of, expert_weights
from numpy.typing import NDArray
from workers import Message, serve

Floats = NDArray[np.float32]


class Block(Protocol):
    """The experts of one layer."""

    note: str

    def prepare(self, call: Call) -> Any:
        """Put inputs where the block wants them."""
        ...

    def run(self, prepared: Any) -> None:
        """Compute the weighted sum of the chosen experts."""
        ...

    def result(self, prepared: Any) -> Floats:
        """Return what `run` computed, [tokens, HIDDEN]."""
        ...


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class Ggml:
    """llama.cpp's graph of the block on its CPU backend, weights repacked where it would repack them."""

    _POINTERS = (
        "ggml_init ggml_new_tensor_2d ggml_new_tensor_3d ggml_mul_mat_id ggml_swiglu_split ggml_mul ggml_add "
        "ggml_view_2d ggml_cont ggml_new_graph ggml_backend_alloc_ctx_tensors ggml_backend_alloc_ctx_tensors_from_buft "
        "ggml_backend_get_device ggml_backend_dev_backend_reg ggml_backend_reg_get_proc_address "
        "ggml_backend_get_default_buffer_type"
    )

    def __init__(self, library: Path, threads: int, name: str, experts: int) -> None:
        self._base: Any = ctypes.CDLL(str(library / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self._cpu: Any = ctypes.CDLL(str(library / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        for function in self._POINTERS.split():
            getattr(self._base, function).restype = ctypes.c_void_p
        self._base.ggml_nbytes.restype = self._base.ggml_row_size.restype = ctypes.c_size_t
        self._base.ggml_backend_buft_name.restype = ctypes.c_char_p
        self._base.ggml_backend_dev_supports_op.restype = ctypes.c_bool
        self._cpu.ggml_backend_cpu_init.restype = ctypes.c_void_p
        self._backend = ctypes.c_void_p(self._cpu.ggml_backend_cpu_init())
        self._cpu.ggml_backend_cpu_set_n_threads(self._backend, threads)
        self._experts, self._type = experts, LAYOUTS[name].ggml_type
        repacked = self._extra_buffer()
        loaded = self._load(name, repacked) if repacked else None
        self.note = "as stored" if loaded is None else "repacked"
        self._weights = loaded or self._load(name, None) or []
        self._graphs: dict[int, tuple[Any, ...]] = {}

    def _context(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._base.ggml_init(_InitParams(16 << 20, None, True)))

    def _tensor(self, context: Any, type_: int, *shape: int) -> ctypes.c_void_p:
        sizes = (*map(ctypes.c_int64, shape),)
        function = getattr(self._base, f"ggml_new_tensor_{len(shape)}d")
        return ctypes.c_void_p(function(context, type_, *sizes))

    def _extra_buffer(self) -> ctypes.c_void_p | None:
        device = ctypes.c_void_p(self._base.ggml_backend_get_device(self._backend))
        registry = ctypes.c_void_p(self._base.ggml_backend_dev_backend_reg(device))
        address = self._base.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        if not address:
            return None
        list_them = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)
        found = list_them(device)
        index = 0
        while found and found[index]:
            kind = ctypes.c_void_p(found[index])
            if self._base.ggml_backend_buft_name(kind) == b"CPU_REPACK":
                return kind
            index += 1
        return None

    def _load(self, name: str, kind: ctypes.c_void_p | None) -> list[ctypes.c_void_p] | None:
        """Load into buffers of `kind`, or into plain ones; None when the block cannot be computed from there."""
        base, context = self._base, self._context()
        tensors = [self._tensor(context, self._type, columns, rows, self._experts) for rows, columns in SHAPES]
        if kind is None:
            base.ggml_backend_alloc_ctx_tensors(context, self._backend)
        else:
            base.ggml_backend_alloc_ctx_tensors_from_buft(context, kind)
            device = ctypes.c_void_p(base.ggml_backend_get_device(self._backend))
            x, ids = self._tensor(context, 0, HIDDEN, 1, 1), self._tensor(context, 26, TOP_K, 1)
            product = ctypes.c_void_p(base.ggml_mul_mat_id(context, tensors[0], x, ids))
            if not base.ggml_backend_dev_supports_op(device, product):
                return None
        for tensor, matrices in zip(tensors, expert_weights(name, self._experts), strict=True):
            base.ggml_backend_tensor_set(
                tensor, ctypes.c_void_p(matrices.ctypes.data), ctypes.c_size_t(0), ctypes.c_size_t(matrices.nbytes)
            )
        return tensors

    def _graph(self, tokens: int) -> tuple[Any, ...]:
        base, context, (gate, up, down) = self._base, self._context(), self._weights
        x, ids = self._tensor(context, 0, HIDDEN, 1, tokens), self._tensor(context, 26, TOP_K, tokens)
        weights = self._tensor(context, 0, 1, TOP_K, tokens)

        def op(name: str, *inputs: Any) -> ctypes.c_void_p:
            return ctypes.c_void_p(getattr(base, f"ggml_{name}")(context, *inputs))

        middle = op("swiglu_split", op("mul_mat_id", gate, x, ids), op("mul_mat_id", up, x, ids))
        rows = op("mul", op("mul_mat_id", down, middle, ids), weights)
        step = HIDDEN * 4

        def rank(k: int) -> ctypes.c_void_p:
            size, stride = (ctypes.c_int64(HIDDEN), ctypes.c_int64(tokens)), ctypes.c_size_t(TOP_K * step)
            return op("view_2d", rows, *size, stride, ctypes.c_size_t(k * step))

        total = op("add", rank(0), rank(1))
        for k in range(2, TOP_K):
            total = op("add", total, rank(k))
        graph = op("new_graph")
        base.ggml_build_forward_expand(graph, total)
        base.ggml_backend_alloc_ctx_tensors(context, self._backend)
        return graph, total, x, ids, weights

    def prepare(self, call: Call) -> Any:
        """See `Block`."""
        tokens = len(call.x)
        if tokens not in self._graphs:
            self._graphs[tokens] = self._graph(tokens)
        return tokens, call

    def run(self, prepared: Any) -> None:
        """See `Block`. Setting the inputs is part of it: some ten kilobytes per token."""
        tokens, call = prepared
        graph, _, *inputs = self._graphs[tokens]
        for tensor, array in zip(inputs, (call.x, call.ids, call.weights), strict=True):
            self._base.ggml_backend_tensor_set(
                tensor, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(0), ctypes.c_size_t(array.nbytes)
            )
        if self._base.ggml_backend_graph_compute(self._backend, graph):
            raise RuntimeError("the graph was not computed")

    def result(self, prepared: Any) -> Floats:
        """See `Block`."""
        out = np.empty((prepared[0], HIDDEN), np.float32)
        total = self._graphs[prepared[0]][1]
        self._base.ggml_backend_tensor_get(
            total, ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(0), ctypes.c_size_t(out.nbytes)
        )
        return out


class KtKernel:
    """kt-kernel's CPU experts: its own BF16 kernels for BF16, its GGUF path for all other formats."""

    def __init__(self, threads: int, name: str, experts: int) -> None:
        torch, kt_kernel = import_module("torch"), import_module("kt_kernel")
        extension: Any = kt_kernel.kt_kernel_ext
        self._torch: Any = torch
        workers = extension.WorkerPoolConfig()
        workers.subpool_count, workers.subpool_numa_map, workers.subpool_thread_count = 1, [0], [threads]
        self._cpu = extension.CPUInfer(workers)
        self._on_gpu = torch.zeros(experts, dtype=torch.bool)
        config = extension.moe.MOEConfig(experts, TOP_K, HIDDEN, WIDTH, self._on_gpu.data_ptr())
        config.pool = self._cpu.backend_
        config.layer_idx = 0
        config.max_len = config.group_max_len = MOST_TOKENS
        config.m_block, config.group_min_len = 32, 10  # as its own loader sets them
        config.gate_type = config.up_type = config.down_type = LAYOUTS[name].ggml_type
        config.hidden_type = LAYOUTS["bf16"].ggml_type
        self._weights = matrices = expert_weights(name, experts)  # the GGUF path computes from these
        if name == "bf16":
            addresses = [[each.ctypes.data + index * each[0].nbytes for index in range(experts)] for each in matrices]
            config.gate_projs, config.up_projs, config.down_projs = ([part] for part in addresses)
            self._moe = extension.moe.AMXBF16_MOE(config)
        else:
            config.gate_proj, config.up_proj, config.down_proj = (each.ctypes.data for each in matrices)
            self._moe = extension.moe.MOE(config)
        order = torch.arange(experts)
        self._cpu.submit(self._moe.load_weights_task(order.data_ptr()))
        self._cpu.sync()
        self.note = f"{kt_kernel.__cpu_variant__}, {'BF16 kernels' if name == 'bf16' else 'GGUF path'}"

    def prepare(self, call: Call) -> Any:
        """See `Block`."""
        torch = self._torch
        count = torch.tensor([len(call.x)], dtype=torch.int32)
        x, ids = torch.from_numpy(call.x).bfloat16(), torch.from_numpy(call.ids).long()
        return count, ids, torch.from_numpy(call.weights), x, torch.zeros_like(x)

    def run(self, prepared: Any) -> None:
        """See `Block`."""
        count, *others = prepared
        addresses = (each.data_ptr() for each in others)
        self._cpu.submit(self._moe.forward_task(count.data_ptr(), TOP_K, *addresses, False))
        self._cpu.sync()

    def result(self, prepared: Any) -> Floats:
        """See `Block`."""
        out: Floats = prepared[-1].float().numpy()
        return out


def answer_with(block: Block, experts: int, message: Message) -> Message:
    """Time the calls of {tokens, turn, walk}: seconds of one, and the first call's first row."""
    calls = [
        block.prepare(call) for call in calls_of(message["tokens"], experts, message["turn"], walk=message["walk"])
    ]
    started = time.perf_counter()
    for call in calls:
        block.run(call)
    seconds = (time.perf_counter() - started) / len(calls)
    block.run(calls[0])
    return {"seconds": seconds, "row": block.result(calls[0])[0].tolist(), "note": block.note}


def main() -> None:
    """Be a worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", choices=["llama.cpp", "kt-kernel"], required=True)
    parser.add_argument("--library", type=Path, metavar="FOLDER", help="where llama.cpp's libraries are")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--format", choices=LAYOUTS, default="q4_k")
    parser.add_argument("--experts", type=int, default=128)
    options = parser.parse_args()

    @cache
    def block() -> Block:  # made with the first message: what the peer prints must not be among the answers
        if options.worker == "llama.cpp":
            return Ggml(options.library, options.threads, options.format, options.experts)
        return KtKernel(options.threads, options.format, options.experts)

    serve(lambda message: answer_with(block(), options.experts, message))


if __name__ == "__main__":
    main()
