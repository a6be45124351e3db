"""`strata ab`: what a knob does to speed and to the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strata_runtime.cli.draft_options import draft_options, with_drafts
from strata_runtime.cli.interrupt import Interrupt
from strata_runtime.cli.knob_command import KnobCommand, Package, package_and_flags
from strata_runtime.cli.loading import check_window
from strata_runtime.cli.main import EXIT_INTERRUPTED
from strata_runtime.cli.outputs import check_outputs, output_options, write_outputs
from strata_runtime.cli.sampling_options import sampling_options, take_sampling
from strata_runtime.cli.terminal import Terminal
from strata_runtime.errors import UserError
from strata_runtime.knobs import Given
from strata_runtime.params import MAX_WINDOW, SamplingParams

if TYPE_CHECKING:
    from strata_runtime.ab.arms import Arm
    from strata_runtime.ab.quality import Quality
    from strata_runtime.ab.rounds import Comparison, Task
    from strata_runtime.engine import Engine
    from strata_runtime.evaluation.sequences import Sequences

    _Read = Callable[[Engine], Sequences]

_DEFAULTS = SamplingParams(temperature=0, seed=0)
_PHASES = "verify.profile"


@dataclass(slots=True)
class _Loader:
    """Loads arms' engines. Says what each has to say at its start, once."""

    model: str
    package: Package
    flags: dict[str, str | Given]
    terminal: Terminal
    interrupt: Interrupt
    said: set[str]

    def __call__(self, arm: Arm) -> Engine:
        from strata_runtime.engine import Engine

        return Engine.load(
            self.model,
            environ=self.package.environ,
            flags={**self._phases(), **self.flags, **arm.texts},
            provider=self.package.require(),
            progress=self.interrupt.between(self.terminal.progress(f"{arm.name}: loading layer")),
            report=lambda line: self._say(f"{arm.name}: {line}"),
        )

    def _phases(self) -> dict[str, str]:
        """Let every arm tell where its time goes, unless it is told not to."""
        is_there = any(knob.name == _PHASES for knob in self.package.require().knobs)
        return {_PHASES: "true"} if is_there else {}

    def _say(self, line: str) -> None:
        if line not in self.said:
            self.said.add(line)
            self.terminal.say(line)


def _run(compared: Comparison, quality: Quality | None, read: _Read | None, load: _Loader) -> None:
    """Measure everything, or raise with what was measured so far in `compared` and `quality`."""

    def look(engine: Engine) -> None:
        if quality is not None and read is not None:
            quality.look(engine, read)

    interrupt, terminal = load.interrupt, load.terminal
    check = interrupt.between(None)

    def tick() -> None:
        check(0, 0)

    compared.warm_up(look, interrupt.between(terminal.progress("warming up, arm")), tick)
    compared.run(interrupt.between(terminal.progress("text")), tick)
    if quality is not None:
        quality.run(compared.arms, load, interrupt.between(terminal.progress("reading, position")))


def _texts(tokens: Path | None, texts: tuple[Path, ...]) -> _Read | None:
    """Return what reads the texts that arms are judged by, None when there are none."""
    from strata_runtime.evaluation.sequences import read_texts, read_tokens

    if tokens is not None and texts:
        raise click.UsageError("Give either --tokens or --text.")
    if tokens is not None:
        sequences = read_tokens(tokens)
        return lambda _: sequences
    return (lambda engine: read_texts(texts, engine)) if texts else None


def _task(path: Path, max_tokens: int, others: dict[str, Any]) -> Task:
    from strata_runtime.ab.prompts import read_prompts
    from strata_runtime.ab.rounds import Task

    ignore_eos = bool(others.pop("ignore_eos"))
    return Task(read_prompts(path), take_sampling(others), max_tokens, ignore_eos)


_file = click.Path(path_type=Path)


@click.command(cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder with config.json and weights, or a GGUF file.")
@click.option(
    "--arm",
    "given",
    multiple=True,
    metavar="NAME:KNOB=V,...",
    help="Settings to compare, at least two; KNOB is a knob's name or its variable. The first is what others are over.",
)
@click.option("--prompts", required=True, type=_file, metavar="FILE", help="A prompt per line, or a JSON list of them.")
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Samples of each arm."
)
@click.option(
    "--max-tokens", type=click.IntRange(2), default=128, show_default=True, metavar="N", help="Most tokens of a text."
)
@sampling_options(_DEFAULTS, "Seed of the first prompt's draws; every prompt takes the next one.")
@click.option("--ignore-eos", is_flag=True, help="Go on after the model's own end tokens.")
@draft_options
@click.option("--text", "texts", multiple=True, type=_file, metavar="FILE", help="Also judge distances on a text.")
@click.option("--tokens", type=_file, metavar="FILE", help="Or on a JSON list of lists of token ids.")
@click.option(
    "--window",
    type=click.IntRange(1, MAX_WINDOW),
    default=4,
    show_default=True,
    metavar="T",
    help="Tokens of the windows that read them.",
)
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    given: tuple[str, ...],
    prompts: Path,
    rounds: int,
    max_tokens: int,
    texts: tuple[Path, ...],
    tokens: Path | None,
    window: int,
    json_file: str | None,
    plot: str | None,
    quiet: bool,
    **others: Any,
) -> None:
    """Compare settings: speed and drafts on the same prompts, and how far distributions are apart.

    An arm is a name and what it sets: `--arm off: --arm capped:verify.ecap=12`. All arms share the environment, the
    config file and the other flags. Arms take turns, in another order each round, each time in a fresh engine. The
    table has medians, then every round's ratio to the first arm: what else the machine did hit both alike.

    With --text or --tokens, every arm reads these texts in windows, and a table has KL(first || arm) over the 20 most
    probable tokens and how often the best one is the same. Its first row is the first arm once more: the floor. The
    second is the first arm with route.tail_skip at the last of a token's experts: the scale, a loss that is known.

    Ctrl-C ends the measurement and shows the rounds that are complete.
    """
    check_outputs(json_file, plot)
    from strata_runtime.ab.arms import make_arms, scale_arm
    from strata_runtime.ab.plot import draw
    from strata_runtime.ab.quality import Quality
    from strata_runtime.ab.results import as_json, gather
    from strata_runtime.ab.rounds import Comparison
    from strata_runtime.ab.tables import lines

    task, read = _task(prompts, max_tokens, others), _texts(tokens, texts)
    package, flags = package_and_flags(ctx, others)
    flags = with_drafts(flags, others, package.require().knobs)
    arms = make_arms(given, package.require().knobs, package.environ, flags)
    if read is not None:
        for arm in arms:
            check_window(package, {**flags, **arm.texts}, window, f"--arm {arm.name}: --window")
    load = _Loader(model, package, flags, Terminal(quiet=quiet), Interrupt(), set())
    compared = Comparison(arms, task, rounds, load)
    knobs, environ = package.require().knobs, package.environ
    quality = None if read is None else Quality(window, lambda top_k: scale_arm(arms[0], top_k, knobs, environ, flags))
    problem: UserError | None = None
    try:
        with load.interrupt:
            _run(compared, quality, read, load)
    except KeyboardInterrupt:
        load.interrupt.requested = True
    except UserError as found:
        problem = found
    load.terminal.clear()
    interrupted = load.interrupt.requested or problem is not None
    if compared.info is not None and (problem is None or compared.is_measured):
        isa = package.require().native.ISA
        results = gather(compared, compared.info, isa, quality, interrupted=interrupted)
        drawn = plot if results.arms else None
        write_outputs(as_json(results), lines(results), json_file, drawn, partial(draw, results))
    if problem is not None:
        raise problem
    if interrupted:
        ctx.exit(EXIT_INTERRUPTED)
