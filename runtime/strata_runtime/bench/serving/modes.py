"""The ways in which a batch reads prompts, as settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution
from strata_runtime.knobs.given import from_python
from strata_runtime.knobs.resolve import settle
from strata_runtime.provider import Provider

if TYPE_CHECKING:
    from strata_runtime._settings import Settings

MODES = ("off", "pieces", "beside")
MODE_KNOBS = ("piped.concurrent", "piped.piece")


@dataclass(frozen=True, slots=True)
class Mode:
    """`piece`: tokens that are read between two windows, 0 unless the mode is `pieces`."""

    name: str
    piece: int
    settings: Settings


def make_modes(names: Sequence[str], provider: Provider, resolution: Resolution) -> tuple[Mode, ...]:
    """Return modes in the order of `MODES`; pieces have the size of `piped.piece`, of a pass unless it is set.

    Raises `UserError` for a mode that the other knobs turn off, in the words of that knob.
    """
    values = resolution.values
    piece = int(str(values["piped.piece"] or values["engine.prompt_chunk"]))
    return tuple(_mode(name, piece, provider, resolution) for name in MODES if name in names)


def _mode(name: str, piece: int, provider: Provider, resolution: Resolution) -> Mode:
    wanted = {"piped_concurrent": name == "beside", "piped_piece": piece if name == "pieces" else 0}
    layer = from_python(resolution.knobs, wanted)
    settled = settle(resolution.knobs, (*resolution.layers, layer))
    for knob in MODE_KNOBS:
        if settled.values[knob] != wanted[knob.replace(".", "_")]:
            why = next((line for line in settled.lines if line.startswith(knob)), f"{knob} is not taken")
            raise UserError(f"--mode {name}: {why}")
    return Mode(name, piece if name == "pieces" else 0, provider.settings_type.from_values(settled.values))
