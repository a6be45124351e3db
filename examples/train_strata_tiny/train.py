"""The training loop: AdamW, warm-up, steady, then linear decay; expert loads evened by the router's bias."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from train_strata_tiny.config import TinyConfig
from train_strata_tiny.model import TinyModel

WARM_UP_STEPS = 300
DECAY_FROM = 0.6
LAST_RATE = 0.02
FINE_BALANCE_FROM = 0.8
BALANCE_STEP, FINE_BALANCE_STEP = 1e-3, 1e-4
EXTRA_LOSS_WEIGHT = 0.3
WEIGHT_DECAY = 0.1
HELD_OUT_BATCH = 8


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast: training ends at `seconds` or `steps`, whichever comes first."""

    seconds: float
    steps: int
    batch_size: int
    peak_rate: float
    log_every: int = 200

    def progress(self, step: int, elapsed: float) -> float:
        """Return how much of the training is done, 0 to 1 and beyond."""
        return max(elapsed / self.seconds, step / self.steps)

    def rate(self, step: int, progress: float) -> float:
        """Return the learning rate of a step."""
        decay = 1.0 if progress < DECAY_FROM else max(LAST_RATE, (1 - progress) / (1 - DECAY_FROM))
        warm_up = min(WARM_UP_STEPS, max(1, self.steps // 10))
        return self.peak_rate * min(1.0, (step + 1) / warm_up) * decay


def train(
    config: TinyConfig,
    tokens: Tensor,
    held_out: Tensor,
    schedule: Schedule,
    device: torch.device,
    log: Callable[[str], None],
    seed: int = 0,
) -> TinyModel:
    """Train a model on a stream of token ids, int32 `[tokens]`. Both streams must be longer than the context."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    model = TinyModel(config).to(device)
    log(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.1f} M parameters on {device}")
    optimizer = _optimizer(model, device)
    draws = torch.Generator(device=device).manual_seed(seed + 1)
    tokens = tokens.to(device)
    step, start = 0, time.monotonic()
    model.train()
    while (progress := schedule.progress(step, time.monotonic() - start)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step, progress)
        losses = _step(model, optimizer, _draw(tokens, config.context, schedule.batch_size, draws))
        _balance(model, BALANCE_STEP if progress < FINE_BALANCE_FROM else FINE_BALANCE_STEP)
        step += 1
        if step == 1 or step % schedule.log_every == 0:
            speed = step * schedule.batch_size * config.context / (time.monotonic() - start)
            log(f"step {step}: loss {losses[0]:.3f}, extra layer {losses[1]:.3f}, {speed:,.0f} tokens/s")
    main, extra = evaluate(model, held_out, batches=48)
    log(f"held out after {step} steps: loss {main:.3f}, extra layer {extra:.3f} nats a token")
    return model


def evaluate(model: TinyModel, held_out: Tensor, batches: int) -> tuple[float, float]:
    """Return both losses (nats a token) as means over windows spread evenly through the held-out stream."""
    window = model.config.context + 1
    device = model.embedding.weight.device
    starts = torch.linspace(0, len(held_out) - window, batches * HELD_OUT_BATCH).long()
    was_training = model.training
    model.eval()
    losses = []
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        for part in starts.view(batches, HELD_OUT_BATCH):
            ids = _windows(held_out, part, window).to(device)
            losses.append(torch.stack(model.losses(ids)))
    model.train(was_training)
    main, extra = torch.stack(losses).mean(0).tolist()
    return main, extra


def _optimizer(model: TinyModel, device: torch.device) -> torch.optim.AdamW:
    parameters = list(model.parameters())
    groups = [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), fused=device.type == "cuda")


def _windows(tokens: Tensor, starts: Tensor, size: int) -> Tensor:
    return tokens[starts[:, None] + torch.arange(size, device=tokens.device)].long()


def _draw(tokens: Tensor, context: int, batch_size: int, draws: torch.Generator) -> Tensor:
    starts = torch.randint(0, len(tokens) - context, (batch_size,), device=tokens.device, generator=draws)
    return _windows(tokens, starts, context + 1)


def _step(model: TinyModel, optimizer: torch.optim.AdamW, ids: Tensor) -> tuple[float, float]:
    with torch.autocast(ids.device.type, dtype=torch.bfloat16):
        main, extra = model.losses(ids)
    (main + EXTRA_LOSS_WEIGHT * extra).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return main.item(), extra.item()


@torch.no_grad()
def _balance(model: TinyModel, size: float) -> None:
    """Raise the bias of experts with less than the mean load, lower the others'."""
    for mixture in model.mixtures():
        mixture.bias += size * torch.sign(mixture.load.mean() - mixture.load)
        mixture.bias -= mixture.bias.mean()
