"""The compiler: found, identified by what it is and not by where it lies, refused when it cannot do the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.model.target import CompilerFamily
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from strata_gen.toolchain import CXX20_SINCE, check_toolchain, find_toolchain
from strata_gen.tools import setting
from support.small_project import SmallProject, environment, make_compiler


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def fake(folder: Path, version_text: str, *, name: str = "g++") -> Path:
    """A compiler that only answers questions."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    answers = f"--version) cat <<EOF\n{version_text}\nEOF\n;; -dumpmachine) echo x86_64-linux-gnu;;"
    path.write_text(f'#!/bin/sh\ncase "$1" in {answers} esac\n')
    path.chmod(0o755)
    return path


GCC = "g++ (Debian 12.2.0-14) {}\nCopyright (C) 2022 Free Software Foundation, Inc."
CLANG = "Debian clang version {} (3)\nTarget: x86_64-pc-linux-gnu\nThread model: posix\nInstalledDir: /usr/lib/llvm/bin"


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_counts_as_unset(home: Path, value: str) -> None:
    assert setting({"CUDA_HOME": value}, "CUDA_HOME") is None
    plain = find_toolchain(environment(home))
    assert find_toolchain(environment(home, CXX=value, CC=value, CXXFLAGS=value, LDFLAGS=value)) == plain


def test_a_symlinked_or_moved_compiler_is_the_same_one(home: Path, tmp_path: Path) -> None:
    plain = find_toolchain(environment(home))
    link = tmp_path / "elsewhere/my-compiler"
    link.parent.mkdir()
    link.symlink_to(plain.compiler)
    assert find_toolchain(environment(home, CXX=str(link))).identity == plain.identity


def test_another_release_is_another_identity(home: Path, tmp_path: Path) -> None:
    first = fake(tmp_path / "a", GCC.format("12.2.0"))
    second = fake(tmp_path / "b", GCC.format("12.3.0"))
    identities = {find_toolchain(environment(home, CXX=str(path))).identity for path in (first, second)}
    assert len(identities) == 2


@pytest.mark.parametrize(
    ("text", "family", "version"),
    [
        (GCC.format("12.2.0"), CompilerFamily.GCC, (12, 2, 0)),
        (GCC.format("13.0"), CompilerFamily.GCC, (13, 0, 0)),
        (CLANG.format("19.1.7"), CompilerFamily.CLANG, (19, 1, 7)),
    ],
)
def test_family_and_version_are_read(
    home: Path, tmp_path: Path, text: str, family: CompilerFamily, version: tuple[int, ...]
) -> None:
    found = find_toolchain(environment(home, CXX=str(fake(tmp_path, text))))
    assert (found.family, found.version) == (family, version)


@pytest.mark.parametrize("text", [GCC.format("10.4.0"), CLANG.format("13.0.1")])
def test_a_compiler_without_cxx20_is_refused_with_the_release_to_install(home: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(GeneratorError) as caught:
        find_toolchain(environment(home, CXX=str(fake(tmp_path, text))))
    assert "too old for C++20" in caught.value.what
    assert "or newer" in caught.value.mend


def test_the_releases_with_cxx20_are_the_minimum_of_every_cpu_target() -> None:
    targets = [target for target in load_specs([specs_root()]).targets if target.levels]
    minima = {tuple((compiler.family, compiler.minimum) for compiler in target.compilers) for target in targets}
    assert [dict(pairs) for pairs in minima] == [CXX20_SINCE]


def test_no_compiler_names_the_package_to_install(home: Path, tmp_path: Path) -> None:
    with pytest.raises(GeneratorError) as caught:
        find_toolchain(environment(home, PATH=str(tmp_path)))
    assert "c++, g++, clang++" in caught.value.what
    assert "apt-get install g++" in caught.value.mend


def test_a_cxx_that_is_not_there_is_named(home: Path) -> None:
    with pytest.raises(GeneratorError) as caught:
        find_toolchain(environment(home, CXX="g++-99"))
    assert "'g++-99'" in caught.value.what and "unset CXX" in caught.value.mend


@pytest.mark.parametrize("text", ["tcc version 0.9.27", "something else"])
def test_a_compiler_of_another_kind_is_refused(home: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(GeneratorError, match="neither gcc nor clang"):
        find_toolchain(environment(home, CXX=str(fake(tmp_path, text))))


def test_a_launcher_before_the_compiler_is_no_part_of_its_identity(home: Path, tmp_path: Path) -> None:
    launcher = tmp_path / "ccache"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    plain = find_toolchain(environment(home))
    wrapped = find_toolchain(environment(home, CXX=f"{launcher} c++"))
    assert wrapped.launcher == str(launcher)
    assert wrapped.identity == plain.identity


def test_flags_that_break_the_arithmetic_are_refused(home: Path) -> None:
    with pytest.raises(GeneratorError, match="-ffast-math"):
        find_toolchain(environment(home, CXXFLAGS="-g -ffast-math"))


def test_flags_that_the_compiler_does_not_know_are_refused_before_anything_runs(home: Path) -> None:
    with pytest.raises(GeneratorError) as caught:
        find_toolchain(environment(home, CXXFLAGS="-march=nonsense"))
    assert "nonsense" in caught.value.what and "CXXFLAGS" in caught.value.mend


def test_native_flags_are_part_of_the_identity(home: Path) -> None:
    plain = find_toolchain(environment(home))
    assert find_toolchain(environment(home), ["-mavx2"]).identity != plain.identity


def test_a_target_that_does_not_allow_the_compiler_says_so(home: Path, tmp_path: Path, small: SmallProject) -> None:
    cpu = small.root / "specs/targets/cpu.yaml"
    cpu.write_text(cpu.read_text().replace("minimum: {value: 11,", "minimum: {value: 99,"))
    target = find_target(load_specs([small.specs]), "cpu", "x86-64-v2")
    with pytest.raises(GeneratorError) as caught:
        check_toolchain(find_toolchain(environment(home, CXX=str(make_compiler(tmp_path / "bin")))), target)
    assert "too old: 99 or newer is needed" in caught.value.what
