"""The C++ compiler: which one, what exactly it is, and whether it can build a target."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import GpuCompiler
from strata_gen.model.target import CompilerFamily, Target, Version, show_version
from strata_gen.tools import setting

CANDIDATES = ("c++", "g++", "clang++")
LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
# Releases before these lack parts of C++20 that the runtime uses.
CXX20_SINCE: Mapping[CompilerFamily, Version] = {CompilerFamily.GCC: (11,), CompilerFamily.CLANG: (19,)}
_BREAKS_ARITHMETIC = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only")
_INSTALL = "install one: Debian and Ubuntu 'apt-get install g++', Fedora 'dnf install gcc-c++', Arch 'pacman -S gcc'"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C++ compiler and the flags that the user adds to every compile and link; for a GPU its compiler too.

    `identity` is a hash over what the compiler says of itself; it knows neither its path nor its name.
    """

    compiler: Path
    launcher: str
    family: CompilerFamily
    version: Version
    machine: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    identity: str
    gpu: GpuCompiler | None = None

    def __str__(self) -> str:
        own = f"{self.family} {show_version(self.version)} ({self.compiler})"
        return f"{own}, {self.gpu}" if self.gpu else own


def _words(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(setting(environ, name) or ""))
    except ValueError as problem:
        raise GeneratorError(f"{name} cannot be read: {problem}", where=f"{name}={environ[name]}") from problem


def _ask(compiler: Path, *arguments: str, environ: Mapping[str, str]) -> str:
    command = [str(compiler), *arguments]
    english = {**environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, env=english, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise GeneratorError(f"the C++ compiler does not run: {problem}", where=str(compiler), mend=_INSTALL) from None
    if done.returncode != 0:
        first = next(iter((done.stderr or done.stdout).splitlines()), "no output")
        raise GeneratorError(
            f"the C++ compiler refuses '{shlex.join(arguments)}': {first}",
            where=str(compiler),
            mend="set CXX to a g++ or clang++, and CXXFLAGS to flags that it knows",
        )
    return done.stdout


def _find(environ: Mapping[str, str]) -> tuple[Path, str, tuple[str, ...]]:
    """Return the compiler's path, its launcher (empty without one), and flags that CXX holds besides."""
    words = _words(environ, "CXX")
    launcher = words[0] if words and Path(words[0]).name in LAUNCHERS else ""
    words = words[1:] if launcher else words
    for name in words[:1] or CANDIDATES:
        if found := shutil.which(name, path=environ.get("PATH")):
            return Path(found), launcher, words[1:]
    if words:
        raise GeneratorError(
            f"CXX names '{words[0]}', which is not there",
            where=f"CXX={environ['CXX']}",
            mend=f"unset CXX, or {_INSTALL}",
        )
    raise GeneratorError(f"no C++ compiler: looked for {', '.join(CANDIDATES)} on PATH", mend=_INSTALL)


def _family(version_text: str, compiler: Path) -> CompilerFamily:
    if "clang" in version_text:
        return CompilerFamily.CLANG
    if "Free Software Foundation" in version_text:
        return CompilerFamily.GCC
    raise GeneratorError(
        "the C++ compiler is neither gcc nor clang", where=str(compiler), mend="set CXX to one of them"
    )


def _version(version_text: str, compiler: Path) -> Version:
    # gcc's first line ends with the release; a distribution's own number may stand in parentheses before it.
    first = re.sub(r"\([^()]*\)", "", version_text.splitlines()[0])
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", first)
    if match is None:
        raise GeneratorError("the C++ compiler does not tell its version", where=str(compiler))
    return tuple(int(part) for part in match.groups(default="0"))


def _identity(version_text: str, machine: str, macros: str) -> str:
    """Hash what the compiler is, leaving out the name it was called by and the folder it lies in."""
    lines = [
        line for line in version_text.splitlines() if not line.startswith(("InstalledDir:", "Configuration file:"))
    ]
    lines[0] = lines[0].partition(" ")[2] if "(" in lines[0].partition(" ")[2] else lines[0]
    return hashlib.sha256("\0".join((*lines, machine, *sorted(macros.splitlines()))).encode()).hexdigest()


def find_toolchain(environ: Mapping[str, str], native_flags: Sequence[str] = ()) -> Toolchain:
    """Find the compiler: CXX when it is set, else the first of `CANDIDATES` on PATH.

    `native_flags` are a target's; what they and CXXFLAGS make the compiler predefine is part of the identity, because
    flags such as `-march=native` mean another thing on another machine. Raises `GeneratorError` when
    there is no compiler, it is too old for C++20, or it refuses CXXFLAGS or they would break the arithmetic.
    """
    compiler, launcher, words = _find(environ)
    version_text = _ask(compiler, "--version", environ=environ)
    family, version = _family(version_text, compiler), _version(version_text, compiler)
    if version < CXX20_SINCE[family]:
        raise GeneratorError(
            f"{family} {show_version(version)} is too old for C++20",
            where=str(compiler),
            mend=f"install {family} {show_version(CXX20_SINCE[family])} or newer, or set CXX to another compiler",
        )
    compile_flags = (*words, *_words(environ, "CXXFLAGS"))
    if broken := [flag for flag in compile_flags if flag in _BREAKS_ARITHMETIC]:
        raise GeneratorError(
            f"{broken[0]} changes what floating-point code means; strata's results rely on it",
            where="CXXFLAGS",
            mend=f"take {broken[0]} out of CXXFLAGS",
        )
    machine = _ask(compiler, "-dumpmachine", environ=environ).strip()
    macros = _ask(compiler, *native_flags, *compile_flags, "-dM", "-E", "-x", "c++", "/dev/null", environ=environ)
    identity = _identity(version_text, machine, macros)
    return Toolchain(compiler, launcher, family, version, machine, compile_flags, _words(environ, "LDFLAGS"), identity)


def check_toolchain(toolchain: Toolchain, target: Target) -> None:
    """Raise `GeneratorError` when the target's spec does not allow this compiler."""
    name = f"{target.backend} {target.name}"
    allowed = {compiler.family: compiler for compiler in target.compilers}
    if toolchain.family not in allowed:
        raise GeneratorError(
            f"{name} cannot be built with {toolchain.family}",
            where=str(toolchain.compiler),
            mend=f"set CXX to one of: {', '.join(allowed)}",
        )
    if reason := allowed[toolchain.family].refusal(toolchain.version):
        raise GeneratorError(
            f"{name}: {reason}", where=str(toolchain.compiler), mend="set CXX to another compiler or release"
        )
