"""The artifact cache: whole packages by build key, so that nothing is compiled twice on one machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_gen.artifact import damage, put_in_place, read_facts
from strata_gen.progress import Reporter
from strata_gen.record import BuildRecord, read_record, write_record
from strata_gen.tools import setting

BUDGET_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cached package. `used` is when it was last stored or installed, in seconds since the epoch."""

    key: str
    package: str
    bytes: int
    used: float


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_CACHE_HOME/strata-gen`, or `~/.cache/strata-gen` when that is unset or not absolute."""
    base = Path(setting(environ, "XDG_CACHE_HOME") or "")
    if not base.is_absolute():
        base = Path(setting(environ, "HOME") or "~").expanduser() / ".cache"
    return base / "strata-gen"


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class ArtifactCache:
    """Packages under `<root>/artifacts/<key>/<package name>/`, locks in `locks/`, damaged ones in `damaged/`."""

    root: Path
    budget: int = BUDGET_BYTES

    @property
    def artifacts(self) -> Path:
        """The folder of entries."""
        return self.root / "artifacts"

    @property
    def damaged(self) -> Path:
        """Where entries go that are not what was stored."""
        return self.root / "damaged"

    def lock(self, key: str) -> Path:
        """Return the lock file of one key: its holder compiles, others wait."""
        return self.root / "locks" / f"{key}.lock"

    def find(self, key: str, package: str, reporter: Reporter) -> Path | None:
        """Return the stored package of a key when it is whole; a damaged one is moved aside with one line."""
        stored = self.artifacts / key / package
        if not stored.is_dir():
            return None
        problem = damage(stored)
        if problem is None:
            os.utime(self.artifacts / key)
            return stored
        self.damaged.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=self.damaged, prefix=f"{key[:12]}-"))
        (self.artifacts / key).rename(aside / key)
        reporter.say(f"the cached package is damaged ({problem}): moved to {aside}, building it again")
        return None

    def store(self, key: str, package: Path, record: BuildRecord | None = None) -> None:
        """Store a sealed package under its key, and drop the least recently used entries beyond the budget."""
        put_in_place(package, self.artifacts / key / package.name)
        if record is not None:
            write_record(self.artifacts / key, record)
        os.utime(self.artifacts / key)
        self.trim(keep=key)

    def entries(self) -> tuple[CacheEntry, ...]:
        """Return all entries, the most recently used first."""
        found = []
        for folder in self.artifacts.glob("*"):
            packages = [path for path in folder.glob("*") if read_facts(path) is not None]
            if packages:
                found.append(CacheEntry(folder.name, packages[0].name, _size(folder), folder.stat().st_mtime))
        return tuple(sorted(found, key=lambda entry: (-entry.used, entry.key)))

    def trim(self, keep: str = "") -> None:
        """Drop what is beyond the budget: damaged entries first, then the least recently used; `keep` stays."""
        entries = self.entries()
        total = sum(entry.bytes for entry in entries)
        if total + _size(self.damaged) > self.budget:
            shutil.rmtree(self.damaged, ignore_errors=True)
        for entry in reversed(entries):
            if total <= self.budget:
                return
            if entry.key != keep:
                self.drop(entry.key)
                total -= entry.bytes

    def records(self) -> tuple[tuple[CacheEntry, BuildRecord], ...]:
        """Return the entries that remember their build, the most recently used first."""
        pairs = ((entry, read_record(self.artifacts / entry.key)) for entry in self.entries())
        return tuple((entry, record) for entry, record in pairs if record is not None)

    def problems(self) -> tuple[tuple[CacheEntry, str], ...]:
        """Return every entry with what is wrong with it, empty text for a whole one."""
        return tuple((entry, damage(self.artifacts / entry.key / entry.package) or "") for entry in self.entries())

    def drop(self, key: str) -> None:
        """Remove one entry."""
        shutil.rmtree(self.artifacts / key, ignore_errors=True)

    def clear(self) -> int:
        """Remove every entry, damaged ones too; return the bytes freed. Locks stay: someone may hold one."""
        freed = sum(_size(folder) for folder in (self.artifacts, self.damaged) if folder.is_dir())
        shutil.rmtree(self.artifacts, ignore_errors=True)
        shutil.rmtree(self.damaged, ignore_errors=True)
        return freed


def open_cache(environ: Mapping[str, str], reporter: Reporter) -> ArtifactCache | None:
    """Return the user's cache; None, after one line, when its folder cannot be written."""
    cache = ArtifactCache(cache_root(environ))
    try:
        for folder in (cache.artifacts, cache.root / "locks"):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as problem:
        reporter.say(f"no artifact cache: {cache.root} cannot be written ({problem.strerror})")
        return None
    return cache


def age(entry: CacheEntry, now: float | None = None) -> str:
    """Return how long ago an entry was used, in words such as `3 h`."""
    seconds = max(0.0, (time.time() if now is None else now) - entry.used)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
