"""A folder of one's own beside the project's specs: a knob and a target, and no line of Python."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strata_gen.build import BuildRequest, build
from strata_gen.cli.main import group
from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import find_gpu_compiler
from strata_gen.layout import layout_of
from strata_gen.paths import specs_root
from strata_gen.progress import Reporter
from strata_gen.specs import load_specs
from strata_gen.wheel.checks import check_module
from strata_gen.wheel.code_objects import architectures
from strata_gen.wheel.kernels import distribution_name, read_module
from strata_runtime.knobs import resolve
from strata_runtime.knobs.flags import command_line
from support.knob_library import Refused, compile_knobs
from support.knob_plans import import_settings, plan_for, render_knobs
from support.small_project import environment, make_gpu_project

OVERLAY = Path(__file__).with_name("overlay")
SPECS = load_specs((specs_root(), OVERLAY))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_it_is_read_together_with_the_projects_own() -> None:
    own, both = load_specs((specs_root(),)), SPECS
    assert {knob.name for knob in both.knobs} - {knob.name for knob in own.knobs} == {"mine.patience"}
    assert {target.name for target in both.targets} - {target.name for target in own.targets} == {"sm_120f"}
    assert run("check", "--specs", OVERLAY).exit_code == 0
    assert "cuda sm_120f" in run("targets", "--specs", OVERLAY).stdout
    assert run("check", "--specs", specs_root()).exit_code == 0  # named once more, it is still read once


def test_alone_means_without_the_projects_own(tmp_path: Path) -> None:
    shutil.copytree(OVERLAY / "knobs", tmp_path / "knobs")
    rows = json.loads(run("knobs", "--json", "--specs-alone", "--specs", tmp_path).stdout)
    assert [row["name"] for row in rows] == ["mine.patience"]
    assert "--specs-alone needs --specs DIR" in run("check", "--specs-alone").stderr


def test_a_name_that_is_taken_is_an_error_that_shows_both_places(tmp_path: Path) -> None:
    (tmp_path / "mine/knobs").mkdir(parents=True)
    taken = (OVERLAY / "knobs/mine.yaml").read_text().replace("mine.patience", "pool.spin")
    (tmp_path / "mine/knobs/again.yaml").write_text(taken)
    result = run("check", "--specs", tmp_path / "mine")
    assert result.exit_code == 2
    assert "mine/knobs/again.yaml:2" in result.stderr and "specs/knobs/pool.yaml" in result.stderr


def test_the_knob_works_as_variable_flag_setting_and_in_native_code(tmp_path: Path) -> None:
    files = render_knobs(plan_for(SPECS))
    settings = import_settings(files, tmp_path)
    flags = dict(command_line(settings.KNOBS, {"mine_patience": "7ms"}))
    by_flag = resolve(settings.KNOBS, environ={"STRATA_MINE_PATIENCE": "5ms"}, command_line=flags)
    by_variable = resolve(settings.KNOBS, environ={"STRATA_MINE_PATIENCE": "5ms"})
    assert settings.Settings.from_values(by_variable.values).mine.patience == 5_000_000
    assert settings.Settings.from_values(by_flag.values).mine.patience == 7_000_000
    native = compile_knobs(files, tmp_path)
    assert native.parse_and_print("mine.patience", "5000us") == "5ms"
    with pytest.raises(Refused):
        native.parse_and_print("mine.patience", "2s")


def test_the_knob_is_in_the_docs(tmp_path: Path) -> None:
    assert run("reference", "--specs", OVERLAY, "--out", tmp_path).exit_code == 0
    assert "STRATA_MINE_PATIENCE" in (tmp_path / "docs/reference/knobs.md").read_text()
    assert "sm_120f" in (tmp_path / "docs/reference/targets.md").read_text()


def test_the_target_is_emitted_under_its_own_name(tmp_path: Path) -> None:
    assert run("emit", "--target", "cuda", "sm_120f", "--specs", OVERLAY, "--out", tmp_path).exit_code == 0
    tree = tmp_path / "cuda/sm_120f/tree"
    assert "arch=compute_120f,code=sm_120f" in (tree / "sources.cmake").read_text()
    assert "strata_kernels_cuda_sm120f" in (tree / "sources.cmake").read_text()
    assert "mine.patience" in (tree / "python/settings.py").read_text()


def test_the_target_is_compiled_and_fits_a_wheel(tmp_path: Path, reporter: Reporter) -> None:
    try:
        find_gpu_compiler(os.environ)
    except GeneratorError as problem:
        pytest.skip(problem.what)
    small = make_gpu_project(tmp_path / "project")
    mine = (OVERLAY / "targets/family.yaml").read_text().replace("host: x86-64-v2", "host: x86-64-v4-vnni")
    (small.specs / "targets/family.yaml").write_text(mine)
    tree = small.tree(backend="cuda", arch="sm_120f")
    result = build(BuildRequest(tree, layout_of(tree.plan, tmp_path / "out")), reporter, environment(tmp_path / "home"))
    module = read_module(result.path)
    assert distribution_name(result.package) == "strata-kernels-cuda-sm120f"
    assert architectures(module) == {"sm_120f"}
    check_module(module, tree.plan)


def test_a_first_knob_makes_the_folder(tmp_path: Path) -> None:
    mine = tmp_path / "my-specs"
    words = ("new", "knob", "mine.most", "--type", "int", "--default", "3", "--help-text", "Most of mine.")
    assert run(*words, "--specs", mine).exit_code == 0
    rows = json.loads(run("knobs", "--json", "--specs", mine).stdout)
    assert "mine.most" in {row["name"] for row in rows} and len(rows) > 10
    assert run(*words, "--specs", mine).exit_code == 2
