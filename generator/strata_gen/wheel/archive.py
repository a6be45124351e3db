"""The file of a wheel: the same bytes for the same content, whenever and wherever it is written."""

from __future__ import annotations

import base64
import hashlib
import io
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_gen import __version__
from strata_gen.errors import GeneratorError
from strata_gen.tools import setting
from strata_gen.write import write_atomically

_OLDEST = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold
_NEWEST = 4354819198  # and the last, in seconds since the epoch
_MODE = 0o100644


@dataclass(frozen=True, slots=True)
class Wheel:
    """What a wheel holds. `files`, and `information` for its .dist-info, are bytes by path."""

    name: str
    version: str
    tag: str
    files: Mapping[str, bytes]
    information: Mapping[str, bytes]

    @property
    def stem(self) -> str:
        """Name and version as file names have them."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return f"{self.stem}-{self.tag}.whl"

    @property
    def is_pure(self) -> bool:
        """Whether it can be installed anywhere."""
        return self.tag.endswith("-none-any")


def entry_points(groups: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return the text of `entry_points.txt`."""
    parts = [
        f"[{group}]\n" + "".join(f"{name} = {to}\n" for name, to in rows.items()) for group, rows in groups.items()
    ]
    return "\n".join(parts).encode()


def _timestamp(environ: Mapping[str, str]) -> tuple[int, int, int, int, int, int]:
    text = setting(environ, "SOURCE_DATE_EPOCH")
    if text is None:
        return _OLDEST
    if not text.isdecimal() or int(text) > _NEWEST:
        raise GeneratorError(
            f"SOURCE_DATE_EPOCH is no number of seconds that a zip file can hold: '{text}'",
            mend="unset it, or set it to seconds since 1970",
        )
    return max(_OLDEST, time.gmtime(int(text))[:6])


def _record(members: Mapping[str, bytes], own: str) -> bytes:
    rows = []
    for path, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join((*rows, f"{own},,\n")).encode()


def _members(wheel: Wheel) -> dict[str, bytes]:
    """Return everything by path, in the order of the archive: the content, then the information, RECORD last."""
    folder = f"{wheel.stem}.dist-info"
    pure = str(wheel.is_pure).lower()
    head = f"Wheel-Version: 1.0\nGenerator: strata-gen {__version__}\nRoot-Is-Purelib: {pure}\nTag: {wheel.tag}\n"
    information = {**wheel.information, "WHEEL": head.encode()}
    members = dict(sorted(wheel.files.items()))
    members |= {f"{folder}/{path}": data for path, data in sorted(information.items())}
    return {**members, f"{folder}/RECORD": _record(members, f"{folder}/RECORD")}


def wheel_bytes(wheel: Wheel, environ: Mapping[str, str]) -> bytes:
    """Return the archive: ordered entries, one mode, and the time of SOURCE_DATE_EPOCH, else 1980.

    Raises `GeneratorError` when that variable is no time.
    """
    when, stream = _timestamp(environ), io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data in _members(wheel).items():
            entry = zipfile.ZipInfo(path, when)
            entry.create_system, entry.external_attr = 3, _MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return stream.getvalue()


def write_wheel(wheel: Wheel, data: bytes, folder: Path) -> Path:
    """Write a wheel's archive into a folder; return its path. Raises `GeneratorError`."""
    path = folder / wheel.filename
    try:
        write_atomically(path, data)
    except OSError as problem:
        raise GeneratorError(
            f"cannot write the wheel: {problem.strerror}",
            where=str(path),
            mend="free some space, or name a folder that you may write to with --dist DIR",
        ) from problem
    return path


def record_paths(path: Path) -> frozenset[str]:
    """Return the paths that a wheel's RECORD lists. Raises `GeneratorError` when it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
            lines = archive.read(name).decode().splitlines()
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as problem:
        raise GeneratorError("not a wheel", where=str(path), mend="remove it") from problem
    return frozenset(line.rsplit(",", 2)[0] for line in lines)
