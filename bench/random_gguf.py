"""Write a GGUF file of Qwen3-30B-A3B's shape with random weights, for measurements of speed.

    python bench/random_gguf.py OUT.gguf [--layers 48] [--format q4_k] [--context 131072]

Tokens choose different experts: the values of every matrix have a mean of zero, as all outputs of a product would
share the sum of its inputs otherwise, and embeddings are large beside what attention adds, which is much the same for
all tokens of a window. Random bits are drawn on a GPU where
there is one. Routed experts have the format asked for, everything else Q4_K but the head, which is Q6_K.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

HIDDEN, HEADS, KV_HEADS, HEAD, VOCAB = 2048, 32, 4, 128, 151936
EXPERTS, TOP_K, WIDTH = 128, 8, 768
STD, EMBEDDING_STD = 0.02, 1.0

Bytes = NDArray[np.uint8]


def _halves(values: NDArray[np.floating[Any]]) -> Bytes:
    return values.astype(np.float16)[:, None].view(np.uint8)


def _q4_k(blocks: Bytes, scale: NDArray[np.floating[Any]]) -> None:
    blocks[:, 0:2] = _halves(scale / 600)
    # Minima take off what 4 bits have in the mean, as scales and minima are equally distributed.
    blocks[:, 2:4] = _halves(scale / 600 * 7.5)


def _at(offset: int, divisor: float) -> Callable[[Bytes, NDArray[np.floating[Any]]], None]:
    def fill(blocks: Bytes, scale: NDArray[np.floating[Any]]) -> None:
        blocks[:, offset : offset + 2] = _halves(scale / divisor)

    return fill


SCALES: Mapping[Type, Callable[[Bytes, NDArray[np.floating[Any]]], None]] = {
    Type.Q4_K: _q4_k,
    Type.Q6_K: _at(208, 1400),
    Type.Q8_0: _at(0, 74),
    Type.IQ3_S: _at(0, 250),
}
"""What writes a block's scale, so that values have about the standard deviation asked for; other bits are random."""


def random_matrix(kind: Type, shape: tuple[int, ...], rng: np.random.Generator, std: float = STD) -> Bytes:
    """Return rows of blocks, uint8 [..., bytes of a row]."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    count = int(np.prod(shape)) // values
    where = "cuda" if torch.cuda.is_available() else "cpu"
    raw: Bytes = torch.randint(0, 256, (count * size,), dtype=torch.uint8, device=where).cpu().numpy()
    blocks = raw.reshape(count, size)
    SCALES[kind](blocks, std * rng.uniform(0.5, 1.5, count))
    return raw.reshape(*shape[:-1], shape[-1] // values * size)


def write(path: Path, layers: int, experts: Type, context: int) -> None:
    """Write the file."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    writer = gguf.GGUFWriter(path, "qwen3moe")
    writer.add_context_length(context)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(TOP_K)
    writer.add_expert_feed_forward_length(WIDTH)
    writer.add_vocab_size(VOCAB)
    writer.add_file_type(15)
    writer.add_tokenizer_model("none")

    def matrix(name: str, kind: Type, *shape: int, std: float = STD) -> None:
        writer.add_tensor(name, random_matrix(kind, shape, rng, std), raw_dtype=kind)

    def norm(name: str, size: int) -> None:
        writer.add_tensor(name, np.ones(size, np.float32))

    matrix("token_embd.weight", Type.Q4_K, VOCAB, HIDDEN, std=EMBEDDING_STD)
    norm("output_norm.weight", HIDDEN)
    matrix("output.weight", Type.Q6_K, VOCAB, HIDDEN)
    for layer in range(layers):
        at = f"blk.{layer}."
        for name, size in (("attn", HIDDEN), ("ffn", HIDDEN), ("attn_q", HEAD), ("attn_k", HEAD)):
            norm(f"{at}{name}_norm.weight", size)
        matrix(f"{at}attn_q.weight", Type.Q4_K, HEADS * HEAD, HIDDEN)
        matrix(f"{at}attn_k.weight", Type.Q4_K, KV_HEADS * HEAD, HIDDEN)
        matrix(f"{at}attn_v.weight", Type.Q4_K, KV_HEADS * HEAD, HIDDEN)
        matrix(f"{at}attn_output.weight", Type.Q4_K, HIDDEN, HEADS * HEAD)
        router = rng.standard_normal((EXPERTS, HIDDEN), np.float32) * np.float32(STD)
        writer.add_tensor(f"{at}ffn_gate_inp.weight", router)
        matrix(f"{at}ffn_gate_exps.weight", experts, EXPERTS, WIDTH, HIDDEN)
        matrix(f"{at}ffn_up_exps.weight", experts, EXPERTS, WIDTH, HIDDEN)
        matrix(f"{at}ffn_down_exps.weight", experts, EXPERTS, HIDDEN, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--format", choices=("q4_k", "q8_0", "iq3_s"), default="q4_k", help="of the routed experts")
    parser.add_argument("--context", type=int, default=131072, help="positions that the file claims to know")
    options = parser.parse_args()
    write(options.out, options.layers, Type[options.format.upper()], options.context)
    print(f"{options.out}: {options.out.stat().st_size / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
