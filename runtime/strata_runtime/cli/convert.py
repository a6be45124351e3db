"""`strata convert`: a model folder packed into one GGUF file."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING

import click

from strata_runtime.cli.terminal import Terminal
from strata_runtime.provider import find_provider
from strata_runtime.sizes import size

if TYPE_CHECKING:
    from strata_runtime.convert.run import Conversion


def _closing_line(made: Conversion) -> str:
    shares = sorted(made.formats.items(), key=lambda item: -item[1].bytes)
    parts = ", ".join(f"{size(share.bytes)} of {name}" for name, share in shares)
    return (
        f"wrote {made.path}: {made.tensors} tensors in {size(made.bytes)} ({parts}) from {size(made.source_bytes)} "
        f"in {made.seconds:.1f} s"
    )


@click.command()
@click.option("--model", required=True, metavar="PATH", help="Folder with config.json, tokenizer.json and safetensors.")
@click.option("--out", required=True, metavar="FILE", help="The GGUF file to write.")
@click.option(
    "--format",
    "experts",
    required=True,
    metavar="NAME",
    help="Format of the routed experts, such as q4_k; a wrong name lists all.",
)
@click.option(
    "--dense-format",
    metavar="NAME",
    help="Format of the other matrices. Default: that of the experts, or q8_0 when it has less than 8 bits a value.",
)
@click.option(
    "--vocabulary-format", metavar="NAME", help="Format of embedding and output layer. Default: that of the others."
)
@click.option("--no-tokenizer", is_flag=True, help="Leave tokenizer and chat template out: the model takes ids alone.")
@click.option("--force", is_flag=True, help="Replace FILE when it is there.")
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Threads that encode. Default: one for each usable CPU.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object at the end.")
@click.option("--quiet", is_flag=True, help="Write nothing to stderr but errors.")
def command(
    model: str,
    out: str,
    experts: str,
    dense_format: str | None,
    vocabulary_format: str | None,
    no_tokenizer: bool,
    force: bool,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Pack a model folder into one GGUF file.

    Norms, biases and the router stay in F32. Where the blocks of a format do not divide a matrix's rows, the smallest
    one that fits and has a bit more for each value is taken, and a line says so. The file appears under its name once
    it is complete.
    """
    from strata_runtime.convert.choice import choose_formats
    from strata_runtime.convert.run import convert

    terminal, provider = Terminal(quiet=quiet), find_provider(os.environ)
    made = convert(
        model,
        out,
        choose_formats(provider.formats, experts, dense_format, vocabulary_format),
        provider,
        tokenizer=not no_tokenizer,
        force=force,
        threads=threads or len(os.sched_getaffinity(0)),
        progress=terminal.progress("writing, MiB"),
    )
    for note in made.notes:
        terminal.say(note)
    terminal.clear()
    click.echo(json.dumps(dataclasses.asdict(made)) if as_json else _closing_line(made))
