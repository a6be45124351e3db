"""The compiler of device code, that of CUDA: which one, what exactly it is, and whether it can build a target."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.model.target import CompilerFamily, Target, Version, show_version
from strata_gen.tools import setting

HOMES = ("CUDA_HOME", "CUDA_PATH")
FOLDERS = (Path("/usr/local/cuda/bin"), Path("/opt/cuda/bin"))
INSTALL = (
    "install the CUDA Toolkit, 13.0 or newer (https://developer.nvidia.com/cuda-downloads), or set CUDA_HOME to the "
    "folder of one"
)


@dataclass(frozen=True, slots=True)
class GpuCompiler:
    """A compiler of device code. `identity` is a hash over what it says of itself; it knows no path.

    `mend`: how to get one that fits.
    """

    compiler: Path
    family: CompilerFamily
    version: Version
    identity: str
    mend: str

    def __str__(self) -> str:
        return f"{self.family} {show_version(self.version)} ({self.compiler})"


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    for name in HOMES:
        if home := setting(environ, name):
            yield str(Path(home) / "bin" / "nvcc")
    yield "nvcc"
    yield from (str(folder / "nvcc") for folder in FOLDERS)


def _find(environ: Mapping[str, str]) -> Path:
    named = setting(environ, "CUDACXX")
    for name in (named,) if named else _candidates(environ):
        if found := shutil.which(name, path=environ.get("PATH")):
            return Path(found)
    if named:
        raise GeneratorError(
            f"CUDACXX names '{named}', which is not there",
            where=f"CUDACXX={named}",
            mend=f"unset CUDACXX, or {INSTALL}",
        )
    looked = ", ".join(("CUDACXX", *HOMES, "PATH", *map(str, FOLDERS)))
    raise GeneratorError(f"no nvcc, the compiler of CUDA: looked in {looked}", mend=INSTALL)


def _version_text(compiler: Path, environ: Mapping[str, str]) -> str:
    english = {**environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [str(compiler), "--version"],
            env=english,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise GeneratorError(f"nvcc does not run: {problem}", where=str(compiler), mend=INSTALL) from None
    return done.stdout


def find_gpu_compiler(environ: Mapping[str, str]) -> GpuCompiler:
    """Find nvcc: CUDACXX when it is set, else in CUDA_HOME, CUDA_PATH, on PATH, or where toolkits are installed.

    Raises `GeneratorError` when there is none, or it does not tell its version.
    """
    compiler = _find(environ)
    text = _version_text(compiler, environ)
    match = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise GeneratorError("nvcc does not tell its version", where=str(compiler), mend=INSTALL)
    version = tuple(int(part) for part in match.groups())
    return GpuCompiler(compiler, CompilerFamily.NVCC, version, hashlib.sha256(text.encode()).hexdigest(), INSTALL)


def check_gpu_compiler(compiler: GpuCompiler, target: Target) -> None:
    """Raise `GeneratorError` when the target's spec does not allow this release."""
    allowed = next((each for each in target.compilers if each.family is compiler.family), None)
    name = f"{target.backend} {target.name}"
    if allowed is None:
        raise GeneratorError(f"{name} cannot be built with {compiler.family}", where=str(compiler.compiler))
    if reason := allowed.refusal(compiler.version):
        raise GeneratorError(f"{name}: {reason}", where=str(compiler.compiler), mend=compiler.mend)
