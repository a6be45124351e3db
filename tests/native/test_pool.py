"""The pool as Python sees it: threads, sleep, closing, callers from several threads, fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from strata_runtime.provider import Provider
from support.kernels import Floats, Kernels, Stored, bits

pytestmark = pytest.mark.native


@pytest.fixture
def kernels(provider: Provider) -> Iterator[Kernels]:
    with Kernels(provider, knobs={"pool.threads": "3", "pool.claim_rows": "32"}) as made:
        yield made


def problem(kernels: Kernels) -> tuple[Stored, Floats]:
    generator = np.random.default_rng(0)
    weights = kernels.store("q8_0", generator.standard_normal((512, 256), dtype=np.float32))
    return weights, generator.standard_normal((4, 256), dtype=np.float32)


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_the_calling_thread_is_one_of_the_workers(provider: Provider) -> None:
    before = threads_of_this_process()
    for threads in (1, 2, 5):
        with Kernels(provider, knobs={"pool.threads": str(threads)}) as kernels:
            assert kernels.pool.threads == threads
            assert threads_of_this_process() == before + threads - 1
    assert threads_of_this_process() == before


def test_by_default_there_is_a_worker_per_usable_core(provider: Provider) -> None:
    with Kernels(provider) as kernels:
        assert 1 <= kernels.pool.threads <= len(os.sched_getaffinity(0))


def test_the_calling_thread_is_never_pinned(provider: Provider) -> None:
    mask = os.sched_getaffinity(0)
    with Kernels(provider, knobs={"pool.threads": "2", "pool.pin": "on"}) as kernels:
        kernels.linear(*problem(kernels))
        assert os.sched_getaffinity(0) == mask


def test_an_idle_pool_uses_no_cpu_time(kernels: Kernels) -> None:
    kernels.linear(*problem(kernels))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.02


def test_a_closed_pool_refuses_work_and_closes_again(kernels: Kernels) -> None:
    weights, x = problem(kernels)
    kernels.pool.close()
    kernels.pool.close()
    with pytest.raises(RuntimeError, match="the pool is closed"):
        kernels.linear(weights, x)


def test_callers_from_several_threads_take_turns(kernels: Kernels) -> None:
    weights, x = problem(kernels)
    expected = bits(kernels.linear(weights, x))
    wrong: list[object] = []

    def call() -> None:
        results = (bits(kernels.linear(weights, x)) for _ in range(50))
        wrong.extend(result for result in results if not np.array_equal(result, expected))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not wrong
    assert not any(caller.is_alive() for caller in callers)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_to_make_a_pool_of_its_own(kernels: Kernels, provider: Provider) -> None:
    weights, x = problem(kernels)
    expected = bits(kernels.linear(weights, x))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                kernels.linear(weights, x)
            except RuntimeError as refused:
                code = 0 if "before fork()" in str(refused) else 2
            kernels.pool.close()
            with Kernels(provider, knobs={"pool.threads": "2"}) as own:
                code = code or (0 if np.array_equal(bits(own.linear(weights, x)), expected) else 3)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(bits(kernels.linear(weights, x)), expected)
