"""The manifest of a kernels package: what was built, and the hash of every file."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.native import ABI_VERSION
from strata_runtime.strict_json import read_object

MANIFEST = "manifest.json"


class Damaged(Exception):
    """A package is not what was built; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """`abi_version` is that of `strata_runtime.native`; `files` maps paths in the package to hex SHA-256.

    `generator` is the version of what wrote it. `runs_on` are the architectures that the package is for, itself first,
    `not_on` those that it is known not to be for, `cpu_flags` what its weakest level needs (names of /proc/cpuinfo).
    """

    package: str
    backend: str
    arch: str
    key: str
    python_abi: str
    generator: str
    abi_version: int
    runs_on: tuple[str, ...]
    not_on: tuple[str, ...]
    cpu_flags: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def build_command(self) -> str:
        """The command that builds this package."""
        return build_command(self.backend, self.arch)


def build_command(backend: str, arch: str) -> str:
    """Return the command that builds the package of one target."""
    return f"strata-gen build --target {backend} {arch}"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a package folder. Raises `Damaged` when it is missing or is none."""
    try:
        raw = read_object(folder / MANIFEST)
    except UserError as problem:
        raise Damaged(str(problem)) from None
    abi_version, files = raw.get("abi_version"), raw.get("files")
    if not isinstance(abi_version, int) or not isinstance(files, dict):
        raise Damaged(f"{folder / MANIFEST}: abi_version or files are missing")

    def text(name: str) -> str:
        if not isinstance(raw.get(name), str):
            raise Damaged(f"{folder / MANIFEST}: {name} is missing")
        return str(raw[name])

    def texts(name: str) -> tuple[str, ...]:
        several = raw.get(name)
        if not isinstance(several, list):
            raise Damaged(f"{folder / MANIFEST}: {name} is missing")
        return tuple(map(str, several))

    return Manifest(
        package=text("package"),
        backend=text("backend"),
        arch=text("arch"),
        key=text("key"),
        python_abi=text("python_abi"),
        generator=text("generator"),
        abi_version=abi_version,
        runs_on=texts("runs_on"),
        not_on=texts("not_on"),
        cpu_flags=texts("cpu_flags"),
        files={str(name): str(digest) for name, digest in files.items()},
    )


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with its hash. Raises `Damaged` naming the first that differs."""
    for name, expected in manifest.files.items():
        path = folder / PurePosixPath(name)
        try:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as problem:
            raise Damaged(f"{path}: {problem.strerror}") from None
        if found != expected:
            raise Damaged(f"{path} is not the file that was built")


def misfit(manifest: Manifest) -> str | None:
    """Say why a whole package does not work with this runtime and interpreter; None when it does."""
    if manifest.generator != __version__:
        return f"it is of version {manifest.generator}, this runtime is {__version__}"
    if manifest.abi_version != ABI_VERSION:
        return f"it has ABI version {manifest.abi_version}, this runtime needs {ABI_VERSION}"
    own = str(sysconfig.get_config_var("SOABI"))
    if manifest.python_abi != own:
        return f"it was built for Python {manifest.python_abi}, this is {own}"
    return None
