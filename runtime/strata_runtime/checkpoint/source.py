"""A checkpoint to load: a folder with config.json and safetensors files, or a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.checkpoint.config import Config, read_config
from strata_runtime.checkpoint.expected import safetensors_layout
from strata_runtime.checkpoint.folder import open_folder
from strata_runtime.checkpoint.gguf_config import read_gguf_config
from strata_runtime.checkpoint.stored import Found, Tensors, some
from strata_runtime.families import FamilyInfo, GgufIgnored, Layout
from strata_runtime.formats import FormatInfo
from strata_runtime.gguf.files import first_part, open_gguf
from strata_runtime.gguf.tensors import GgufTensor


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of a checkpoint before its tensors are matched.

    `layout`: how it names its tensors. `notes`: one line for each reason for which some of them are left out.
    """

    path: Path
    config: Config
    tensors: Tensors
    layout: Layout
    notes: tuple[str, ...]


def _found(tensor: GgufTensor, forms: dict[str, FormatInfo]) -> Found:
    form = forms.get(tensor.type)
    return Found(tensor.path, tensor.type, tensor.shape, form, tensor.data if form is not None else memoryview(b""))


def _named(ignored: GgufIgnored, names: Iterable[str]) -> Iterator[str]:
    patterns = [re.escape(one).replace(r"\{layer\}", "[0-9]+") for one in ignored.tensors]
    matches = re.compile("|".join(patterns) if patterns else "(?!)").fullmatch
    return (name for name in names if matches(name))


def _open_gguf(path: Path, families: Sequence[FamilyInfo], formats: Sequence[FormatInfo]) -> Checkpoint:
    file = open_gguf(first_part(path), formats)
    config = read_gguf_config(file, families)
    forms = {form.gguf: form for form in formats if form.gguf is not None}
    found = {name: _found(tensor, forms) for name, tensor in file.tensors.items()}
    notes = []
    assert config.family.gguf is not None
    for ignored in config.family.gguf.ignored:
        if names := list(_named(ignored, found)):
            notes.append(f"{file.path}: left out {some(names)}: {ignored.note}")
            for name in names:
                del found[name]
    tensors = Tensors(str(file.path), found, tuple(forms), file.bytes)
    return Checkpoint(file.path, config, tensors, "gguf", tuple(notes))


def open_checkpoint(path: Path, families: Sequence[FamilyInfo], formats: Sequence[FormatInfo]) -> Checkpoint:
    """Open a folder, or a GGUF file with all its parts, by any of them; tensors are mapped.

    `formats`: what tensors may be stored in. Raises `UserError` for whatever is wrong.
    """
    if path.is_file():
        return _open_gguf(path, families, formats)
    config = read_config(path, families)
    tensors = open_folder(path, formats)
    return Checkpoint(path, config, tensors, safetensors_layout(config, tensors.found), ())
