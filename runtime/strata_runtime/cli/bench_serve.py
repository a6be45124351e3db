"""`strata bench serve`: what requests of a batch feel of each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from strata_runtime.bench.serving.modes import MODES, make_modes
from strata_runtime.bench.serving.scenarios import SCENARIOS
from strata_runtime.bench.serving.sizes import Sizes, find_room
from strata_runtime.cli.interrupt import Interrupt
from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.main import EXIT_INTERRUPTED
from strata_runtime.cli.names import Name
from strata_runtime.cli.outputs import check_outputs, output_options, write_outputs
from strata_runtime.cli.seconds import Seconds
from strata_runtime.cli.terminal import Terminal
from strata_runtime.errors import UserError
from strata_runtime.knobs import resolve

if TYPE_CHECKING:
    from strata_runtime.bench.serving.results import Results
    from strata_runtime.bench.serving.rounds import Measurement

_EXIT_WRONG = 1


def _run(measured: Measurement, interrupt: Interrupt, terminal: Terminal) -> UserError | None:
    """Measure; return what ended it before its end, if a request did."""
    check = interrupt.between(None)
    try:
        with interrupt:
            measured.run(lambda what: interrupt.between(terminal.progress(what)), lambda: check(0, 0))
    except KeyboardInterrupt:
        interrupt.requested = True
    except UserError as problem:
        return problem
    return None


def _write(results: Results, json_file: str | None, plot: str | None) -> None:
    from strata_runtime.bench.serving.plot import draw
    from strata_runtime.bench.serving.results import as_json
    from strata_runtime.bench.serving.tables import lines

    drawn = plot if results.scenarios else None
    write_outputs(as_json(results), lines(results), json_file, drawn, partial(draw, results))


@click.command("serve", cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder with config.json and weights, or a GGUF file.")
@click.option(
    "--scenario", "names", multiple=True, type=Name(SCENARIOS), help="What to play; may be repeated. Default: all."
)
@click.option(
    "--mode", "modes", multiple=True, type=Name(MODES), help="How prompts are read; may be repeated. Default: all."
)
@click.option(
    "--prompt-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of each joining prompt, and of the longest of a random load. "
    "Default: 32768, or what the model's context holds; 1500 at random.",
)
@click.option(
    "--streams", type=click.IntRange(1), default=2, show_default=True, metavar="N", help="Texts that prompts join."
)
@click.option(
    "--stream-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of each stream. Default: enough for the reads, by a first look.",
)
@click.option(
    "--warm",
    "warm_s",
    type=Seconds(0.01),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds that streams decode before prompts join, and from there to the question.",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Samples of each.")
@click.option(
    "--seconds",
    type=Seconds(0.1),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Of a random load, in each mode and round.",
)
@click.option(
    "--compare",
    "compared",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    metavar="N",
    help="Texts of a random load, drawn from all, to compare with the same requests alone.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Of tokens and requests."
)
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    names: tuple[str, ...],
    modes: tuple[str, ...],
    json_file: str | None,
    plot: str | None,
    quiet: bool,
    prompt_tokens: int | None,
    streams: int,
    stream_tokens: int | None,
    warm_s: float,
    rounds: int,
    seconds: float,
    compared: int,
    seed: int,
    **others: object,
) -> None:
    """Measure what decoding streams feel of prompts that join them.

    \b
    cold32k      a long prompt joins the streams
    followup     and a short one follows it, while it is read
    two_joiners  two long prompts at once
    random       joins, questions, follow-ups, clients that leave

    Prompts are read in three modes: `off`, while all others stand still; in `pieces` between their windows, of
    --piped-piece tokens; `beside` their windows. The modes take turns, round by round, with a fresh batch on one
    loaded model; read the ratios, which pair the modes of a round. All texts are greedy, of the length asked for.

    Behind a random load it is checked that every request came to its end, that a sample of the texts is what the same
    requests give alone, and, from 20 seconds on, that memory was flat. The exit code is 1 when it was not so.

    Ctrl-C ends the measurement and shows what there is so far.
    """
    check_outputs(json_file, plot)
    from strata_runtime.bench.serving.results import gather
    from strata_runtime.bench.serving.rounds import Measurement, make_plan
    from strata_runtime.engine import Engine

    terminal, interrupt = Terminal(quiet=quiet), Interrupt()
    package, flags = package_and_flags(ctx, others)
    provider = package.require()
    wanted = tuple(name for name in SCENARIOS if name in (names or SCENARIOS))
    sizes = Sizes(prompt_tokens, streams, stream_tokens, warm_s, seconds, compared, seed, rounds)
    room = find_room(
        model, wanted, sizes, provider, resolve(provider.knobs, environ=package.environ, command_line=flags)
    )
    resolution = resolve(provider.knobs, environ=package.environ, command_line=flags, python=room.given)
    plan, line = make_plan(wanted, make_modes(modes or MODES, provider, resolution), sizes, room)
    if line:
        terminal.say(line)
    with Engine.load(
        model,
        environ=package.environ,
        flags=flags,
        provider=provider,
        progress=interrupt.between(terminal.progress("loading layer")),
        report=terminal.say,
        **room.given,
    ) as engine:
        measured = Measurement(plan, engine)
        problem = _run(measured, interrupt, terminal)
        terminal.clear()
        interrupted = interrupt.requested or problem is not None
        results = gather(measured, engine, provider.native.ISA, interrupted=interrupted)
    _write(results, json_file, plot)
    if problem is not None:
        raise problem
    if interrupted:
        ctx.exit(EXIT_INTERRUPTED)
    if any(results.problems()):
        ctx.exit(_EXIT_WRONG)
