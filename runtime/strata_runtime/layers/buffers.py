"""Activations of one pass, allocated once per number of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.network import Network

WINDOW = 8
"""Up to so many tokens, buffers are kept for every number of tokens, and each token's bits are those it has alone."""


@dataclass(frozen=True, slots=True)
class HeadRows:
    """Heads that are normalised and rotated together: [tokens, heads, head_dim], and its rotated part in halves."""

    heads: torch.Tensor
    rotated: torch.Tensor


@dataclass(frozen=True, slots=True)
class TokenHeads:
    """One token's part of `q_heads` and of `attended_heads`, [kv_heads, group, head_dim]."""

    queries: torch.Tensor
    attended: torch.Tensor


@dataclass(frozen=True, slots=True)
class Buffers:
    """Everything that a layer writes. Contiguous float32 [tokens, ...] where nothing else is said.

    `q`, `k`, `v` lie in this order in one block of memory. `q_rows` and `k_rows` are views of it, for a single token
    `qk_rows` is both of them; `q_heads` [kv_heads, group, tokens, head_dim] and `kv_heads` [2, kv_heads, tokens,
    head_dim] are strided ones. `attended_heads` is `attended` in the order of `q_heads`; `few` holds both token by
    token, and nothing beyond `WINDOW` tokens.
    `gate` and `up` hold `mlp_width` values per token; a narrower layer uses their begin.
    """

    tokens: int
    few: tuple[TokenHeads, ...]
    hidden: torch.Tensor
    normed: torch.Tensor
    added: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    q_rows: HeadRows
    k_rows: HeadRows
    qk_rows: HeadRows | None
    q_heads: torch.Tensor
    kv_heads: torch.Tensor
    attended: torch.Tensor
    attended_heads: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    router: torch.Tensor
    expert_ids: torch.Tensor
    expert_rows: torch.Tensor


def _head_rows(flat: torch.Tensor, tokens: int, network: Network) -> HeadRows:
    heads = flat.view(tokens, -1, network.head_dim)
    rotated = heads[..., : network.rope_dim].view(tokens, heads.shape[1], 2, network.rope_dim // 2)
    return HeadRows(heads, rotated)


def make_buffers(network: Network, mlp_width: int, tokens: int) -> Buffers:
    """Allocate the buffers of a pass over `tokens` tokens (at least 1)."""
    hidden, dim = network.hidden_size, network.head_dim
    q_size, k_size = tokens * network.heads * dim, tokens * network.kv_heads * dim
    qkv, attended = torch.empty(q_size + 2 * k_size), torch.empty(tokens, network.heads * dim)
    q_heads = qkv[:q_size].view(tokens, network.kv_heads, network.group, dim).permute(1, 2, 0, 3)
    attended_heads = attended.view(tokens, network.kv_heads, network.group, dim).permute(1, 2, 0, 3)
    q, k, v = qkv[:q_size], qkv[q_size : q_size + k_size], qkv[q_size + k_size :]
    few = tuple(map(TokenHeads, q_heads.unbind(2), attended_heads.unbind(2))) if tokens <= WINDOW else ()
    return Buffers(
        tokens=tokens,
        few=few,
        hidden=torch.empty(tokens, hidden),
        normed=torch.empty(tokens, hidden),
        added=torch.empty(tokens, hidden),
        q=q.view(tokens, -1),
        k=k.view(tokens, -1),
        v=v.view(tokens, -1),
        q_rows=_head_rows(q, tokens, network),
        k_rows=_head_rows(k, tokens, network),
        qk_rows=_head_rows(qkv[: q_size + k_size], tokens, network) if tokens == 1 else None,
        q_heads=q_heads,
        kv_heads=qkv[q_size:].view(2, tokens, network.kv_heads, dim).transpose(1, 2),
        attended=attended,
        attended_heads=attended_heads,
        gate=torch.empty(tokens * mlp_width),
        up=torch.empty(tokens * mlp_width),
        router=torch.empty(tokens, network.experts),
        expert_ids=torch.empty(tokens, network.top_k, dtype=torch.int32),
        expert_rows=torch.empty(tokens * network.top_k, hidden),
    )


class Workspace:
    """Buffers by number of tokens: kept for each up to `WINDOW`, and for the last larger one. For one thread."""

    __slots__ = ("_large", "_mlp_width", "_network", "_small")

    def __init__(self, network: Network, mlp_width: int) -> None:
        """`mlp_width`: the widest of the dense and shared MLPs."""
        self._network, self._mlp_width = network, mlp_width
        self._small: dict[int, Buffers] = {}
        self._large: Buffers | None = None

    def buffers(self, tokens: int) -> Buffers:
        """Return the buffers of a pass; what is in them is undefined."""
        if tokens <= WINDOW:
            if tokens not in self._small:
                self._small[tokens] = make_buffers(self._network, self._mlp_width, tokens)
            return self._small[tokens]
        if self._large is None or self._large.tokens != tokens:
            self._large = None  # so that the old ones are gone before the new ones come
            self._large = make_buffers(self._network, self._mlp_width, tokens)
        return self._large
