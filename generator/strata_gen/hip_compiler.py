"""The compiler of device code for AMD GPUs: a ROCm's clang, else the system's, each with the lld of its release."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import GpuCompiler
from strata_gen.model.target import Compiler, CompilerFamily, Target, Version, show_version
from strata_gen.tools import setting

HOMES = ("ROCM_PATH", "HIP_PATH")
FOLDERS = (Path("/opt/rocm"),)
_IN_HOME = ("bin/amdclang++", "llvm/bin/clang++", "lib/llvm/bin/clang++")
_NEWEST = 40  # release that a numbered command is looked for, whatever the specs allow
_VERSION = re.compile(r"\bclang version (\d+)\.(\d+)\.(\d+)")
_LLD = re.compile(r"\bLLD (\d+)\.")


def _install(allowed: Compiler) -> str:
    release = allowed.minimum[0]
    return (
        f"install clang and lld: Debian and Ubuntu 'apt-get install --no-install-recommends clang-{release} "
        f"lld-{release}'; or install ROCm, or set HIPCXX or ROCM_PATH to the clang++ or the folder of one"
    )


def _of_rocm(environ: Mapping[str, str]) -> Iterator[Path]:
    homes = [Path(given) for name in HOMES if (given := setting(environ, name))]
    for home in (*homes, *FOLDERS):
        yield from (home / name for name in _IN_HOME)


def _of_system(environ: Mapping[str, str], allowed: Compiler) -> Iterator[Path]:
    for name in (*(f"clang++-{release}" for release in range(allowed.minimum[0], _NEWEST)), "clang++"):
        if found := shutil.which(name, path=environ.get("PATH")):
            yield Path(found)


def _said(command: Path, *arguments: str, environ: Mapping[str, str]) -> str | None:
    """Return what a command prints; None when it does not run."""
    try:
        done = subprocess.run(
            [command, *arguments],
            env={**environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _version(text: str | None) -> Version | None:
    match = _VERSION.search(text or "")
    return tuple(map(int, match.groups())) if match else None


def _named(environ: Mapping[str, str], name: str, allowed: Compiler) -> Path:
    found = shutil.which(name, path=environ.get("PATH"))
    if found is None:
        raise GeneratorError(
            f"HIPCXX names '{name}', which is not there",
            where=f"HIPCXX={name}",
            mend=f"unset HIPCXX, or {_install(allowed)}",
        )
    if Path(found).name.startswith("hipcc"):
        raise GeneratorError(
            "HIPCXX names hipcc, which adds flags of its own",
            where=f"HIPCXX={name}",
            mend="set HIPCXX to the clang++ that it calls: 'llvm/bin/clang++' in the folder of ROCm",
        )
    return Path(found)


def _choose(environ: Mapping[str, str], allowed: Compiler) -> tuple[Path, str]:
    """Return the compiler and what it says of itself: the first whose release the specs allow, else the first."""
    if name := setting(environ, "HIPCXX"):
        named = _named(environ, name, allowed)
        return named, _said(named, "--version", environ=environ) or ""
    there = [path for path in _of_rocm(environ) if shutil.which(path)] or [*_of_system(environ, allowed)]
    if not there:
        looked = ", ".join(("HIPCXX", *HOMES, *map(str, FOLDERS), "PATH"))
        raise GeneratorError(f"no clang, the compiler of HIP: looked in {looked}", mend=_install(allowed))
    texts = [(path, _said(path, "--version", environ=environ) or "") for path in there]
    fitting = ((path, text) for path, text in texts if (found := _version(text)) and allowed.refusal(found) is None)
    return next(fitting, texts[0])


def _linker(compiler: Path, release: Version, environ: Mapping[str, str]) -> str:
    """Return what the lld that a clang calls says of itself."""
    name = (_said(compiler, "-print-prog-name=lld", environ=environ) or "").strip()
    text = _said(Path(name), "-flavor", "gnu", "--version", environ=environ) if Path(name).is_absolute() else None
    mend = f"install it: Debian and Ubuntu 'apt-get install --no-install-recommends lld-{release[0]}'"
    if text is None:
        raise GeneratorError(f"clang {show_version(release)} has no lld, its linker", where=str(compiler), mend=mend)
    match = _LLD.search(text)
    if match is None or int(match[1]) != release[0]:
        raise GeneratorError(
            f"the lld of clang {show_version(release)} is of another release: {text.strip()}", where=name, mend=mend
        )
    return text.strip()


def find_hip_compiler(environ: Mapping[str, str], target: Target) -> GpuCompiler:
    """Find clang for `target`: HIPCXX when it is set, else that of a ROCm, else the first allowed one on PATH.

    A ROCm is looked for in ROCM_PATH, HIP_PATH and where it is installed. Raises `GeneratorError` when there is none,
    it is no clang, or its lld is missing.
    """
    allowed = next(each for each in target.compilers if each.family is CompilerFamily.CLANG)
    compiler, text = _choose(environ, allowed)
    version = _version(text)
    if version is None:
        raise GeneratorError(
            "the compiler of HIP is no clang, or does not run", where=str(compiler), mend=_install(allowed)
        )
    lines = [line for line in text.splitlines() if not line.startswith(("InstalledDir:", "Configuration file:"))]
    linker = "" if allowed.refusal(version) else _linker(compiler, version, environ)
    identity = hashlib.sha256("\0".join((*lines, linker)).encode()).hexdigest()
    return GpuCompiler(compiler, CompilerFamily.CLANG, version, identity, _install(allowed))
