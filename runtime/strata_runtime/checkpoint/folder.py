"""A checkpoint folder: which files hold its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from strata_runtime.checkpoint.shard import Shard, open_shard
from strata_runtime.checkpoint.stored import Found, Tensors, some
from strata_runtime.errors import UserError
from strata_runtime.formats import FormatInfo
from strata_runtime.strict_json import json_type, read_object

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "config.json"


def _weight_map(path: Path) -> dict[str, str]:
    found = read_object(path).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise UserError(f"{path}: expected a 'weight_map' of tensor names to files, found {json_type(found)}")
    result: dict[str, str] = {}
    for name, file in found.items():
        if not isinstance(file, str) or PurePosixPath(file).name != file or not file.endswith(".safetensors"):
            raise UserError(
                f"{path}: tensor '{name}': expected a .safetensors file of this folder, found {json_type(file)}"
            )
        result[name] = file
    return result


def _open_sharded(folder: Path) -> dict[str, Shard]:
    index = folder / INDEX_FILE
    files = _weight_map(index)
    shards: dict[str, Shard] = {}
    for file in sorted(set(files.values())):
        if not (folder / file).is_file():
            raise UserError(f"{index}: names the file '{file}', which is not in the folder: fetch it too")
        shards[file] = open_shard(folder / file)
    for file, shard in shards.items():
        listed = {name for name, owner in files.items() if owner == file}
        if absent := sorted(listed - shard.entries.keys()):
            raise UserError(f"{shard.path}: lacks tensors that {INDEX_FILE} says it holds: {some(absent)}")
        if unlisted := sorted(shard.entries.keys() - listed):
            raise UserError(f"{shard.path}: holds tensors that {INDEX_FILE} does not list for it: {some(unlisted)}")
    return {name: shards[file] for name, file in files.items()}


def _shards(folder: Path) -> dict[str, Shard]:
    """Map the files of a folder; returns the one that holds each tensor."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; a checkpoint is a folder with {CONFIG_FILE} and {SINGLE_FILE}")
    if (folder / SINGLE_FILE).is_file():
        shard = open_shard(folder / SINGLE_FILE)
        return dict.fromkeys(shard.entries, shard)
    if (folder / INDEX_FILE).is_file():
        return _open_sharded(folder)
    raise UserError(f"{folder}: holds neither {SINGLE_FILE} nor {INDEX_FILE}")


def _found(shard: Shard, name: str, forms: Mapping[str, FormatInfo]) -> Found:
    entry = shard.entries[name]
    return Found(shard.path, entry.dtype, entry.shape, forms.get(entry.dtype), shard.data(name))


def open_folder(folder: Path, formats: Iterable[FormatInfo]) -> Tensors:
    """Map every file of a checkpoint: `model.safetensors`, or the files that its index names. Raises `UserError`.

    `formats`: what tensors may be stored in.
    """
    forms = {form.safetensors: form for form in formats if form.safetensors is not None}
    shards = _shards(folder)
    files = {shard.path: len(shard.content) for shard in shards.values()}
    where = str(next(iter(files)) if len(files) == 1 else folder)
    found = {name: _found(shard, name, forms) for name, shard in shards.items()}
    return Tensors(where, found, tuple(forms), sum(files.values()))
