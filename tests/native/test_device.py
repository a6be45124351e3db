"""Device kernels of a compiled package: those of a wave of one lane, on raw addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_runtime.provider import Provider
from support import device_reference as reference
from support.kernels import address

pytestmark = pytest.mark.native


@pytest.fixture
def device(provider: Provider) -> Any:
    return provider.native.device


def bits(values: NDArray[Any]) -> NDArray[Any]:
    return reference.bits(values)


def test_router_topk(device: Any) -> None:
    logits = np.random.default_rng(0).standard_normal((3, 128), dtype=np.float32)
    bias = logits[0] / 10
    for used in (None, bias):
        ids, weights = np.zeros((3, 8), np.int32), np.zeros((3, 8), np.float32)
        at = 0 if used is None else address(used)
        device.router_topk(3, 128, 8, address(logits), at, True, True, 2.5, address(ids), address(weights))
        expected = reference.router_topk(logits, used, 8, sigmoid=True, normalised=True, scale=2.5)
        assert np.array_equal(ids, expected[0])
        assert np.array_equal(bits(weights), bits(expected[1]))


def test_ecap_redirect(device: Any) -> None:
    generator = np.random.default_rng(0)
    ids = np.stack([generator.permutation(64)[:8] for _ in range(5)]).astype(np.int32)
    weights = generator.random((5, 8), dtype=np.float32)
    expected = reference.ecap_redirect(ids, weights, 24)
    device.ecap_redirect(5, 8, 24, address(ids), address(weights))
    assert np.array_equal(ids, expected[0])
    assert np.array_equal(bits(weights), bits(expected[1]))


def test_sizes_and_addresses_that_cannot_be_are_value_errors(device: Any) -> None:
    ids, weights = np.zeros((9, 8), np.int32), np.zeros((9, 8), np.float32)
    with pytest.raises(ValueError, match=r"window\.max_tokens"):
        device.ecap_redirect(9, 8, 24, address(ids), address(weights))
    with pytest.raises(ValueError, match="not aligned to 4 bytes"):
        device.ecap_redirect(2, 8, 24, address(ids) + 1, address(weights))
    with pytest.raises(ValueError, match="top_k is more than the experts"):
        device.router_topk(1, 4, 8, address(weights), 0, False, True, 1.0, address(ids), address(weights))
