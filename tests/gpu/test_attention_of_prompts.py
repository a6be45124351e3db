"""Attention of prompts is a library's: by the one whose first call is dear only where shapes come again."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from strata_runtime.device import compute

HEADS, KV_HEADS, DIM = 4, 2, 16


@pytest.mark.parametrize(("tokens", "plans"), [(512, True), (1024, True), (9, False), (513, False)])
def test_only_whole_chunks_are_for_a_library_that_plans(
    monkeypatch: pytest.MonkeyPatch, tokens: int, plans: bool
) -> None:
    seen: list[bool] = []
    real = compute.scaled_dot_product_attention

    def look(*args: Any, **more: Any) -> torch.Tensor:
        seen.append(torch.backends.cuda.cudnn_sdp_enabled())
        return real(*args, **more)

    monkeypatch.setattr(compute, "scaled_dot_product_attention", look)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(tokens, HEADS * DIM, generator=generator)
    data = torch.randn(2, KV_HEADS, tokens, DIM, generator=generator)
    out = torch.empty(tokens, HEADS * DIM)
    compute._attend_many((HEADS, KV_HEADS, DIM), queries, out, data)
    assert seen == [plans and before]
    assert torch.backends.cuda.cudnn_sdp_enabled() is before
    keys, values = (each.repeat_interleave(HEADS // KV_HEADS, 0).double() for each in data)
    scores = queries.view(tokens, HEADS, DIM).transpose(0, 1).double() @ keys.transpose(1, 2)
    masked = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -torch.inf)
    expected = (masked.softmax(-1) @ values).transpose(0, 1).reshape(tokens, -1)
    assert float((out - expected).abs().max()) < 1e-4
