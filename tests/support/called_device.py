"""The device kernels among those whose calls are remembered."""

from __future__ import annotations

import numpy as np

from support.called_products import CalledProducts
from support.device_reference import DOORBELL, PLAN
from support.kernels import Array, Floats, address


class CalledDeviceKernels(CalledProducts):
    """Device kernels, called by their specs' names."""

    def router_topk(self, logits: Floats, bias: Floats, top_k: int) -> tuple[Array, Floats]:
        """Ids and weights [tokens, top_k] of sigmoid scores, normalised."""
        tokens, experts = logits.shape
        ids, weights = np.full((tokens, top_k), -2, np.int32), np.full((tokens, top_k), np.nan, np.float32)
        self._device("router_topk")(
            tokens, experts, top_k, address(logits), address(bias), True, True, 1.0, address(ids), address(weights)
        )
        return ids, weights

    def ecap_redirect(self, ids: Array, weights: Floats, cap: int) -> tuple[Array, Floats]:
        """Ids and weights [tokens, top_k] after the cap."""
        new_ids, new_weights = ids.copy(), weights.copy()
        self._device("ecap_redirect")(*ids.shape, cap, address(new_ids), address(new_weights))
        return new_ids, new_weights

    def tail_skip(self, ids: Array, weights: Floats, slot_of_expert: Array, rank: int) -> tuple[Array, Floats]:
        """Ids and weights [tokens, top_k] without experts that nobody ranks high."""
        new_ids, new_weights = ids.copy(), weights.copy()
        where = (address(slot_of_expert), address(new_ids), address(new_weights))
        self._device("tail_skip")(*ids.shape, len(slot_of_expert), rank, *where)
        return new_ids, new_weights

    def resident_plan(self, ids: Array, weights: Floats, slot_of_expert: Array) -> Array:
        """The plan block; every expert may have a slot."""
        plan, error = np.zeros(1, PLAN), np.zeros(1, np.uint32)
        experts = len(slot_of_expert)
        where = (address(ids), address(weights), address(slot_of_expert), address(plan), address(error))
        self._device("resident_plan")(*ids.shape, experts, experts, False, *where)
        assert error[0] == 0
        return plan

    def publish(self, x: Floats, ids: Array, weights: Floats) -> bytes:
        """The doorbell block and the activations behind it."""
        room = DOORBELL.itemsize + x.nbytes + 64
        memory = np.zeros(room, np.uint8)
        block, sequence = memory[-address(memory) % 64 :], np.zeros(1, np.uint32)
        where = (address(x), address(ids), address(weights), block.ctypes.data, address(sequence))
        self._device("publish")(0, *ids.shape, x.shape[1], *where, 0, 7)
        assert sequence[0] == 7
        return block[: DOORBELL.itemsize + x.nbytes].tobytes()

    def flag_wait(self, word: int, value: int, error: int) -> int:
        """The error word of a wait for a word that nobody raises."""
        words = np.array([word, value - 1, 0], np.uint32)
        at = address(words)
        self._device("flag_wait")(at, at + 4, 1, 0, at + 8, error, 10, 0)
        return int(words[2])

    def time_stamp(self, phase: int) -> tuple[int, int]:
        """What a stamp holds."""
        stamp = np.zeros(2, np.uint64)
        self._device("time_stamp")(address(stamp), phase)
        return int(stamp[0]), int(stamp[1])

    def rows_copy(self, rows: Floats, owner: Array, weights: Floats, threshold: float, to: Floats) -> Floats:
        """Rows of at least a weight, zeros for others."""
        result = to.copy()
        where = (address(rows), address(owner), address(weights), address(result))
        self._device("rows_copy")(*rows.shape, "at_least", threshold, True, *where)
        return result

    def late_add(self, rows: Floats, owner: Array, weights: Floats, threshold: float, residual: Floats) -> Floats:
        """The residual with the rows below a weight."""
        result = residual.copy()
        where = (address(rows), address(owner), address(weights), address(result))
        self._device("late_add")(*weights.shape, rows.shape[1], "below", threshold, *where)
        return result
