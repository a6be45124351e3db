"""A comparison as a picture."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from strata_runtime.ab.results import Results


def draw(results: Results, path: Path, form: str) -> None:
    """Draw every round's rate, its ratio to the first arm's, and how far distributions are from the first arm's.

    form: of the picture, `png`, `svg` or `pdf`.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    quality = results.quality
    judged = quality is not None and quality.floor is not None
    count = 3 if judged else 2
    figure, axes = pyplot.subplots(1, count, figsize=(4.5 * count, 4), layout="constrained", squeeze=False)
    panels = axes[0]
    arms, first = results.arms, results.arms[0].name
    _points(panels[0], {arm.name: [sample.decode_rate for sample in arm.samples] for arm in arms}, "tokens/s")
    panels[0].set_ylim(bottom=0)
    _points(panels[1], {arm.name: list(arm.decode_ratios) for arm in arms[1:]}, f"tokens/s over {first}, same round", 1)
    panels[1].axhline(1.0, color="grey", linewidth=0.8)
    if quality is not None and quality.floor is not None:
        scale = {} if quality.scale is None else {quality.scale_name: quality.scale}
        distances = {f"{first} again": quality.floor, **scale, **quality.arms}
        _bars(panels[2], {name: found.overall.mean_kl for name, found in distances.items()}, first)
    figure.suptitle(f"{results.info.path.name}: {results.complete} rounds, lines at medians")
    figure.savefig(path, format=form, dpi=150)
    pyplot.close(figure)


def _points(panel: Any, values: dict[str, list[float]], label: str, colour: int = 0) -> None:
    """Draw samples over names; `colour` is the first one's place among the arms."""
    for at, samples in enumerate(values.values()):
        panel.plot([at] * len(samples), samples, "o", alpha=0.6, color=f"C{at + colour}")
        panel.hlines(median(samples), at - 0.3, at + 0.3, color="black")
    _names(panel, list(values))
    panel.set_ylabel(label)


def _bars(panel: Any, values: dict[str, float], first: str) -> None:
    bars = panel.bar(range(len(values)), list(values.values()), color=[f"C{at}" for at in range(len(values))])
    panel.bar_label(bars, fmt="%.1e")
    # Zero has no place on a logarithmic axis, and is what a floor should be.
    if least := min((value for value in values.values() if value > 0), default=0.0):
        panel.set_yscale("symlog", linthresh=least)
    panel.set_ylim(bottom=0)
    _names(panel, list(values))
    panel.set_ylabel(f"mean KL({first} || arm)")


def _names(panel: Any, names: list[str]) -> None:
    panel.set_xticks(range(len(names)), names, rotation=20)
    panel.set_xlim(-0.6, len(names) - 0.4)
