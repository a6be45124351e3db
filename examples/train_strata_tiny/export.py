"""Writes the trained network as a checkpoint folder that transformers and strata load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from train_strata_tiny.layers import Attention, MixtureOfExperts
from train_strata_tiny.model import Block, TinyModel
from train_strata_tiny.tokenizer import tokenizer_config

_ATTENTION_PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
_MLP_PARTS = ("gate_proj", "up_proj", "down_proj")


def export(model: TinyModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write `config.json`, `model.safetensors`, `tokenizer.json` and `tokenizer_config.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.checkpoint_config()
    save_file(dict(checkpoint_tensors(model)), folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(folder / "tokenizer_config.json", tokenizer_config(8 * model.config.context))
    tokenizer.save(str(folder / "tokenizer.json"))


def checkpoint_tensors(model: TinyModel) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) of everything stored: bfloat16, but float32 for routers and their biases.

    The multi-token-prediction layer goes where GLM-4-MoE has it: as the layer after the last.
    """
    yield "model.embed_tokens.weight", _bfloat16(model.embedding.weight)
    yield "model.norm.weight", _bfloat16(model.norm.weight)
    for index, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        yield from _block_tensors(f"model.layers.{index}", block)
    extra = f"model.layers.{model.config.layers}"
    yield from _block_tensors(extra, model.mtp_block)
    yield f"{extra}.enorm.weight", _bfloat16(model.mtp_embedding_norm.weight)
    yield f"{extra}.hnorm.weight", _bfloat16(model.mtp_hidden_norm.weight)
    yield f"{extra}.eh_proj.weight", _bfloat16(model.mtp_project.weight)
    yield f"{extra}.shared_head.norm.weight", _bfloat16(model.mtp_norm.weight)


def _block_tensors(prefix: str, block: Block) -> Iterator[tuple[str, Tensor]]:
    yield from _parts(f"{prefix}.self_attn", block.self_attn, _ATTENTION_PARTS)
    yield from _parts(prefix, block, ("input_layernorm", "post_attention_layernorm"))
    if isinstance(block.mlp, MixtureOfExperts):
        yield from _mixture_tensors(f"{prefix}.mlp", block.mlp)
    else:
        yield from _parts(f"{prefix}.mlp", block.mlp, _MLP_PARTS)


def _mixture_tensors(prefix: str, mixture: MixtureOfExperts) -> Iterator[tuple[str, Tensor]]:
    yield f"{prefix}.gate.weight", _float32(mixture.router)
    yield f"{prefix}.gate.e_score_correction_bias", _float32(mixture.bias)
    for index, (gate_up, down) in enumerate(zip(mixture.gate_up, mixture.down, strict=True)):
        gate, up = gate_up.chunk(2)
        for part, weight in zip(_MLP_PARTS, (gate, up, down), strict=True):
            yield f"{prefix}.experts.{index}.{part}.weight", _bfloat16(weight)
    yield from _parts(f"{prefix}.shared_experts", mixture.shared, _MLP_PARTS)


def _parts(prefix: str, module: Attention | nn.Module, names: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    for name in names:
        yield f"{prefix}.{name}.weight", _bfloat16(module.get_parameter(f"{name}.weight"))


def _bfloat16(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.bfloat16).contiguous()


def _float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


def _write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
