"""Python source files out of wheels, source archives and folders: cleaned, filtered, without duplicates."""

from __future__ import annotations

import hashlib
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ARCHIVE_SUFFIXES = (".whl", ".zip", ".tar.gz")

MIN_CHARACTERS, MAX_CHARACTERS = 400, 60_000
MAX_LINE = 400
MAX_MEAN_LINE = 70
MIN_ASCII_SHARE = 0.995
MAX_DIGIT_SHARE = 0.12
MIN_LICENCE_CHARACTERS = 300

_LEADING_COMMENTS = re.compile(r"^(?:#[^\n]*\n|\s*\n)+")


@dataclass(frozen=True, slots=True)
class Source:
    """Where files come from. `files` yields (name, bytes); at most `limit` characters of them are kept."""

    name: str
    files: Callable[[], Iterator[tuple[str, bytes]]]
    limit: int


def archive_source(path: Path, limit: int) -> Source:
    """Return the Python files of one wheel, zip or gzipped tar."""
    read = _tar_files if path.name.endswith(".tar.gz") else _zip_files
    return Source(path.name, lambda: read(path), limit)


def folder_source(path: Path, limit: int) -> Source:
    """Return the Python files below a folder, installed packages inside it left out."""
    return Source(str(path), lambda: _folder_files(path), limit)


def _zip_files(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                yield name, archive.read(name)


def _tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if stream is not None:
                yield member.name, stream.read()


def _folder_files(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*.py")):
        if "site-packages" not in file.relative_to(path).parts:
            yield str(file), file.read_bytes()


def clean(data: bytes) -> str | None:
    """Return a file's text with Unix line ends, no tabs and no leading licence; None when it is not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    comments = _LEADING_COMMENTS.match(text)
    if comments and len(comments.group(0)) > MIN_LICENCE_CHARACTERS:
        text = text[comments.end() :]
    return text


def is_suitable(text: str) -> bool:
    """Say whether a file reads like code that people wrote: not tiny, not a table of data, not mostly non-English."""
    if not MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS:
        return False
    lines = text.split("\n")
    return (
        max(map(len, lines)) <= MAX_LINE
        and len(text) / len(lines) <= MAX_MEAN_LINE
        and sum(map(str.isascii, text)) / len(text) >= MIN_ASCII_SHARE
        and sum(map(str.isdigit, text)) / len(text) <= MAX_DIGIT_SHARE
    )


def collect(sources: Iterable[Source], warn: Callable[[str], None]) -> list[str]:
    """Return the suitable texts of all sources, each once (white space aside); tell `warn` of unreadable sources."""
    seen: set[bytes] = set()
    texts: list[str] = []
    for source in sources:
        kept = 0
        try:
            for _name, data in source.files():
                if kept >= source.limit:
                    break
                text = clean(data)
                if text is None or not is_suitable(text) or not _is_new(text, seen):
                    continue
                texts.append(text)
                kept += len(text)
        except (OSError, tarfile.TarError, zipfile.BadZipFile) as problem:
            warn(f"skipped the rest of {source.name}: {problem}")
    return texts


def _is_new(text: str, seen: set[bytes]) -> bool:
    digest = hashlib.blake2b(re.sub(r"\s+", "", text).encode(), digest_size=16).digest()
    if digest in seen:
        return False
    seen.add(digest)
    return True
