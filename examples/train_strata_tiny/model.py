"""The training network: a lean twin of transformers' `Glm4MoeForCausalLM` with a multi-token-prediction layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from train_strata_tiny.config import TinyConfig
from train_strata_tiny.layers import Attention, GatedMLP, MixtureOfExperts, RMSNorm, RotaryTable, rotary_table

INITIAL_STD = 0.02


class Block(nn.Module):
    """Attention and MLP, each with a norm before and a residual around."""

    def __init__(self, config: TinyConfig, *, dense: bool) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = GatedMLP(config.hidden_size, config.dense_width) if dense else MixtureOfExperts(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.norm_eps)

    def forward(self, x: Tensor, table: RotaryTable) -> Tensor:
        """Map `[B, T, H]` to `[B, T, H]`."""
        x = x + self.self_attn(self.input_layernorm(x), table)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


class TinyModel(nn.Module):
    """Embedding (also the output head), blocks, final norm, and the layer that predicts one token further."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        hidden, eps = config.hidden_size, config.norm_eps
        self.embedding = nn.Embedding(config.vocab_size, hidden)
        self.blocks = nn.ModuleList([Block(config, dense=index == 0) for index in range(config.layers)])
        self.norm = RMSNorm(hidden, eps)
        self.mtp_embedding_norm = RMSNorm(hidden, eps)
        self.mtp_hidden_norm = RMSNorm(hidden, eps)
        self.mtp_project = nn.Linear(2 * hidden, hidden, bias=False)
        self.mtp_block = Block(config, dense=False)
        self.mtp_norm = RMSNorm(hidden, eps)
        self._initialise()

    def _initialise(self) -> None:
        """Draw matrices from a normal; those that write to the residual are smaller, so that its variance stays."""
        residual_std = INITIAL_STD / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                writes_residual = name.endswith(("o_proj.weight", "down_proj.weight", "mlp.down"))
                nn.init.normal_(parameter, std=residual_std if writes_residual else INITIAL_STD)

    def hidden_states(self, ids: Tensor, table: RotaryTable) -> Tensor:
        """Return the states after the final norm, `[B, T, H]`, of token ids `[B, T]`."""
        x = self.embedding(ids)
        if ids.device.type == "cuda":
            x = x.bfloat16()
        for block in self.blocks:
            x = block(x, table)
        normed: Tensor = self.norm(x)
        return normed

    def losses(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the next token and of the one after it (nats), for `ids` `[B, T + 1]`."""
        inputs = ids[:, :-1]
        cos, sin = rotary_table(self.config, inputs.shape[1], ids.device)
        hidden = self.hidden_states(inputs, (cos, sin))
        # At position i the extra layer sees the hidden state of i and the token i + 1, and names the token i + 2.
        following = self.embedding(inputs[:, 1:]).to(hidden.dtype)
        pair = torch.cat([self.mtp_embedding_norm(following), self.mtp_hidden_norm(hidden[:, :-1])], -1)
        further = self.mtp_norm(self.mtp_block(self.mtp_project(pair), (cos[:-1], sin[:-1])))
        return self._cross_entropy(hidden, ids[:, 1:]), self._cross_entropy(further, ids[:, 2:])

    def _cross_entropy(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = functional.linear(hidden, self.embedding.weight).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def mixtures(self) -> list[MixtureOfExperts]:
        """Return every mixture-of-experts layer."""
        return [module for module in self.modules() if isinstance(module, MixtureOfExperts)]
