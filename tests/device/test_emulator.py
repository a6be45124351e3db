"""The emulator finds what a CPU would hide."""

from __future__ import annotations

import numpy as np
import pytest

from support.device import Machine, Refused

OUT = np.full(128, -1, np.int32)
GPU_WAVES = pytest.mark.parametrize("wave", [32, 64])


@GPU_WAVES
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("divergent_barrier", "thread 0 is at the block's barrier; thread 1 is at the end"),
        ("divergent_shuffle", "thread 0 is at a shuffle; thread 5 is at the end"),
        ("mixed_operations", "thread 0 is at a shuffle; thread 1 is at a ballot"),
    ],
)
def test_threads_that_wait_for_each_other_for_ever_are_named(
    machine: Machine, wave: int, fault: str, message: str
) -> None:
    with pytest.raises(Refused, match=message):
        machine.run(fault, [], [OUT], wave)


@GPU_WAVES
def test_a_missing_barrier_gives_another_result_and_a_barrier_the_right_one(machine: Machine, wave: int) -> None:
    expected = np.arange(127, -1, -1, dtype=np.int32)
    for seed in range(5):
        assert (machine.run("barrier", [], [OUT], wave, seed)[0] == expected).all()
        assert (machine.run("missing_barrier", [], [OUT], wave, seed)[0] != expected).any()
