"""A comparison as text."""

from __future__ import annotations

from collections.abc import Iterator

from strata_runtime.ab.quality import Quality
from strata_runtime.ab.results import ArmResult, Results
from strata_runtime.bench.columns import table
from strata_runtime.bench.spread import Spread
from strata_runtime.bench.tables import surroundings
from strata_runtime.evaluation.tables import by_name
from strata_runtime.phases import PHASES

_HEAD = (
    "arm", "tokens/s", "quartiles", "ms a pass", "tokens a pass", "drafts kept", "same texts", "prompt tokens/s",
    "load s", "peak MiB",
)  # fmt: skip


def lines(results: Results) -> Iterator[str]:
    """Yield the whole report."""
    yield from _head(results)
    if results.arms:
        yield ""
        yield from table([_HEAD, *map(_cells, results.arms)])
        yield ""
        yield from table(list(_ratios(results.arms)))
        if any(arm.phases for arm in results.arms):
            yield ""
            yield from table([("ms of a window", *PHASES), *map(_phases, results.arms)])
    if results.quality is not None and results.quality.floor is not None:
        yield ""
        yield from _quality(results.quality, results.arms[0].name)


def _head(results: Results) -> Iterator[str]:
    task = results.task
    yield from surroundings(results.info, results.isa)
    draws = "greedy" if task.sampling.temperature == 0 else f"temperature {task.sampling.temperature:g}"
    prompts = f"{len(task.prompts)} prompt{'s' * (len(task.prompts) != 1)}"
    yield f"{prompts}, at most {task.max_tokens} tokens each, {draws}; a fresh engine for each arm and round"
    if not results.arms:
        yield "interrupted before a round was complete"
        return
    for arm in results.arms:
        yield f"{arm.name}: {', '.join(f'{knob}={value}' for knob, value in arm.settings.items()) or 'the defaults'}"
    count = f"{results.complete} of {results.rounds}" if results.interrupted else str(results.rounds)
    yield f"medians of {count} interleaved rounds" + ("; interrupted before the end" * results.interrupted)


def _cells(arm: ArmResult) -> tuple[str, ...]:
    peak = arm.peak_bytes
    return (
        arm.name,
        f"{arm.decode.median:.1f}",
        f"{arm.decode.low:.1f}..{arm.decode.high:.1f}",
        f"{arm.window_s.median * 1e3:.3f}",
        f"{arm.tokens_per_window:.2f}",
        "-" if arm.acceptance is None else f"{arm.acceptance:.1%}",
        f"{arm.same_texts} of {arm.texts}",
        f"{arm.prompt.median:.1f}",
        f"{arm.load.median:.2f}",
        "-" if peak is None else f"{peak / (1 << 20):.0f}",
    )


def _phases(arm: ArmResult) -> tuple[str, ...]:
    phases = arm.phases
    return (arm.name, *("-" if phases is None else f"{phases[phase] * 1e3:.3f}" for phase in PHASES))


def _ratios(arms: tuple[ArmResult, ...]) -> Iterator[tuple[str, ...]]:
    first, *others = arms
    yield (f"over {first.name}", "median", "every round, paired")
    for arm in others:
        for what, ratios in (("decode", arm.decode_ratios), ("prompt", arm.prompt_ratios)):
            each = " ".join(f"{ratio:.3f}" for ratio in ratios)
            yield (f"{arm.name}, {what}", f"{Spread.of(ratios).median:.3f}", each)


def _quality(quality: Quality, first: str) -> Iterator[str]:
    assert quality.floor is not None
    scale = {} if quality.scale is None else {quality.scale_name: quality.scale}
    rows = {f"{first} again": quality.floor, **scale, **quality.arms}
    texts = f"{len(quality.sequences or ())} text{'s' * (len(quality.sequences or ()) != 1)}"
    yield f"mean KL({first} || arm) by ranges of positions, {quality.positions} in {texts}, windows of {quality.window}"
    yield from by_name(rows, "arm")
    if quality.why_no_scale:
        yield f"no arm for the scale: {quality.why_no_scale}"
