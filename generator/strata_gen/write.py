"""Stage 6: generated files to disk, touching only what changed, so that mtimes follow content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_gen import __version__
from strata_gen.emitter import GeneratedFile
from strata_gen.errors import GeneratorError

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class TreeChanges:
    """What writing would do to a tree; paths relative to it, sorted. `foreign` files are nobody's: they stay."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def written(self) -> tuple[str, ...]:
        """Files that are written: new ones and changed ones."""
        return tuple(sorted((*self.new, *self.changed)))


def sha256_text(text: str) -> str:
    """Return the hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file by a temporary one in the same folder and a rename: readers see the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_manifest(tree: Path) -> Mapping[str, Mapping[str, object]]:
    """Return the `files` of a tree's manifest; empty when there is none, or none that can be read."""
    try:
        files = json.loads((tree / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if isinstance(files, dict) else {}


def _manifest_entry(file: GeneratedFile) -> dict[str, object]:
    return {
        "sha256": sha256_text(file.text),
        "origin": file.origin,
        "template": file.template,
        "sources": list(file.sources),
    }


def manifest_text(target: str, spec_hash: str, entries: Mapping[str, Mapping[str, object]]) -> str:
    """Return the text of `manifest.json`: generator version, target, hash of the specs, one entry per file."""
    manifest = {"generator": __version__, "target": target, "specs_sha256": spec_hash, "files": dict(entries)}
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def _files_below(tree: Path) -> Iterable[str]:
    for path in tree.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(tree).as_posix()


def compare_tree(tree: Path, files: tuple[GeneratedFile, ...]) -> TreeChanges:
    """Say what `write_tree` would do. Reads only."""
    wanted = {file.path: file.text.encode() for file in files}
    present = {path: _read(tree / path) for path in wanted}
    listed = {path for path in read_manifest(tree) if ".." not in Path(path).parts and not Path(path).is_absolute()}
    orphans = {path for path in listed - wanted.keys() if (tree / path).is_file()}
    return TreeChanges(
        new=tuple(sorted(path for path, data in present.items() if data is None)),
        changed=tuple(sorted(path for path, data in present.items() if data not in (None, wanted[path]))),
        removed=tuple(sorted(orphans)),
        unchanged=tuple(sorted(path for path, data in present.items() if data == wanted[path])),
        foreign=tuple(sorted(set(_files_below(tree)) - wanted.keys() - listed - {MANIFEST})),
    )


def _remove(tree: Path, path: str) -> None:
    (tree / path).unlink(missing_ok=True)
    for parent in (tree / path).parents:
        if parent == tree or any(parent.iterdir()):
            return
        parent.rmdir()


def write_tree(tree: Path, files: tuple[GeneratedFile, ...], target: str, spec_hash: str) -> TreeChanges:
    """Make `tree` hold exactly `files` and a manifest, writing only what differs.

    Removes what an earlier manifest listed and nobody emits any more; files that no manifest ever listed stay.
    Raises `GeneratorError` when the folder cannot be written.
    """
    entries = {file.path: _manifest_entry(file) for file in files}
    try:
        changes = compare_tree(tree, files)
        texts = {file.path: file.text for file in files}
        if changes.written or changes.removed:
            # Listed before they exist: after a kill in between, the next run still knows whose they are.
            both = manifest_text(target, spec_hash, {**read_manifest(tree), **entries})
            write_atomically(tree / MANIFEST, both.encode())
        for path in changes.written:
            write_atomically(tree / path, texts[path].encode())
        for path in changes.removed:
            _remove(tree, path)
        final = manifest_text(target, spec_hash, entries).encode()
        if _read(tree / MANIFEST) != final:
            write_atomically(tree / MANIFEST, final)
    except OSError as problem:
        raise GeneratorError(
            f"cannot write the generated files: {problem.strerror}",
            where=str(problem.filename or tree),
            mend="name a folder that you may write to with --out DIR",
        ) from problem
    return changes
