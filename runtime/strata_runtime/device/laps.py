"""Laps of windows that a GPU takes: stamps that its kernels write, as a part of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from strata_runtime.phases import PHASES, Phase, Stopwatch, WindowPhases

if TYPE_CHECKING:
    from strata_runtime.device.compute import DeviceCompute

_STAMPS = 4096
_BEGIN = len(PHASES)  # the phase that a window's first stamp says it ends


class DeviceLaps:
    """Adds up laps of the device's own clock. Implements `Laps`.

    `lap` is captured with the kernels that it stands behind; a window's last lap is that of the phase `head`.
    """

    def __init__(self, device: DeviceCompute) -> None:
        self._device = device
        self._stamps = torch.zeros(_STAMPS, 2, dtype=torch.int64, device=device.device)
        self._taken = 0
        self._seconds = 0.0
        self._stopwatch = Stopwatch(lambda: self._seconds)

    @property
    def phases(self) -> WindowPhases:
        """The sums so far."""
        return self._stopwatch.phases

    def start(self) -> None:
        """Begin a window."""
        self._taken = 0
        self._stamp(_BEGIN)

    def lap(self, phase: Phase) -> None:
        """End a phase."""
        if self._taken < _STAMPS:
            self._stamp(PHASES.index(phase))

    def stop(self) -> None:
        """Read what the kernels of a window wrote, which have run."""
        rows = self._stamps.tolist()
        self._seconds = rows[0][0] * 1e-9
        self._stopwatch.start()
        for nanoseconds, number in rows[1:]:
            self._seconds = nanoseconds * 1e-9
            self._stopwatch.lap(PHASES[number])
            if PHASES[number] == "head":
                break
        self._stopwatch.stop()

    def _stamp(self, phase: int) -> None:
        device = self._device
        device.native.device.time_stamp(self._stamps[self._taken].data_ptr(), phase, device.stream)
        self._taken += 1
