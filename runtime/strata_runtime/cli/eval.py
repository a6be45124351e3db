"""`strata eval`: how far an approximation is from the exact model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.loading import check_window, load_engine
from strata_runtime.cli.main import Entry, LazyGroup
from strata_runtime.cli.terminal import Terminal
from strata_runtime.params import MAX_WINDOW
from strata_runtime.whole_file import check_target

if TYPE_CHECKING:
    from strata_runtime.evaluation.divergence import Divergence


@click.group(
    cls=LazyGroup,
    table={
        "logpos": Entry("strata_runtime.cli.eval:logpos", "Write log-probabilities at every position of some texts."),
        "kl": Entry("strata_runtime.cli.eval:kl", "Compare two such files."),
    },
)
def command() -> None:
    """Judge an approximation by teacher-forced log-probabilities."""


@click.command("logpos", cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder or GGUF file of the model.")
@click.option("--tokens", type=click.Path(path_type=Path), metavar="FILE", help="JSON list of lists of token ids.")
@click.option("--text", "texts", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="A text to read.")
@click.option(
    "--window", type=click.IntRange(1, MAX_WINDOW), default=1, show_default=True, help="Positions of one window."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE.npz", help="Where to write, in place of STRATA_LOGPOS."
)
@click.option("--at", type=click.Path(path_type=Path), metavar="FILE.npz", help="Also take its top tokens' values.")
@click.option("--quiet", is_flag=True, help="Write nothing to stderr but errors.")
@click.pass_context
def logpos(
    ctx: click.Context,
    /,
    model: str,
    tokens: Path | None,
    texts: tuple[Path, ...],
    window: int,
    out: Path | None,
    at: Path | None,
    quiet: bool,
    **others: object,
) -> None:
    """Read texts through windows and write the log-probabilities at every position.

    The file holds the arrays seq, pos, target_logprob (NaN at position 0), top_ids and top_logprobs (the 20 most
    probable next tokens), one row per position; with --at also at_logprobs, this run's values of the other file's top
    tokens, which makes the divergence exact.
    """
    if (tokens is None) == (not texts):
        raise click.UsageError("Give either --tokens or --text.")
    from strata_runtime.evaluation.logpos import measure
    from strata_runtime.evaluation.record import load_record
    from strata_runtime.evaluation.sequences import read_texts, read_tokens

    if out is not None:
        check_target(out, "--out")
    reference = None if at is None else load_record(at)
    sequences = read_tokens(tokens) if tokens is not None else []
    package, flags = package_and_flags(ctx, others)
    terminal = Terminal(quiet=quiet)
    check_window(package, flags, window, "--window")
    with load_engine(model, package, flags, terminal, writes_logpos=True) as engine:
        if out is None and engine.settings.eval.logpos:
            out = Path(engine.settings.eval.logpos)
            check_target(out, "eval.logpos")
        if out is None:
            raise click.UsageError("Say where to write: --out FILE.npz, or the variable STRATA_LOGPOS.")
        sequences = sequences or read_texts(texts, engine)
        record = measure(engine, sequences, window, reference, terminal.progress("reading, position"))
    record.save(out)
    click.echo(f"{record.positions} positions of {len(sequences)} sequences in windows of {window}: {out}")


def _table(divergence: Divergence) -> str:
    lines = [f"{'positions':<12}{'number':>8}{'mean KL':>12}{'largest':>12}{'same top-1':>12}"]
    lines += [
        f"{b.name:<12}{b.positions:>8}{b.mean_kl:>12.6f}{b.largest_kl:>12.4f}{b.top1:>12.2%}"
        for b in divergence.buckets
    ]
    if divergence.guessed:
        lines.append(
            f"at {divergence.guessed} positions B does not tell all of A's top tokens: the figures are lower bounds; "
            "write B with --at A"
        )
    return "\n".join(lines)


@click.command("kl")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def kl(a: Path, b: Path, as_json: bool) -> None:
    """Print KL(A || B) over A's top 20 tokens and the agreement of the best one, by ranges of positions."""
    from strata_runtime.evaluation.divergence import compare
    from strata_runtime.evaluation.record import load_record

    found = compare(load_record(a), load_record(b))
    click.echo(json.dumps(asdict(found)) if as_json else _table(found))
