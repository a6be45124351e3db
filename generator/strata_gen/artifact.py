"""The importable package as a folder: what is in it, and whether it is whole."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata_gen.write import MANIFEST, write_atomically


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_files(package: Path) -> tuple[Path, ...]:
    """Return every file of a package but its manifest and Python's caches, sorted."""
    found = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return tuple(sorted(path for path in found if path != package / MANIFEST))


def _digest(facts: Mapping[str, object]) -> str:
    """Return the hex SHA-256 of a manifest without its own `digest`."""
    text = json.dumps({name: value for name, value in facts.items() if name != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def seal(package: Path, facts: Mapping[str, object]) -> None:
    """Write the package's manifest: `facts`, the SHA-256 of every file, and the digest of all that."""
    hashes = {path.relative_to(package).as_posix(): sha256_file(path) for path in content_files(package)}
    sealed = {**facts, "files": hashes}
    text = json.dumps({**sealed, "digest": _digest(sealed)}, indent=1, sort_keys=True) + "\n"
    write_atomically(package / MANIFEST, text.encode())


def read_facts(package: Path) -> dict[str, Any] | None:
    """Return a package's manifest; None when it is missing or not readable as one."""
    try:
        facts = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and isinstance(facts.get("files"), dict) else None


def damage(package: Path) -> str | None:
    """Say what is wrong with a sealed package, by its manifest; None when it is whole."""
    facts = read_facts(package)
    if facts is None:
        return f"{MANIFEST} is missing or unreadable"
    if facts.get("digest") != _digest(facts):
        return f"{MANIFEST} is not what was built"
    for name, expected in facts["files"].items():
        path = package / name
        if not path.is_file():
            return f"{name} is missing"
        if sha256_file(path) != expected:
            return f"{name} is not what was built"
    return None


def put_in_place(package: Path, destination: Path) -> None:
    """Make `destination` be a copy of `package`. Whoever has the old one's files open keeps them."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Callers hold a lock, so what is there was left by a process that was killed.
    for left in (*destination.parent.glob(".new-*"), *destination.parent.glob(".old-*")):
        shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(dir=destination.parent, prefix=".new-"))
    old = Path(tempfile.mkdtemp(dir=destination.parent, prefix=".old-"))
    try:
        fresh = shutil.copytree(package, staging / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        if destination.exists():
            destination.rename(old / destination.name)
        fresh.rename(destination)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
