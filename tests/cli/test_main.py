"""The `strata` command as a whole: cheap to start, helpful with names, of use without a kernels package."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from strata_runtime.discovery import Found
from strata_runtime.errors import UserError
from strata_runtime.provider import Considered, survey
from support.fake_engine import FakeProvider

STRATA = "from strata_runtime.cli.main import main; main()"


def python(code, *args, environ):
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=environ, timeout=60)


@pytest.fixture
def no_package(monkeypatch):
    def none(_):
        raise UserError("no kernels package is installed or built; build one: strata-gen build --target cpu native")

    monkeypatch.setattr("strata_runtime.cli.knob_command.find_provider", none)
    monkeypatch.setattr("strata_runtime.cli.info.survey", lambda _: [])


def test_help_is_fast_and_imports_nothing_heavy(clean_environment):
    code = f"import sys; sys.argv = ['strata', '--help']\ntry:\n    {STRATA}\nfinally:\n    print(*sys.modules)"
    best = min(_cpu_seconds(lambda: python(code, environ=clean_environment)) for _ in range(3))
    result = python(code, environ=clean_environment)
    assert "generate" in result.stdout
    loaded = set(result.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint({"torch", "numpy", "tokenizers", "jinja2", "strata_runtime.provider"})
    assert best < 0.2


def _cpu_seconds(work):
    """CPU time of the processes that `work` runs: what a busy machine does not stretch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_package_imports_without_jinja2_pydantic_or_anything_heavy(clean_environment):
    code = """
import sys
for name in ("jinja2", "pydantic", "yaml", "strata_gen"):
    sys.modules[name] = None
import strata_runtime
assert not {"torch", "numpy", "tokenizers", "click"} & set(sys.modules)
assert strata_runtime.SamplingParams(temperature=0).top_k == 0
assert "numpy" not in sys.modules
assert strata_runtime.Engine.__name__ == "Engine"
assert set(strata_runtime.__all__) <= {*dir(strata_runtime)}
"""
    result = python(code, environ=clean_environment)
    assert result.returncode == 0, result.stderr


def test_an_unknown_attribute_is_an_attribute_error():
    import strata_runtime

    with pytest.raises(AttributeError, match="no attribute 'Engin'"):
        _ = strata_runtime.Engin


def test_the_version_is_told(strata):
    assert strata("--version").stdout.startswith("strata, version 0.1.0")


def test_an_unknown_command_names_the_nearest(strata):
    result = strata("generat")
    assert result.exit_code == 2
    assert "Did you mean 'generate'?" in result.stderr


def test_without_a_package_help_works_and_says_how_to_get_one(strata, no_package):
    result = strata("generate", "--help")
    assert result.exit_code == 0
    assert "--temperature" in result.stdout
    assert "strata-gen build" in result.stdout


def test_without_a_package_generate_says_how_to_get_one(strata, no_package, folder):
    result = strata("generate", "--model", folder, "--prompt", "a")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: no kernels package")


def test_without_a_package_a_knob_is_not_called_unknown(strata, no_package, folder):
    result = strata("generate", "--model", folder, "--prompt", "a", "--pool-threads", "2")
    assert result.exit_code == 2
    assert "Knobs are known only with a package: no kernels package" in result.stderr


def test_the_package_can_be_named_before_its_knobs_are_known(strata, monkeypatch, folder):
    asked = []

    def find(environ):
        asked.append(environ.get("STRATA_PROVIDER_PATH"))
        raise UserError("nothing there")

    monkeypatch.setattr("strata_runtime.cli.knob_command.find_provider", find)
    strata("generate", "--provider-path", "here")
    strata("generate", "--provider-path=there")
    assert asked == ["here", "there"]


# strata info


def _found():
    good, bad = Found(Path("/good"), ("one 1.0", "two 1.0")), Found(Path("/bad"))
    return [Considered(good, FakeProvider(), ""), Considered(bad, None, "it has another ABI version")]


def test_info_tells_packages_level_threads_and_knobs(strata, monkeypatch):
    monkeypatch.setenv("STRATA_ENGINE_CONTEXT", "9")
    monkeypatch.setattr("strata_runtime.cli.info.survey", lambda _: _found())
    text = strata("info").stdout
    assert "package /good: cpu fake" in text
    assert "package /bad: refused: it has another ABI version" in text
    assert "belongs to 2 installed distributions, one 1.0 and two 1.0" in text
    assert "using strata_kernels_fake: it is the only one" in text
    good, bad = json.loads(strata("info", "--json").stdout)["packages"]
    assert (good["usable"], good["reason"], good["distributions"]) == (
        True,
        "it is the only one",
        ["one 1.0", "two 1.0"],
    )
    assert (bad["usable"], bad["reason"]) == (False, "it has another ABI version")
    assert "CPU level fake-isa, 3 pool threads" in text
    assert "knob engine.context=9 (environment" in text


def test_a_package_that_is_none_is_listed_with_the_reason(tmp_path):
    (considered,) = survey({"STRATA_PROVIDER_PATH": str(tmp_path)})
    assert (considered.found.folder, considered.provider) == (tmp_path, None)
    assert "manifest.json: cannot be read" in considered.problem


def test_info_of_a_model_tells_its_sizes(strata, monkeypatch, folder):
    monkeypatch.setattr("strata_runtime.cli.info.survey", lambda _: _found())
    found = json.loads(strata("info", "--model", folder, "--json").stdout)
    assert found["model"]["experts"] == 4
    assert found["model"]["context"] == 8192
    assert found["model"]["kv_bytes_per_token"] == 64
    text = strata("info", "--model", folder).stdout
    assert "2 layers, 4 experts, 2 per token" in text
    assert "KV cache: 64 B per token, 512.0 KiB in all" in text


def test_info_without_a_package_is_no_error(strata, no_package):
    result = strata("info")
    assert result.exit_code == 0
    assert "no usable package: no kernels package" in result.stdout
    assert json.loads(strata("info", "--json").stdout)["packages"] == []
