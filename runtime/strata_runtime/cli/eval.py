"""`strata eval`: how far an approximation is from the exact model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.loading import check_window, load_engine
from strata_runtime.cli.main import Entry, LazyGroup
from strata_runtime.cli.terminal import Terminal
from strata_runtime.errors import UserError
from strata_runtime.params import MAX_WINDOW
from strata_runtime.whole_file import check_target

if TYPE_CHECKING:
    from strata_runtime.evaluation.divergence import Divergence
    from strata_runtime.evaluation.record import LogposRecord
    from strata_runtime.session import Session


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
        record = measure(engine, sequences, window, reference, terminal.progress("reading, position"), engine.session)
    record.save(out)
    click.echo(f"{record.positions} positions of {len(sequences)} sequences in windows of {window}: {out}")


@click.command("kl")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--floor", type=click.Path(path_type=Path), metavar="FILE.npz", help="A once more: what chance does.")
@click.option(
    "--scale", type=click.Path(path_type=Path), metavar="FILE.npz", help="A run whose loss is known, such as tail skip."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def kl(a: Path, b: Path, floor: Path | None, scale: Path | None, as_json: bool) -> None:
    """Print KL(A || B) over A's top 20 tokens and the agreement of the best one, by ranges of positions.

    The first lines say what sets the sessions apart: knobs that may change the output, model, kernels. Records of
    other texts are refused; files of other tools, which do not keep that, must have the same positions.
    """
    from strata_runtime.evaluation.divergence import compare
    from strata_runtime.evaluation.record import load_record

    named = {"A": a, "floor": floor, "scale": scale, "B": b}
    paths = {name: path for name, path in named.items() if path is not None}
    records = {name: load_record(path) for name, path in paths.items()}
    found = {}
    for name in [name for name in paths if name != "A"]:
        try:
            found[name] = compare(records["A"], records[name])
        except UserError as problem:
            raise UserError(f"{paths[name]}: {problem}") from None
    sessions = {f"{name} ({paths[name]})": record.session for name, record in records.items()}
    click.echo(json.dumps(_as_json(found, records)) if as_json else "\n".join(_lines(found, sessions)))


def _as_json(found: Mapping[str, Divergence], records: Mapping[str, LogposRecord]) -> dict[str, object]:
    sessions = {name: None if each.session is None else each.session.fingerprint for name, each in records.items()}
    others = {name: asdict(found[name]) if name in found else None for name in ("floor", "scale")}
    return {**asdict(found["B"]), **others, "sessions": sessions}


def _lines(found: Mapping[str, Divergence], sessions: Mapping[str, Session | None]) -> Iterator[str]:
    from strata_runtime.evaluation.tables import by_name, by_range, told_apart

    yield from told_apart(sessions)
    yield ""
    yield from by_range(found["B"])
    if len(found) > 1:
        yield ""
        yield from by_name(found, "mean KL(A || .)")
    for name, each in found.items():
        if each.guessed:
            yield (
                f"at {each.guessed} positions {name} does not tell all of A's top tokens: its figures are lower "
                f"bounds; write {name} with --at A"
            )
