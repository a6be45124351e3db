"""The doorbell and the wait for a word, with a word that comes early, late and never."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from support import device_reference as reference
from support.device import Machine, Refused
from support.device_reference import DOORBELL

Words = NDArray[np.uint32]
TIMEOUT = 17
SECOND = 1e9


def words(value: int) -> Words:
    return np.array([value], np.uint32)


@pytest.mark.parametrize(("tokens", "top_k", "hidden"), [(1, 1, 1), (5, 8, 2048), (8, 16, 2881), (3, 10, 33)])
@pytest.mark.parametrize("with_weights", [False, True])
def test_the_doorbell_holds_what_was_published(
    machine: Machine, wave: int, tokens: int, top_k: int, hidden: int, with_weights: bool
) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((tokens, hidden), dtype=np.float32)
    ids = generator.integers(-1, 512, (tokens, top_k)).astype(np.int32)
    weights = generator.random((tokens, top_k), dtype=np.float32)
    given = weights if with_weights else None
    block = np.zeros(DOORBELL.itemsize + x.nbytes, np.uint8)
    done = machine.run("publish", [70, tokens, top_k, hidden, 7], [x, ids, given, words(4000), block, words(3)], wave)
    assert done[4].tobytes() == reference.doorbell(4070, 7, x, ids, given)
    assert done[5].tolist() == [4070]


def test_a_doorbell_of_no_tokens_rings(machine: Machine, wave: int) -> None:
    arrays = [None, None, None, None, np.zeros(DOORBELL.itemsize, np.uint8), words(0)]
    assert machine.run("publish", [9, 0, 8, 64, 0], arrays, wave)[5].tolist() == [9]


@pytest.mark.parametrize(("word", "value"), [(5, 5), (6, 5), (0xFFFFFFFF, 5), (0x80000001, 0x80000000)])
def test_a_word_that_was_raised_before_is_no_wait(machine: Machine, wave: int, word: int, value: int) -> None:
    done = machine.run("flag_wait", [value, TIMEOUT, 1, 0], [words(word), None, words(0), None], wave)
    assert done[2].tolist() == [0]


@pytest.mark.parametrize(("looks", "nanoseconds"), [(0, 60 * SECOND), (1e15, 0), (1e15, 60 * SECOND)])
def test_a_word_that_comes_late_ends_the_wait(machine: Machine, wave: int, looks: float, nanoseconds: float) -> None:
    numbers = [5, TIMEOUT, looks, nanoseconds, 105, 2000]
    done = machine.run("flag_wait", numbers, [words(104), words(100), words(0), None], wave)
    assert done[0].tolist() == [105]
    assert done[2].tolist() == [0]


@pytest.mark.parametrize(("looks", "nanoseconds"), [(1, 0), (50, 0), (0, 1e6), (1e15, 1e6), (50, 60 * SECOND)])
@pytest.mark.parametrize("word", [0, 4])
def test_a_word_that_never_comes_is_an_error_within_the_limit(
    machine: Machine, wave: int, word: int, looks: float, nanoseconds: float
) -> None:
    done = machine.run("flag_wait", [5, TIMEOUT, looks, nanoseconds], [words(word), None, words(0), None], wave)
    assert done[2].tolist() == [TIMEOUT]


def test_a_window_that_has_failed_waits_no_more(machine: Machine, wave: int) -> None:
    numbers = [5, TIMEOUT, 0, 3600 * SECOND]
    done = machine.run("flag_wait", numbers, [words(4), None, words(TIMEOUT + 1), None], wave)
    assert done[2].tolist() == [TIMEOUT + 1]


def test_a_word_that_is_there_is_taken_after_a_failure_too(machine: Machine, wave: int) -> None:
    """What was released ends waits at once."""
    done = machine.run("flag_wait", [5, TIMEOUT, 0, SECOND], [words(5), None, words(3), words(4)], wave)
    assert done[2].tolist() == [TIMEOUT + 512]


@pytest.mark.parametrize(
    ("word", "stamp", "added"), [(5, 5, 0), (6, 5, 256), (0xFFFFFFFF, 5, 256), (5, 4, 512), (5, 6, 512)]
)
def test_a_word_that_is_not_what_its_data_say_is_an_error(
    machine: Machine, wave: int, word: int, stamp: int, added: int
) -> None:
    done = machine.run("flag_wait", [5, TIMEOUT, 1, 0], [words(word), None, words(0), words(stamp)], wave)
    assert done[2].tolist() == [TIMEOUT + added if added else 0]


@pytest.mark.parametrize(
    ("numbers", "message"), [([5, TIMEOUT, 0, 0], "needs a limit"), ([5, 0, 1, 0], "error word of 0 says nothing")]
)
def test_waits_for_ever_and_silent_errors_are_refused(
    machine: Machine, wave: int, numbers: list[float], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        machine.run("flag_wait", numbers, [words(0), None, words(0), None], wave)


def test_a_stamp_is_a_time_and_a_phase(machine: Machine, wave: int) -> None:
    stamps = [machine.run("time_stamp", [phase], [np.zeros(2, np.uint64)], wave)[0] for phase in (3, 1)]
    assert [int(stamp[1]) for stamp in stamps] == [3, 1]
    assert 0 < stamps[0][0] <= stamps[1][0]
