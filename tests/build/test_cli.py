"""The commands emit, plan, build and cache, as a user runs them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strata_gen.build import refuse_without_package
from strata_gen.cli.main import group
from strata_gen.errors import GeneratorError
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from support.small_project import Builds, SmallProject, environment


@pytest.fixture
def run(tmp_path: Path):
    def run(*arguments: str, **extra: str) -> Result:
        environ = environment(tmp_path / "home", XDG_CACHE_HOME="", **extra)  # the runner adds to what is set
        result = CliRunner(env=environ).invoke(group, list(arguments))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


TARGETS = [(str(target.backend), target.name) for target in load_specs([specs_root()]).targets if not target.native]


def test_every_declared_target_is_emitted(run, tmp_path: Path) -> None:
    for backend in sorted({backend for backend, _ in TARGETS}):
        archs = [arch for kind, arch in TARGETS if kind == backend]
        result = run("emit", "--target", backend, *archs, "--out", str(tmp_path / "out"))
        assert result.exit_code == 0, result.output
        assert len(result.stdout.splitlines()) == len(archs)
        for arch in archs:
            assert (tmp_path / "out" / backend / arch / "tree" / "manifest.json").is_file()


def test_emitting_again_writes_nothing(run, tmp_path: Path) -> None:
    emit = ("emit", "--target", "cpu", "x86-64-v3", "--out", str(tmp_path / "out"))
    run(*emit)
    assert "0 written, 0 removed" in run(*emit).stdout


def test_a_file_of_the_user_in_the_tree_is_named(run, tmp_path: Path) -> None:
    emit = ("emit", "--target", "cpu", "x86-64-v3", "--out", str(tmp_path / "out"))
    run(*emit)
    (tmp_path / "out/cpu/x86-64-v3/tree/notes.txt").write_text("mine")
    assert "left alone, not ours: notes.txt" in run(*emit).stdout


def test_a_target_without_a_host_has_no_packages() -> None:
    specs = load_specs([specs_root()])
    target = replace(find_target(specs, "hip", "gfx1151"), host="")
    with pytest.raises(GeneratorError, match="there are no packages for hip gfx1151: its spec has no 'host'") as caught:
        refuse_without_package(make_plan(specs, target, {}))
    assert "add 'host: x86-64-v2' there" in caught.value.mend


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "cpu"), "Missing argument 'ARCH...'"),
        (("native",), "Missing option '--target'"),
        (("--target", "cpu", "native", "--set", "window"), "'window' is not KNOB=VALUE"),
        (("--target", "cpu", "native", "--set", "a.b=1", "--set", "a.b=2"), "'a.b' is set twice"),
        (("--target", "cpu", "native", "--set", "no.such=1"), "unknown knob 'no.such'"),
        (("--target", "cpp", "native"), "unknown backend 'cpp'"),
        (("--target", "cpu", "native", "--jobs", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_a_user_can_mistype_is_one_clear_error(run, arguments: tuple[str, ...], message: str) -> None:
    result = run("build", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_plan_as_json_names_files_key_and_sources(run, tmp_path: Path) -> None:
    result = run("plan", "--target", "cpu", "x86-64-v3", "--json", "--out", str(tmp_path / "out"))
    (row,) = json.loads(result.stdout)
    assert row["state"] == "to build" and len(row["key"]) == 64
    assert "sources.cmake" in row["changes"]["new"]
    assert all(entry["because"] == ["first build"] for entry in row["recompiled"]) and row["recompiled"]
    assert not (tmp_path / "out").exists()


def test_a_missing_compiler_is_a_user_error_and_json_says_so(run, tmp_path: Path) -> None:
    result = run("build", "--target", "cpu", "x86-64-v3", "--json", "--out", str(tmp_path / "out"), CXX="no-such-g++")
    assert result.exit_code == 2
    (row,) = json.loads(result.stdout)
    assert row["how"] == "refused" and "no-such-g++" in row["error"]


def test_cache_commands_on_an_empty_cache(run, tmp_path: Path) -> None:
    assert run("cache", "path").stdout.strip() == str(tmp_path / "home/.cache/strata-gen")
    assert run("cache", "list").stdout.startswith("0 packages")
    assert json.loads(run("cache", "list", "--json").stdout) == []
    assert json.loads(run("cache", "clear", "--json").stdout) == {"removed": 0, "bytes": 0}


def test_cached_packages_are_verified_and_pruned(run, small: SmallProject, run_build: Builds, tmp_path: Path) -> None:
    key = run_build().key
    assert run("cache", "verify").stdout == f"{key[:12]}  strata_kernels_cpu_x86_64_v2: whole\n"
    assert run("cache", "prune").stdout.startswith("removed 0 packages")
    module = next((tmp_path / "home/.cache/strata-gen/artifacts").rglob("_native*.so"))
    module.write_bytes(module.read_bytes()[:-1])
    damaged = run("cache", "verify", "--json")
    (row,) = json.loads(damaged.stdout)
    assert (damaged.exit_code, row["key"]) == (1, key)
    assert row["problem"].endswith("is not what was built")
    pruned = json.loads(run("cache", "prune", "--json").stdout)
    assert pruned["removed"] == [key] and pruned["bytes"] > 1000
    assert run("cache", "verify").exit_code == 0


def test_pruning_goes_by_age_and_by_size(run, run_build: Builds) -> None:
    run_build()
    assert json.loads(run("cache", "prune", "--days", "1", "--json").stdout)["removed"] == []
    assert len(json.loads(run("cache", "prune", "--max-mib", "0", "--json").stdout)["removed"]) == 1


def test_why_of_a_target_that_was_never_built(run) -> None:
    (row,) = json.loads(run("cache", "why", "--target", "cpu", "x86-64-v3", "--json").stdout)
    assert (row["cached"], row["nearest"], row["differs"]) == (False, "", [])
    refused = run("cache", "why", "--target", "cpu", "x86-64-v9")
    assert refused.exit_code == 2 and "unknown cpu target" in refused.stderr
