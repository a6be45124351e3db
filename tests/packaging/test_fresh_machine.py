"""The wheels on a machine that never saw the checkout: installed, used, and one of them removed again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from strata_gen import __version__
from strata_gen.artifact import read_facts
from strata_gen.cache import ArtifactCache
from strata_gen.paths import project_root
from support.fresh_environment import FreshEnvironment
from support.native_package import OUT, build_tree

pytestmark = pytest.mark.native

MODEL = project_root() / "examples/models/strata-tiny"
GENERATE = ("generate", "--model", MODEL, "--prompt", "import os", "--max-tokens", "8", "--temperature", "0")
KERNELS = "strata-kernels-cpu-x86-64-v2"
SCRIPT = "from strata_gen.cli.main import main; main()"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three wheels: the runtime, the generator, and the kernels for any CPU."""
    build_tree()
    dist = tmp_path_factory.mktemp("dist")
    words = ["wheel", "--core", "--generator", "--target", "cpu", "x86-64-v2", "--out", str(OUT), "--no-cache"]
    command = [sys.executable, "-c", SCRIPT, *words, "--dist", str(dist)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dist


def wheel(dist: Path, distribution: str) -> Path:
    (path,) = dist.glob(f"{distribution.replace('-', '_')}-*.whl")
    return path


def test_the_runtime_and_kernels_run_a_model_and_each_can_be_missed(dist: Path, tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path)
    fresh.install([wheel(dist, "strata-runtime"), wheel(dist, KERNELS)])
    done = fresh.run("strata", *GENERATE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    (package,) = json.loads(fresh.run("strata", "info", "--json").stdout)["packages"]
    assert package["distributions"] == [f"{KERNELS} {__version__}"]
    assert (package["usable"], package["reason"]) == (True, "it is for CPUs, and there is none for a GPU")

    fresh.uninstall(KERNELS)
    told = "no kernels package is installed or built; build one for this machine: strata-gen build --target cpu native"
    done = fresh.run("strata", *GENERATE)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and "Traceback" not in done.stderr
    assert told in fresh.run("strata", "info").stdout
    assert fresh.run("strata", "--version").returncode == 0


def test_the_generator_alone_builds_outside_a_checkout_and_the_runtime_finds_it(dist: Path, tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path)
    fresh.install([wheel(dist, "strata-gen")])
    # What the checkout built, in the cache of this user: the key is the same wherever the sources lie.
    built = next((OUT / "cpu/x86-64-v2/package").glob("strata_kernels_*[0-9]"))
    facts = read_facts(built)
    assert facts is not None
    ArtifactCache(tmp_path / "cache/strata-gen").store(facts["key"], built)
    build = ("build", "--target", "cpu", "x86-64-v2")
    done = fresh.run("strata-gen", *build, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "from the artifact cache" in done.stdout
    assert (fresh.here / "build/cpu/x86-64-v2/package" / built.name / "manifest.json").is_file()
    assert "strata-runtime is not installed" in fresh.run("strata-gen", "doctor").stdout

    refused = fresh.run("strata-gen", "new", "knob", "mine.most", "--type", "int", "--default", "3")
    assert refused.returncode == 2 and "--specs DIR" in refused.stderr
    mine = ("--specs", "my-specs")
    assert fresh.run("strata-gen", "new", "knob", "mine.most", "--type", "int", "--default", "3", *mine).returncode == 0
    assert "mine.most" in fresh.run("strata-gen", "knobs", *mine).stdout

    fresh.install([wheel(dist, "strata-runtime")])
    done = fresh.run("strata", *GENERATE)
    assert done.returncode == 0, done.stderr
