"""A measurement as text."""

from __future__ import annotations

from collections.abc import Iterator

from strata_runtime.bench.columns import table
from strata_runtime.bench.serving.play import Felt
from strata_runtime.bench.serving.random_load import LoadPlan
from strata_runtime.bench.serving.results import ModeResult, Results, ScenarioResult
from strata_runtime.bench.serving.scenarios import ANSWER
from strata_runtime.bench.spread import Spread
from strata_runtime.bench.tables import surroundings


def lines(results: Results) -> Iterator[str]:
    """Yield the whole report."""
    yield from surroundings(results.info, results.isa)
    yield f"{results.slots} slots, a context of {results.context} tokens; greedy texts, random token ids"
    for scenario in results.scenarios:
        yield ""
        yield from _scenario(scenario, results.rounds)
    problems = list(results.problems())
    yield from ["", *(f"wrong: {problem}" for problem in problems)] if problems else ()
    if results.interrupted:
        yield ""
        yield "interrupted before the end"


def _scenario(result: ScenarioResult, rounds: int) -> Iterator[str]:
    yield f"{result.name}: {_played(result)}"
    counts = sorted({len(each.samples) for each in result.modes})
    taken = f"{counts[0]}" if counts == [rounds] else f"{' to '.join(map(str, counts))} of {rounds}"
    first = result.modes[0]
    over = f"; ratios are of the same round, over {first.mode.name}" if len(result.modes) > 1 else ""
    yield f"medians of {taken} interleaved round{'s' * (rounds != 1)}{over}"
    yield ""
    others = result.modes[1:]
    head = ("", *(each.mode.name for each in result.modes), *(f"{each.mode.name}/{first.mode.name}" for each in others))
    names = list(dict.fromkeys(name for each in result.modes for name in each.figures))
    yield from table([head, *(_row(name, result) for name in names)])
    for each in result.modes:
        if _is_short(each):
            yield f"{each.mode.name}: a stream ended before the prompts were read; give it more --stream-tokens"


def _played(result: ScenarioResult) -> str:
    played = result.played
    if isinstance(played, LoadPlan):
        return f"{played.seconds:g} s of requests with prompts of up to {played.longest} tokens"
    tokens, count = played.joiners[0], len(played.joiners)
    join = f"a prompt of {tokens} tokens joins" if count == 1 else f"{count} prompts of {tokens} tokens join"
    question = f", a question {played.warm_s:g} s behind it" if played.question else ""
    streams = f"{played.streams} stream{'s' * (played.streams != 1)} of {played.stream_tokens} tokens"
    return f"{join} {streams}{question}; answers of {ANSWER}"


def _row(name: str, result: ScenarioResult) -> tuple[str, ...]:
    found = [each.figures.get(name) for each in result.modes]
    ratios = [each.ratios.get(name) for each in result.modes[1:]]
    return (
        name,
        *("" if spread is None else _number(spread.median) for spread in found),
        *("" if ratio is None else _number(Spread.of(ratio).median) for ratio in ratios),
    )


def _number(value: float) -> str:
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"


def _is_short(result: ModeResult) -> bool:
    return any(
        stream.after is None for sample in result.samples if isinstance(sample, Felt) for stream in sample.streams
    )
