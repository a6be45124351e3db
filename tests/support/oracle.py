"""transformers in float32, as the oracle of logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging


@torch.inference_mode()
def expected_logprobs(folder: Path, ids: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the next token after each of `ids`, [tokens, vocab_size]."""
    untyped: Any = logging
    untyped.set_verbosity_error()
    untyped.disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    logits: torch.Tensor = model(ids[None]).logits[0]
    return logits.log_softmax(-1)
