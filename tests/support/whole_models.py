"""Bytes that claim to be a whole model, read as loading one does: for fuzzing and for the replay of its corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.checkpoint.weights import load_weights
from strata_runtime.errors import UserError
from strata_runtime.text.source import open_text
from support import gguf_files, safetensors_files
from support.reference_provider import FORMATS, generated_families

SEPARATOR = b"\n=====next file=====\n"
"""Stands between the files of a model in one input."""
FILES_AT_MOST = 4


def _read_model(path: Path) -> None:
    checkpoint = open_checkpoint(path, generated_families(), FORMATS)
    network = read_network(checkpoint.config)
    weights = load_weights(checkpoint.tensors, checkpoint.config, checkpoint.layout, network.layers)
    assert len(weights.layers) == network.layers
    held = [*weights.tensors.values(), *(one for layer in weights.layers for one in layer.tensors.values())]
    assert sum(len(one.data) for one in held) <= checkpoint.tensors.bytes


def _read_text(path: Path) -> None:
    text = open_text(path)
    text.ends(1 << 20)
    text.chat_template()


def _in_a_folder(files: Sequence[tuple[str, bytes]], *readers: Callable[[Path], None], folder: bool = False) -> None:
    with TemporaryDirectory() as made:
        for name, content in files:
            (Path(made) / name).write_bytes(content)
        for read in readers:
            with suppress(UserError):
                read(Path(made) if folder else Path(made) / files[0][0])


def exercise_gguf(content: bytes) -> None:
    """Read a GGUF file, or the parts of one, up to weights, tokenizer and chat template."""
    parts = content.split(SEPARATOR)[:FILES_AT_MOST]
    sound = [gguf_files.exercise(part) for part in parts]
    if not all(sound):
        return
    count = len(parts)
    names = ["model.gguf"] if count == 1 else [f"model-{n + 1:05}-of-{count:05}.gguf" for n in range(count)]
    _in_a_folder(list(zip(names, parts, strict=True)), _read_model, _read_text)


def exercise_folder(content: bytes) -> None:
    """Read a safetensors file; or behind a config.json one such file, or an index and the files that it may name."""
    config, *files = content.split(SEPARATOR)[: FILES_AT_MOST + 1]
    if not files:
        safetensors_files.exercise(config)
        return
    names = ["model.safetensors"]
    if len(files) > 1:
        names = ["model.safetensors.index.json", *(f"{n}.safetensors" for n in range(1, len(files)))]
    _in_a_folder([("config.json", config), *zip(names, files, strict=True)], _read_model, folder=True)
