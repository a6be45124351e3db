"""The two steps as commands: `prepare` makes corpus and tokenizer, `train` makes the checkpoint."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import torch

from train_strata_tiny import corpus, sources
from train_strata_tiny.config import TinyConfig
from train_strata_tiny.export import export
from train_strata_tiny.train import Schedule, train

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_NEW_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group()
def group() -> None:
    """Train strata-tiny from scratch."""


@group.command()
@click.option("--archives", type=_FOLDER, help="Folder of wheels and source archives.")
@click.option(
    "--folder", "folders", type=_FOLDER, multiple=True, help="Folder of Python files; may come several times."
)
@click.option("--stdlib/--no-stdlib", default=True, show_default=True, help="Use the standard library too.")
@click.option("--vocab-size", default=TinyConfig().vocab_size, show_default=True, help="Entries of the tokenizer.")
@click.option("--archive-limit", default=9_000_000, show_default=True, help="Characters kept of one archive.")
@click.option("--folder-limit", default=12_000_000, show_default=True, help="Characters kept of one folder.")
@click.option("--output", type=_NEW_FOLDER, required=True, help="Where corpus and tokenizer are written.")
def prepare(
    archives: Path | None,
    folders: tuple[Path, ...],
    stdlib: bool,
    vocab_size: int,
    archive_limit: int,
    folder_limit: int,
    output: Path,
) -> None:
    """Collect Python sources, hold some out, train the tokenizer."""
    paths = sorted(archives.iterdir()) if archives else []
    found = [
        sources.archive_source(path, archive_limit) for path in paths if path.name.endswith(sources.ARCHIVE_SUFFIXES)
    ]
    found += [sources.folder_source(path, folder_limit) for path in folders]
    if stdlib:
        found.append(sources.folder_source(Path(sysconfig.get_path("stdlib")), folder_limit))
    texts = sources.collect(found, warn=lambda line: click.echo(line, err=True))
    if len(texts) < 2:
        raise click.ClickException("fewer than two suitable Python files; name more with --archives or --folder")
    made = corpus.prepare(texts, output, vocab_size)
    click.echo(
        f"{len(texts)} files, {sum(map(len, texts)):,} characters, {len(made.chat_train)} chat pairs in {output}"
    )


def _config_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add one option per number of the model."""
    for field in reversed(fields(TinyConfig)):
        flag = "--" + field.name.replace("_", "-")
        function = click.option(flag, default=field.default, show_default=True, type=type(field.default))(function)
    return function


@group.command("train")
@click.option("--data", type=_FOLDER, required=True, help="What 'prepare' wrote.")
@click.option("--output", type=_NEW_FOLDER, required=True, help="Where the checkpoint is written.")
@click.option("--seconds", default=330.0, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--steps", default=1_000_000, show_default=True, type=click.IntRange(1), help="Stop here if sooner.")
@click.option("--batch-size", default=96, show_default=True, type=click.IntRange(1), help="Sequences a step.")
@click.option("--rate", default=4e-3, show_default=True, type=click.FloatRange(0), help="Peak learning rate.")
@click.option("--device", default="cuda" if torch.cuda.is_available() else "cpu", show_default=True)
@_config_options
def train_command(
    data: Path, output: Path, seconds: float, steps: int, batch_size: int, rate: float, device: str, **numbers: Any
) -> None:
    """Train, measure on held-out text, export."""
    config = TinyConfig(**numbers)
    if problem := config.problem():
        raise click.UsageError(problem)
    start = time.monotonic()

    def log(line: str) -> None:
        click.echo(f"[{time.monotonic() - start:6.1f} s] {line}")

    texts, tokenizer = corpus.load(data)
    if tokenizer.get_vocab_size() > config.vocab_size:
        raise click.UsageError(f"the tokenizer has {tokenizer.get_vocab_size()} entries; --vocab-size is too small")
    tokens, held_out = corpus.encode(texts, tokenizer)
    log(f"{len(tokens):,} tokens to train on, {len(held_out):,} held out")
    if min(len(tokens), len(held_out)) < config.context + 2:
        raise click.ClickException(f"too few tokens for a context of {config.context}; prepare more text")
    schedule = Schedule(seconds, steps, batch_size, rate)
    export(train(config, tokens, held_out, schedule, torch.device(device), log), tokenizer, output)
    log(f"checkpoint in {output}")


if __name__ == "__main__":
    group()
