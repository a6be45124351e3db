"""What device kernels of a compiled package refuse, and what one tells. Results are those of the parity tests."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from strata_runtime.native_device import HOST_STREAM
from strata_runtime.provider import Provider
from support.device_reference import DOORBELL, PLAN
from support.kernels import address

pytestmark = pytest.mark.native

IDS, WEIGHTS = np.zeros((9, 8), np.int32), np.zeros((9, 8), np.float32)


@pytest.fixture
def device(provider: Provider) -> Any:
    return provider.native.device


def test_sizes_and_addresses_that_cannot_be_are_value_errors(device: Any) -> None:
    with pytest.raises(ValueError, match=r"window\.max_tokens"):
        device.ecap_redirect(9, 8, 24, address(IDS), address(WEIGHTS), HOST_STREAM)
    with pytest.raises(ValueError, match="not aligned to 4 bytes"):
        device.ecap_redirect(2, 8, 24, address(IDS) + 1, address(WEIGHTS), HOST_STREAM)
    with pytest.raises(ValueError, match="ecap_redirect: a null address"):
        device.ecap_redirect(2, 8, 24, 0, address(WEIGHTS), HOST_STREAM)
    with pytest.raises(ValueError, match="top_k is more than the experts"):
        device.router_topk(1, 4, 8, address(WEIGHTS), 0, False, True, 1.0, address(IDS), address(WEIGHTS), HOST_STREAM)


def test_choices_and_formats_that_nobody_has_are_value_errors(device: Any) -> None:
    rows = address(WEIGHTS)
    with pytest.raises(ValueError, match="'all', 'at_least' or 'below', not 'heavy'"):
        device.rows_copy(1, 8, "heavy", 0.1, False, rows, 0, rows, rows, HOST_STREAM)
    with pytest.raises(ValueError, match="q9_0"):
        device.expert_down("q9_0", 1, 1, 32, 32, rows, rows, 0, 0, 0, rows, rows, rows, HOST_STREAM)
    with pytest.raises(ValueError, match="'f32', 'bf16' or 'f16', not 'f64'"):
        device.to_floats(("f32", 1, 1, rows, 1.0), "f64", rows, HOST_STREAM)


def test_matrices_that_cannot_be_are_value_errors(device: Any) -> None:
    place = address(WEIGHTS)
    assert device.matrix_bytes("q8_0", 17, 64) == 2 * 16 * 2 * 34
    assert device.matrix_bytes("bf16", 17, 65) == 17 * 65 * 2
    with pytest.raises(ValueError, match="a row of 33 values cannot be stored as q8_0"):
        device.matrix_bytes("q8_0", 16, 33)
    with pytest.raises(ValueError, match="stored rows: null address"):
        device.arrange("q8_0", 16, 32, 0, place)
    with pytest.raises(ValueError, match="window_linear: a null address of quantised inputs"):
        device.linear([(("q8_0", 16, 32, place, 1.0), place)], 1, place, 0, False, HOST_STREAM)
    with pytest.raises(ValueError, match="q must be aligned to 16 bytes"):
        device.quantize_rows(1, 32, place, place // 16 * 16 + 4, HOST_STREAM)


def test_blocks_have_the_sizes_that_python_allocates(device: Any) -> None:
    assert PLAN.itemsize == device.PLAN_BYTES
    assert PLAN.fields["owner"][1] == device.OWNER_OFFSET  # type: ignore[index]
    assert DOORBELL.itemsize == device.DOORBELL_BYTES


def test_a_wait_tells_how_long_it_was(device: Any) -> None:
    words, waited = np.array([7, 6, 0], np.uint32), np.zeros(1, np.uint64)
    at = address(words)

    def wait(value: int) -> None:
        device.flag_wait(at, at + 4, value - 6, 0, at + 8, 1, 0, 10**10, HOST_STREAM, address(waited))

    wait(7)
    assert waited[0] == 0  # nobody had to
    other = threading.Timer(0.02, lambda: words.__setitem__(0, 8))
    other.start()
    wait(8)
    other.join()
    first = int(waited[0])
    assert 10**6 < first < 10**10
    wait(8)
    assert (waited[0], words[2]) == (first, 0)
