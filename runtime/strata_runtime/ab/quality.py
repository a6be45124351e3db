"""How far each arm's distributions are from the first arm's, beside the floor: the first arm once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strata_runtime.ab.arms import Arm
from strata_runtime.ab.rounds import Open
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError
from strata_runtime.evaluation.divergence import Divergence, compare
from strata_runtime.evaluation.logpos import measure
from strata_runtime.evaluation.record import LogposRecord
from strata_runtime.evaluation.sequences import Sequences
from strata_runtime.progress import Progress


@dataclass(slots=True)
class Quality:
    """KL(first arm || arm) and agreement, as far as they were measured.

    `sequences`: the texts, None before an engine was seen. `window`: tokens of the passes that read them. `floor`: of a
    second run of the first arm. `scale`: of the first arm with a setting whose loss is known, `scale_name`; or
    `why_no_scale`. `make_scale` makes that arm from the model's experts per token, or raises `UserError` with the
    reason. `arms`: by name, without the first.
    """

    window: int
    make_scale: Callable[[int], Arm]
    sequences: Sequences | None = None
    floor: Divergence | None = None
    scale: Divergence | None = None
    scale_name: str = ""
    why_no_scale: str = ""
    top_k: int = 0
    arms: dict[str, Divergence] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """Positions of all texts."""
        return sum(map(len, self.sequences or ()))

    def look(self, engine: Engine, read: Callable[[Engine], Sequences]) -> None:
        """Read the texts with the first engine, and check that they fit the others. Raises `UserError`."""
        if self.sequences is None:
            self.sequences, self.top_k = read(engine), engine.info.experts_per_token
            if not self.positions:
                raise UserError("the texts to judge by hold no tokens")
        for ids in self.sequences:
            engine.check_ids(ids)

    def run(self, arms: Sequence[Arm], open_engine: Open, progress: Progress | None = None) -> None:
        """Read all texts with every arm, each in an engine of its own; what is done stays when this is interrupted."""
        first = self._read(arms[0], open_engine, None, progress)
        self.floor = compare(first, self._read(arms[0], open_engine, first, progress))
        self._measure_scale(first, open_engine, progress)
        for arm in arms[1:]:
            self.arms[arm.name] = compare(first, self._read(arm, open_engine, first, progress))

    def _measure_scale(self, first: LogposRecord, open_engine: Open, progress: Progress | None) -> None:
        try:
            arm = self.make_scale(self.top_k)
            found = compare(first, self._read(arm, open_engine, first, progress))
        except UserError as problem:
            self.why_no_scale = str(problem)
            return
        if found.overall.largest_kl == found.overall.mean_kl == 0:
            self.why_no_scale = f"'{arm.name}' leaves nothing out of these windows"
        else:
            self.scale, self.scale_name = found, arm.name

    def _read(self, arm: Arm, open_engine: Open, at: LogposRecord | None, progress: Progress | None) -> LogposRecord:
        with open_engine(arm) as engine:
            return measure(engine, self.sequences or [], self.window, at, progress)
