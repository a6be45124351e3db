"""Results as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata_runtime.discovery import extra_command
from strata_runtime.errors import UserError

if TYPE_CHECKING:
    from strata_runtime.bench.cases import Kind
    from strata_runtime.bench.results import Results, Row

SUFFIXES = (".png", ".svg", ".pdf")


def pictures(name: str) -> tuple[Path, ...]:
    """Return the files that `--plot` of this name draws, two for one without an end.

    Raises `UserError` when they cannot be drawn, before anything is measured.
    """
    path = Path(name)
    if path.suffix and path.suffix not in SUFFIXES:
        raise UserError(f"--plot {path}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if find_spec("matplotlib") is None:
        raise UserError(f"--plot needs matplotlib, which is not installed: {extra_command('plot')}")
    return (path,) if path.suffix or not path.name else (path.with_suffix(".png"), path.with_suffix(".svg"))


def draw(results: Results, path: Path, form: str) -> None:
    """Draw tokens per second of prompts and decode, and times of windows: a line per context and number of threads.

    form: of the picture, `png`, `svg` or `pdf`.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(row.case.kind for row in results.rows))
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(5 * len(kinds), 4), layout="constrained", squeeze=False)
    for kind, panel in zip(kinds, axes[0], strict=True):
        _panel(panel, kind, [row for row in results.rows if row.case.kind == kind])
    figure.suptitle(f"{results.info.path.name}: medians of {results.rounds} rounds, bars over the quartiles")
    figure.savefig(path, format=form, dpi=150)
    pyplot.close(figure)


def _panel(panel: Any, kind: Kind, rows: Iterable[Row]) -> None:
    lines: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        lines.setdefault((row.case.context, row.case.threads), []).append(row)
    for (context, threads), line in lines.items():
        line.sort(key=lambda row: row.case.tokens)
        middle, low, high = zip(*(_heights(row) for row in line), strict=True)
        errors = [[m - a for m, a in zip(middle, low, strict=True)], [b - m for m, b in zip(middle, high, strict=True)]]
        label = f"context {context}, {threads} thread{'s' * (threads != 1)}"
        panel.errorbar([row.case.tokens for row in line], middle, yerr=errors, fmt="o-", capsize=3, label=label)
    panel.set_xlabel({"prompt": "tokens of the prompt", "decode": "tokens drawn", "window": "tokens T"}[kind])
    panel.set_ylabel("ms a window" if kind == "window" else "tokens/s")
    panel.set_ylim(bottom=0)
    panel.set_title(kind)
    panel.legend()


def _heights(row: Row) -> tuple[float, float, float]:
    """Return median, lower and upper end of the bar."""
    times = row.seconds
    if row.case.kind == "window":
        return times.median * 1e3, times.low * 1e3, times.high * 1e3
    tokens = row.case.tokens_per_unit
    return tokens / times.median, tokens / times.high, tokens / times.low
