"""From a model folder to a GGUF file."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.checkpoint.stored import Tensors
from strata_runtime.convert.check import check_network, check_text
from strata_runtime.convert.choice import Formats
from strata_runtime.convert.destination import check_destination, check_space
from strata_runtime.convert.encode import encoded
from strata_runtime.convert.network_keys import Value, gguf_of, network_keys
from strata_runtime.convert.targets import Target, Targets, plan_targets
from strata_runtime.convert.vocabulary import VocabularyKeys, vocabulary_keys, without_tokenizer
from strata_runtime.convert.write import TargetFile, padded
from strata_runtime.errors import UserError
from strata_runtime.formats import Bytes
from strata_runtime.loading import model_path
from strata_runtime.progress import Progress
from strata_runtime.provider import Provider
from strata_runtime.whole_file import replacing

_MIB = 1 << 20
_KEPT_BYTES = 64 * _MIB
"""After so much output, the pages of the source that were read are given back."""


@dataclass(frozen=True, slots=True)
class Share:
    """What is in one format."""

    tensors: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was written. `source_bytes`: size of the folder's weights; `notes`: one line for each thing to know."""

    path: str
    family: str
    architecture: str
    tensors: int
    bytes: int
    source_bytes: int
    formats: Mapping[str, Share]
    notes: tuple[str, ...]
    seconds: float


def _shares(targets: Targets) -> dict[str, Share]:
    shares: dict[str, Share] = {}
    for target in targets.tensors:
        share = shares.get(target.form.name, Share(0, 0))
        shares[target.form.name] = Share(share.tensors + 1, share.bytes + target.bytes)
    return shares


def _text(folder: Path, targets: Targets, vocab_size: int) -> VocabularyKeys:
    try:
        return vocabulary_keys(folder, targets.config, vocab_size)
    except UserError as problem:
        raise UserError(f"{problem}; --no-tokenizer converts the rest") from None


def _write(file: TargetFile, blocks: Iterable[tuple[Target, Bytes]], tensors: Tensors, progress: Progress) -> None:
    total, done, kept = max(1, file.bytes // _MIB), 0, 0
    maps = tensors.maps()
    for count in file.write(blocks):
        done += count
        if done - kept > _KEPT_BYTES:
            kept = done
            for mapped in maps:
                mapped.madvise(mmap.MADV_DONTNEED)
        progress(min(done // _MIB, total - 1), total)
    progress(total, total)


def _quiet(done: int, total: int) -> None:
    """Report nothing."""


def convert(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    formats: Formats,
    provider: Provider,
    *,
    tokenizer: bool = True,
    force: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Conversion:
    """Write the GGUF file `out` of a model folder, in the formats that were chosen.

    tokenizer: whether to put the folder's tokenizer and chat template inside. force: replace a GGUF file that is there.
    threads: how many encode at once. progress: called with (done, total) MiB of the file.

    `out` is complete, or as it was before. Raises `UserError` for whatever is wrong with the model or the destination,
    and for a model that GGUF files cannot hold.
    """
    started = perf_counter()
    folder, path = model_path(model), Path(out)
    if not folder.is_dir():
        raise UserError(f"{folder}: conversion starts from a folder with safetensors files, not from a GGUF file")
    check_destination(path, force=force)
    checkpoint = open_checkpoint(folder, provider.families, provider.formats)
    targets = plan_targets(checkpoint, formats)
    architecture = gguf_of(targets.config).architectures[0]
    text = _text(folder, targets, read_network(targets.config).vocab_size) if tokenizer else None
    keys: dict[str, Value] = {
        "general.type": "model",
        "general.name": folder.resolve().name,
        **network_keys(targets.config),
        **(without_tokenizer(targets.config) if text is None else text.keys),
    }
    with replacing(path) as partial:
        check_space(path, sum(padded(target.bytes) for target in targets.tensors))
        file = TargetFile(partial, architecture, keys, targets.tensors)
        try:
            # What cannot be said in a GGUF file is found before the long part.
            check_network(partial, targets.config, provider)
            if text is not None:
                check_text(partial, text.tokenizer)
            blocks = encoded(provider.native, targets.tensors, threads)
            _write(file, blocks, checkpoint.tensors, progress or _quiet)
        finally:
            file.close()
    return Conversion(
        path=str(path),
        family=targets.config.family.name,
        architecture=architecture,
        tensors=len(targets.tensors),
        bytes=file.bytes,
        source_bytes=checkpoint.tensors.bytes,
        formats=_shares(targets),
        notes=(*targets.notes, *(() if text is None else text.notes)),
        seconds=perf_counter() - started,
    )
