"""Builds of a small project: what is compiled, what is not, and what a failure says."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pybind11
import pytest

from strata_gen.artifact import damage
from strata_gen.build import BuildResult
from strata_gen.errors import GeneratorError
from strata_gen.failures import BuildFailure
from strata_gen.host import HostCpu
from strata_gen.progress import Reporter
from support.small_project import Builds, compiles, environment, make_compiler, make_small_project

LEVEL = "src/levels/avx512vnni/vector_bytes.cpp"
ANSWER, BINDINGS = "runtime/src/answer.cpp", "runtime/src/bindings.cpp"


def ask(result: BuildResult, expression: str) -> str:
    """Value of an expression over the built module, in a process of its own."""
    code = f"import {result.package}._native as native; print({expression})"
    environ = {**os.environ, "PYTHONPATH": str(result.path.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class Built(NamedTuple):
    """One finished build that tests only look at."""

    run: Builds
    result: BuildResult
    said: str

    @property
    def commands(self) -> list[dict[str, str]]:
        commands: list[dict[str, str]] = json.loads(
            (self.run.small.layout().cmake / "compile_commands.json").read_text()
        )
        return commands


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder, said = tmp_path_factory.mktemp("built"), io.StringIO()
    run = Builds(make_small_project(folder / "project"), folder / "home", Reporter(said))
    return Built(run, run(), said.getvalue())


def test_a_first_build_compiles_everything(built: Built) -> None:
    result = built.result
    assert (result.how, set(result.compiled)) == ("built", {LEVEL, ANSWER, BINDINGS})
    assert result.render().startswith("built strata_kernels_cpu_x86_64_v2 in ")
    assert "3 of 3 files compiled" in result.render()
    assert "configuring (first build)" in built.said
    assert f"] {ANSWER}\n" in built.said


def test_the_package_imports_and_says_what_it_is(built: Built) -> None:
    result = built.result
    assert ask(result, "native.answer()") == "42"
    manifest = json.loads((result.path / "manifest.json").read_text())
    assert manifest["key"] == result.key
    assert (manifest["backend"], manifest["arch"], manifest["abi_version"]) == ("cpu", "x86-64-v2", 1)
    assert manifest["compile_knobs"] == {"window.max_tokens": 8}
    assert set(manifest["files"]) == {path.name for path in result.path.iterdir()} - {"manifest.json"}
    assert damage(result.path) is None


def test_flags_of_a_level_reach_that_level_alone(built: Built) -> None:
    assert ask(built.result, "native.VECTOR_BYTES") == "64"
    with_vnni = [entry["file"] for entry in built.commands if "-mavx512vnni" in entry["command"]]
    assert [Path(path).name for path in with_vnni] == ["vector_bytes.cpp"]


def test_flags_keep_the_arithmetic(built: Built) -> None:
    for entry in built.commands:
        assert "-ffp-contract=off" in entry["command"] and "-O3" in entry["command"]
        assert "-ffast-math" not in entry["command"] and "-flto" not in entry["command"]


def test_nothing_changed_compiles_nothing(built: Built) -> None:
    again = built.run(cache=False)
    assert (again.how, again.compiled) == ("current", ())
    assert again.render().startswith("strata_kernels_cpu_x86_64_v2: up to date (key ")


def test_a_touched_source_compiles_nothing(built: Built) -> None:
    os.utime(built.run.small.source)
    assert built.run(cache=False).how == "current"


def test_one_changed_source_compiles_one_file(run_build: Builds) -> None:
    run_build()
    edit(run_build.small.source, "return kAnswer", "return kAnswer + 1")
    result = run_build()
    assert result.compiled == (ANSWER,)
    assert "1 of 3 files compiled" in result.render()
    assert ask(result, "native.answer()") == "43"


def test_a_changed_header_compiles_what_includes_it(run_build: Builds) -> None:
    run_build()
    result = run_build(set_values={"window.max_tokens": "16"})
    assert result.compiled == (BINDINGS,)
    assert ask(result, "native.MAX_WINDOW") == "16"


def test_a_new_source_is_compiled_and_a_removed_one_forgotten(run_build: Builds) -> None:
    run_build()
    extra = run_build.small.root / "runtime/src/extra.cpp"
    extra.write_text("int extra_symbol() { return 1; }\n")
    assert run_build().compiled == ("runtime/src/extra.cpp",)
    extra.unlink()
    result = run_build(cache=False)
    assert result.how == "built" and result.compiled == ()
    assert len(result.sources) == 3


def test_other_flags_start_the_cmake_folder_anew(run_build: Builds, said: io.StringIO) -> None:
    run_build()
    result = run_build(CXXFLAGS="-DOTHER=1")
    assert len(result.compiled) == 3
    assert "configuring (flags or folders changed)" in said.getvalue()


def test_another_compiler_starts_the_cmake_folder_anew(run_build: Builds, tmp_path: Path, said: io.StringIO) -> None:
    compiler = make_compiler(tmp_path / "bin")
    run_build(CXX=str(compiler))
    script = compiler.read_text().replace(
        "#!/bin/sh",
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'g++ (other) 12.9.0' && echo 'Free Software Foundation' && exit",
    )
    compiler.write_text(script)
    assert len(run_build(CXX=str(compiler)).compiled) == 3
    assert "configuring (the compiler changed)" in said.getvalue()


def test_the_same_key_elsewhere_comes_from_the_cache(run_build: Builds, tmp_path: Path) -> None:
    compiler = make_compiler(tmp_path / "bin")
    first = run_build(CXX=str(compiler))
    before = compiles(compiler)
    second = run_build(out=tmp_path / "out2", CXX=str(compiler))
    assert (second.how, second.key) == ("cached", first.key)
    assert compiles(compiler) == before
    assert ask(second, "native.answer()") == "42"


def test_without_the_cache_another_folder_gives_the_same_bytes(run_build: Builds, tmp_path: Path) -> None:
    first = run_build(cache=False)
    second = run_build(out=tmp_path / "another place", cache=False)
    assert (first.how, second.how) == ("built", "built")
    assert not (tmp_path / "home").exists()
    name = next(path.name for path in first.path.glob("_native*"))
    assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


def test_a_truncated_module_in_place_is_noticed_and_replaced(run_build: Builds, said: io.StringIO) -> None:
    result = run_build()
    os.truncate(next(result.path.glob("_native*")), 100)
    again = run_build()
    assert again.how == "cached"
    assert "damaged" in said.getvalue()
    assert ask(again, "native.answer()") == "42"


def test_a_home_that_cannot_be_written_costs_the_cache_alone(run_build: Builds, said: io.StringIO) -> None:
    assert run_build(HOME="/dev/null").how == "built"
    assert said.getvalue().count("cannot be written") == 1


def test_an_output_folder_that_cannot_be_written_is_one_clear_error(run_build: Builds) -> None:
    with pytest.raises(GeneratorError) as caught:
        run_build(out=Path("/dev/null/out"))
    assert "Not a directory" in caught.value.render() and "/dev/null" in caught.value.where


def test_a_compile_error_is_shown_at_the_file_that_one_would_edit(run_build: Builds) -> None:
    edit(run_build.small.source, "return kAnswer", "return kAnswr")
    with pytest.raises(BuildFailure) as caught:
        run_build()
    assert caught.value.line.startswith("runtime/src/answer.cpp:5:23: error: 'kAnswr' was not declared")
    log = run_build.small.layout().logs / "build.log"
    assert "kAnswr" in log.read_text()
    assert str(log) in str(log.parent / caught.value.log.name)
    rerun = subprocess.run(caught.value.rerun, shell=True, capture_output=True, text=True)
    assert rerun.returncode != 0 and "kAnswr" in rerun.stdout


def test_a_failed_build_leaves_the_last_package_in_place(run_build: Builds) -> None:
    result = run_build()
    edit(run_build.small.source, "return kAnswer", "return kAnswr")
    with pytest.raises(BuildFailure):
        run_build()
    assert ask(result, "native.answer()") == "42"
    edit(run_build.small.source, "return kAnswr", "return kAnswer + 2")
    assert ask(run_build(), "native.answer()") == "44"


def test_an_error_in_a_generated_file_names_its_template(run_build: Builds) -> None:
    edit(run_build.small.root / "templates/limits.hpp.j2", "constexpr", "constexp")
    with pytest.raises(BuildFailure) as caught:
        run_build()
    assert "[generated from templates/limits.hpp.j2]" in caught.value.line


def test_a_missing_header_and_a_missing_symbol_look_different(run_build: Builds) -> None:
    edit(run_build.small.source, "strata/answer.hpp", "strata/none.hpp")
    with pytest.raises(BuildFailure) as header:
        run_build()
    edit(run_build.small.source, "strata/none.hpp", "strata/answer.hpp")
    edit(run_build.small.source, "int answer()", "int renamed()")
    with pytest.raises(BuildFailure) as symbol:
        run_build()
    assert header.value.hint == "a header is missing"
    assert "cannot be imported" in symbol.value.line and "undefined symbol" in symbol.value.line
    assert "declared but defined nowhere" in symbol.value.hint


def test_a_compiler_killed_for_memory_says_so(run_build: Builds, tmp_path: Path) -> None:
    compiler = make_compiler(tmp_path / "bin", before="kill -KILL $$")
    with pytest.raises(BuildFailure) as caught:
        run_build(CXX=str(compiler))
    assert "--jobs 1" in caught.value.hint


def test_code_that_this_cpu_cannot_run_says_so(run_build: Builds) -> None:
    edit(
        run_build.small.root / "runtime/src/bindings.cpp",
        "PyObject* module =",
        "__builtin_trap();\n  PyObject* module =",
    )
    with pytest.raises(BuildFailure) as caught:
        run_build()
    assert "SIGILL" in caught.value.line and "CPU" in caught.value.hint


def test_a_target_beyond_this_cpu_is_built_and_not_imported(
    run_build: Builds, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata_gen.import_check.read_host", lambda: HostCpu("x86_64", "old", frozenset()))
    result = run_build()
    assert "is not imported to check it: this CPU lacks cx16" in said.getvalue()
    assert json.loads((result.path / "manifest.json").read_text())["abi_version"] == 1


def test_missing_python_headers_are_named_before_anything_runs(
    run_build: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata_gen.build.sysconfig.get_path", lambda _name: str(tmp_path))
    with pytest.raises(GeneratorError) as caught:
        run_build()
    assert "python3-dev" in caught.value.mend


def test_a_switch_behind_the_keys_back_does_not_reach_the_compiler(run_build: Builds, tmp_path: Path) -> None:
    hostile = tmp_path / "include/strata"
    hostile.mkdir(parents=True)
    (hostile / "answer.hpp").write_text("#error taken from CPATH\n")
    result = run_build(CPATH=str(tmp_path / "include"), CMAKE_BUILD_TYPE="Debug", CMAKE_GENERATOR="Unix Makefiles")
    assert result.how == "built"


def test_the_tree_builds_by_hand_with_its_presets_and_sanitizers(run_build: Builds, tmp_path: Path) -> None:
    run_build()
    layout = run_build.small.layout()
    environ = environment(tmp_path / "home")
    packages = tmp_path / "with a space"
    shutil.copytree(Path(pybind11.__file__).parent, packages / "pybind11")
    environ["PYTHONPATH"] = f"{packages}{os.pathsep}{environ['PYTHONPATH']}"

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=layout.tree, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "stress executable" in run("cmake", "--list-presets")
    run("cmake", "--preset", "address", f"-DPython_EXECUTABLE={sys.executable}")
    run("cmake", "--build", "--preset", "address", "--target", "strata_stress")
    run(str(layout.root / "by-hand/address/strata_stress"))
    assert not list(layout.cmake.glob("strata_stress*"))


def test_cmake_over_the_checkout_itself_says_what_to_do(run_build: Builds, tmp_path: Path) -> None:
    done = subprocess.run(
        ["cmake", "-S", str(run_build.small.root), "-B", str(tmp_path / "x"), "-G", "Ninja"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "strata-gen emit" in done.stderr
