"""A measurement as a picture: every stream's pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strata_runtime.bench.serving.play import Felt
from strata_runtime.bench.serving.results import ModeResult, Results


def draw(results: Results, path: Path, form: str) -> None:
    """Draw each wait for a token over the time when it began: a row a scenario, a panel a mode, its first round.

    The time until the joining prompts were read is shaded. form: of the picture, `png`, `svg` or `pdf`.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows, columns = len(results.scenarios), max(len(each.modes) for each in results.scenarios)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(4.5 * columns, 3.2 * rows),
        layout="constrained",
        squeeze=False,
        sharex="row",
        sharey="row",
    )
    for row, scenario in zip(axes, results.scenarios, strict=True):
        for panel, mode in zip(row, scenario.modes, strict=False):
            _panel(panel, mode)
            panel.set_title(f"{scenario.name}, {mode.mode.name}")
        for panel in row[len(scenario.modes) :]:
            panel.set_visible(False)
        row[0].set_ylabel("s between two tokens")
    figure.suptitle(f"{results.info.path.name}: pauses of every stream, round 1 of {results.rounds}")
    figure.savefig(path, format=form, dpi=150)
    pyplot.close(figure)


def _panel(panel: Any, mode: ModeResult) -> None:
    sample = mode.samples[0]
    panel.set_yscale("log")
    panel.set_xlabel("s since the prompts joined" if isinstance(sample, Felt) else "s")
    if isinstance(sample, Felt):
        panel.axvspan(0, sample.joiner, color="grey", alpha=0.2, linewidth=0)
        for number, stream in enumerate(sample.streams, 1):
            # Streams share windows: the first ones' dots are larger, so that those above do not hide them.
            _waits(panel, stream.pauses, f"stream {number}", markersize=3 + 9 / number)
        panel.legend(loc="upper right", fontsize="small")
    else:
        for pauses in sample.pauses:
            _waits(panel, pauses, "", color="C0", alpha=0.5, markersize=4)


def _waits(panel: Any, pauses: tuple[tuple[float, float], ...], label: str, **style: Any) -> None:
    """Draw each wait as a line as long as it was, with a dot where it ended."""
    begins, ends = [at for at, _ in pauses], [at + seconds for at, seconds in pauses]
    heights = [seconds for _, seconds in pauses]
    points = panel.plot(ends, heights, ".", label=label or None, **style)
    panel.hlines(heights, begins, ends, color=points[0].get_color(), linewidth=1, alpha=style.get("alpha", 1.0))
