"""What is said when the memory of a GPU is not enough."""

from __future__ import annotations

import pytest
import torch

from strata_runtime.device.budget import slots_beside_prompts, slots_that_fit
from strata_runtime.device.shortage import told_what_to_lower
from strata_runtime.errors import UserError

GIB = 1 << 30


def test_it_names_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (GIB, 10 * GIB))
    with pytest.raises(UserError) as said, told_what_to_lower("a pass of 512 tokens"):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    text = str(said.value)
    assert text.startswith(
        "the GPU's memory is not enough for a pass of 512 tokens: 1.0 GiB of 10.0 GiB are free; lower"
    )
    for knob in ("expert.cache", "engine.context", "engine.prompt_chunk", "vram.reserve_mib"):
        assert knob in text


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(RuntimeError, match="misaligned"), told_what_to_lower("a pass"):
        raise RuntimeError("misaligned address")


@pytest.mark.parametrize(
    ("free", "taken", "reserve", "expected"),
    [(10, 2, 1, 7), (10, 2, 0, 8), (10, 12, 0, 0), (100, 2, 1, 20)],
)
def test_slots_take_what_is_left(free: int, taken: int, reserve: int, expected: int) -> None:
    assert slots_that_fit(free * GIB, taken * GIB, reserve * GIB, GIB, 20) == expected


@pytest.mark.parametrize(("free", "expected"), [(23, 20), (22, 15), (4, 0)])
def test_prompts_need_room_for_experts_without_slots(free: int, expected: int) -> None:
    assert slots_beside_prompts(free * GIB, 2 * GIB, GIB, GIB, 20, 4 * GIB) == expected
