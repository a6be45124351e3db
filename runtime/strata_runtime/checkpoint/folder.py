"""A checkpoint folder: which files hold its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from strata_runtime.checkpoint.header import Entry
from strata_runtime.checkpoint.shard import Shard, open_shard
from strata_runtime.errors import UserError
from strata_runtime.strict_json import json_type, read_object

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "config.json"
NAMED_AT_MOST = 5


def some(names: Iterable[str]) -> str:
    """Name the first few of `names` and count the rest."""
    listed = list(names)
    rest = len(listed) - NAMED_AT_MOST
    return ", ".join(listed[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True, slots=True)
class Tensors:
    """All tensors of a checkpoint folder, by name."""

    folder: Path
    shards: dict[str, Shard]

    def entry(self, name: str) -> Entry:
        """Dtype, shape and place of one tensor."""
        return self.shards[name].entries[name]

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor in its stored dtype, mapped."""
        return self.shards[name].tensor(name)

    @property
    def bytes(self) -> int:
        """Size of all files, in bytes."""
        return sum({shard.path: shard.bytes.nbytes for shard in self.shards.values()}.values())

    @property
    def where(self) -> str:
        """The folder, or its one file, for messages about tensors that are not there."""
        files = {shard.path for shard in self.shards.values()}
        return str(files.pop() if len(files) == 1 else self.folder)


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


def _open_sharded(folder: Path) -> Tensors:
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
    return Tensors(folder, {name: shards[file] for name, file in files.items()})


def open_folder(folder: Path) -> Tensors:
    """Map every file of a checkpoint: `model.safetensors`, or the files that its index names. Raises `UserError`."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; a checkpoint is a folder with {CONFIG_FILE} and {SINGLE_FILE}")
    if (folder / SINGLE_FILE).is_file():
        shard = open_shard(folder / SINGLE_FILE)
        return Tensors(folder, dict.fromkeys(shard.entries, shard))
    if (folder / INDEX_FILE).is_file():
        return _open_sharded(folder)
    raise UserError(f"{folder}: holds neither {SINGLE_FILE} nor {INDEX_FILE}")
