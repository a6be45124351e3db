"""`strata bench`: how fast a model runs, and what limits it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from strata_runtime.bench.cases import Plan, check_fits, make_plan
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.cli.interrupt import Interrupt
from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.main import EXIT_INTERRUPTED
from strata_runtime.cli.numbers import NumberList
from strata_runtime.cli.outputs import check_outputs, output_options, write_outputs
from strata_runtime.cli.terminal import Terminal
from strata_runtime.errors import UserError
from strata_runtime.hybrid.asked import require_width
from strata_runtime.knobs.grammar import show
from strata_runtime.loading import model_path, say_notes, settle
from strata_runtime.params import MAX_WINDOW
from strata_runtime.provider import Provider, make_pool

if TYPE_CHECKING:
    from strata_runtime.bench.results import Results
    from strata_runtime.knobs import Resolution
    from strata_runtime.model import ModelInfo


def _threads(asked: tuple[int, ...] | None, resolution: Resolution, provider: Provider) -> tuple[int, ...]:
    """Return the numbers of threads, by default the one that pool.threads comes to. Raises `UserError`."""
    if asked is None:
        pool = make_pool(provider, provider.settings_type.from_values(resolution.values))
        pool.close()
        return (pool.threads,)
    if max(asked) > (cpus := usable_cpus()):
        raise UserError(f"--threads {max(asked)}: this process may use {cpus} CPUs; more threads would only wait")
    return asked


def _measure(model: str, plan: Plan, provider: Provider, resolution: Resolution, terminal: Terminal) -> Results:
    """Load, measure, and return what there is by the end, or by Ctrl-C."""
    from strata_runtime.bench.results import gather
    from strata_runtime.bench.rounds import Measurement
    from strata_runtime.bench.subject import Subject

    wanted = resolution.values["engine.context"]

    def positions(info: ModelInfo) -> int:
        if wanted:
            check_fits(plan, int(str(wanted)), "engine.context")
        check_fits(plan, info.context_length, "this model's own maximum")
        return plan.positions

    with Subject.load(
        model_path(model),
        provider,
        resolution,
        threads=plan.threads,
        positions=positions,
        seed=plan.seed,
        progress=terminal.progress("loading layer"),
    ) as subject:
        say_notes(subject.info.notes, terminal.say)
        measured, interrupt = Measurement(plan, subject), Interrupt()
        try:
            with interrupt:
                tick = interrupt.between(None)
                context = max(case.context for case in plan.cases)
                if context:
                    subject.fill(context, interrupt.between(terminal.progress("filling the context, token")))
                measured.run(terminal.progress("sample"), tick=lambda: tick(0, 0))
        except KeyboardInterrupt:
            interrupt.requested = True
        terminal.clear()
        settings = {knob.name: show(knob, resolution.values[knob.name]) for knob in resolution.differing()}
        return gather(measured, subject, settings, interrupted=interrupt.requested)


def _write(results: Results, json_file: str | None, plot: str | None) -> None:
    from strata_runtime.bench.plot import draw
    from strata_runtime.bench.results import as_json
    from strata_runtime.bench.tables import lines

    drawn = plot if results.rows else None
    write_outputs(as_json(results), lines(results), json_file, drawn, partial(draw, results))


@click.command(cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder with config.json and weights, or a GGUF file.")
@click.option(
    "--prompt",
    type=NumberList(1, may_be_empty=True),
    default="512",
    show_default=True,
    metavar="N,N,...",
    help="Lengths of prompts to read; none for none.",
)
@click.option(
    "--decode",
    type=NumberList(1, may_be_empty=True),
    default="32",
    show_default=True,
    metavar="N,N,...",
    help="Numbers of tokens to read one after the other; none for none.",
)
@click.option(
    "--window",
    type=NumberList(1, MAX_WINDOW, may_be_empty=True),
    default=f"1-{MAX_WINDOW}",
    show_default=True,
    metavar="N,N,...",
    help="Windows: tokens that go through the network in one pass, with logits for each; none for none.",
)
@click.option(
    "--context",
    "contexts",
    type=NumberList(0),
    default="0",
    show_default=True,
    metavar="N,N,...",
    help="Positions that are filled before, for every case.",
)
@click.option(
    "--threads",
    type=NumberList(1),
    metavar="N,N,...",
    help="Numbers of worker threads, for every case. Default: as pool.threads says.",
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Samples of each.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Seed of token ids.")
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    prompt: tuple[int, ...],
    decode: tuple[int, ...],
    window: tuple[int, ...],
    contexts: tuple[int, ...],
    threads: tuple[int, ...] | None,
    rounds: int,
    seed: int,
    json_file: str | None,
    plot: str | None,
    quiet: bool,
    **others: object,
) -> None:
    """Measure a model's speed: prompts, decode, and windows of several tokens.

    Numbers are lists such as 1,2 or 1-8. Every combination is measured once per round, in turn, after one round that
    does not count; the table has medians and quartiles. Beside them: load time, peak memory, the bandwidth of memory
    measured in the same rounds, and how much of it each part of a pass reaches.

    Token ids are random, so a model needs no tokenizer. Nothing is drawn: a decode step is one pass of one token.
    Ctrl-C ends the measurement and shows what there is so far.
    """
    check_outputs(json_file, plot)
    terminal = Terminal(quiet=quiet)
    package, flags = package_and_flags(ctx, others)
    provider = package.require()
    resolution, settings = settle(provider, package.environ, flags, {}, terminal.say)
    require_width(settings, max(window, default=1), "--window")
    plan = make_plan(
        prompt=prompt,
        decode=decode,
        window=window,
        contexts=contexts,
        threads=_threads(threads, resolution, provider),
        rounds=rounds,
        seed=seed,
    )
    results = _measure(model, plan, provider, resolution, terminal)
    _write(results, json_file, plot)
    if results.interrupted:
        ctx.exit(EXIT_INTERRUPTED)
