"""`strata profile`: how often each expert is chosen."""

from __future__ import annotations

from pathlib import Path

import click

from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.loading import load_engine
from strata_runtime.cli.terminal import Terminal
from strata_runtime.whole_file import check_target


@click.command(cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder or GGUF file of the model.")
@click.option("--tokens", type=click.Path(path_type=Path), metavar="FILE", help="JSON list of lists of token ids.")
@click.option("--text", "texts", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="A text to read.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE.json", help="Where to write.")
@click.option("--quiet", is_flag=True, help="Write nothing to stderr but errors.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    tokens: Path | None,
    texts: tuple[Path, ...],
    out: Path,
    quiet: bool,
    **others: object,
) -> None:
    """Read texts and write how often each expert was chosen.

    Give the file to --expert-profile: with --expert-cache N, the N most used experts get a slot on the device.
    """
    if (tokens is None) == (not texts):
        raise click.UsageError("Give either --tokens or --text.")
    from strata_runtime.evaluation.sequences import read_texts, read_tokens

    check_target(out, "--out")
    sequences = read_tokens(tokens) if tokens is not None else []
    package, flags = package_and_flags(ctx, others)
    terminal = Terminal(quiet=quiet)
    with load_engine(model, package, flags, terminal) as engine:
        sequences = sequences or read_texts(texts, engine)
        profile = engine.expert_profile(sequences, terminal.progress("reading, token"))
    profile.save(out)
    layers, experts = profile.counts.shape
    click.echo(f"{profile.tokens} tokens through {layers} layers of {experts} experts: {out}")
