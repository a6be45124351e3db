"""One entry in a spec file is all that a knob takes: everything else follows from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType

import click
import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from strata_gen.emitter import GeneratedFile
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.reference import REFERENCE_PAGES
from strata_gen.specs import load_specs
from strata_runtime.errors import UserError
from strata_runtime.knobs import KnobInfo, resolve, startup_lines
from strata_runtime.knobs.flags import command_line, knob_options
from support.knob_library import KnobLibrary, Refused, compile_knobs
from support.knob_plans import import_settings, plan_for, render_knobs

ENTRY = """
  - name: pool.nap_time
    type: duration
    default: 5ms
    range: {min: 1us, max: 1s}
    ignored_unless: pool.spin > 0us
    affects: launch
    output: identical
    help: How long a worker naps between two looks.
    since: "0.2"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the specs with one entry more in one file. Nothing else is touched in this module."""
    root = tmp_path_factory.mktemp("copy") / "specs"
    shutil.copytree(specs_root(), root)
    with (root / "knobs" / "pool.yaml").open("a", encoding="utf-8") as file:
        file.write(ENTRY)
    return root


@pytest.fixture(scope="module")
def specs(root: Path) -> SpecSet:
    return load_specs([root])


@pytest.fixture(scope="module")
def files(specs: SpecSet) -> tuple[GeneratedFile, ...]:
    return render_knobs(plan_for(specs))


@pytest.fixture(scope="module")
def settings(files: tuple[GeneratedFile, ...], tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_settings(files, tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def cpp(files: tuple[GeneratedFile, ...], tmp_path_factory: pytest.TempPathFactory) -> KnobLibrary:
    return compile_knobs(files, tmp_path_factory.mktemp("cpp"))


def page(specs: SpecSet, path: str) -> str:
    return next(page for page in REFERENCE_PAGES if page.path == path).text(specs)


def test_its_variable(settings: ModuleType) -> None:
    resolution = resolve(settings.KNOBS, environ={"STRATA_POOL_NAP_TIME": "20ms"})
    assert resolution.values["pool.nap_time"] == 20_000_000
    (line,) = startup_lines(resolution, version="0.2", target="cpu native", package="1f0c")
    assert line.endswith("| pool.nap_time=20ms (environment)")


def test_its_misspelt_variable(settings: ModuleType) -> None:
    (line,) = resolve(settings.KNOBS, environ={"STRATA_POOL_NAPTIME": "20ms"}).lines
    assert line == "STRATA_POOL_NAPTIME: there is no such variable; did you mean 'STRATA_POOL_NAP_TIME'?"


def test_its_flag_and_help(settings: ModuleType) -> None:
    given: dict[str, str] = {}

    def run(**parameters: object) -> None:
        given.update(command_line(settings.KNOBS, parameters))

    command = click.Command("program", params=list(knob_options(settings.KNOBS)), callback=run)
    assert CliRunner().invoke(command, ["--pool-nap-time", "20ms"]).exit_code == 0
    assert resolve(settings.KNOBS, environ={}, command_line=given).values["pool.nap_time"] == 20_000_000
    help_text = CliRunner().invoke(command, ["--help"], terminal_width=500).output
    assert "How long a worker naps between two looks.  [default: 5ms; at least 1us and at most 1s;" in help_text


def test_its_setting_and_keyword(settings: ModuleType) -> None:
    values = resolve(settings.KNOBS, environ={}, python={"pool_nap_time": "20ms"}).values
    assert settings.Settings.from_values(values).pool.nap_time == 20_000_000
    assert settings.Settings.from_values(resolve(settings.KNOBS, environ={}).values).pool.nap_time == 5_000_000


def test_its_key_in_the_config_file(settings: ModuleType, tmp_path: Path) -> None:
    config = tmp_path / "strata.toml"
    config.write_text('[pool]\nnap_time = "20ms"\n')
    assert resolve(settings.KNOBS, environ={}, config_file=config).values["pool.nap_time"] == 20_000_000


def test_its_cpp_field_default_and_parser(
    files: tuple[GeneratedFile, ...], cpp: KnobLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = next(file.text for file in files if file.path.endswith("knobs.hpp"))
    assert "std::int64_t pool_nap_time;" in header
    assert cpp.parse_and_print("pool.nap_time", "") == "5ms"
    assert cpp.parse_and_print("pool.nap_time", "0.02s") == "20ms"
    monkeypatch.setenv("STRATA_POOL_NAP_TIME", "20ms")
    assert cpp.environment("pool.nap_time") == ("20ms", ())


@pytest.mark.parametrize(
    ("text", "what"),
    [("soon", "is not a duration"), ("2s", "must be at least 1us and at most 1s"), ("0", "must be at least 1us")],
)
def test_its_checks(settings: ModuleType, cpp: KnobLibrary, text: str, what: str) -> None:
    with pytest.raises(UserError, match=rf"pool\.nap_time: '{text}' {what}"):
        resolve(settings.KNOBS, environ={"STRATA_POOL_NAP_TIME": text})
    with pytest.raises(Refused, match=rf"pool\.nap_time: '{text}' {what}"):
        cpp.parse_and_print("pool.nap_time", text)


def test_its_relation(settings: ModuleType) -> None:
    resolution = resolve(settings.KNOBS, environ={"STRATA_POOL_NAP_TIME": "20ms", "STRATA_POOL_SPIN": "0"})
    assert resolution.values["pool.nap_time"] == 5_000_000
    assert len(resolution.lines) == 1


def test_its_row_in_the_reference(specs: SpecSet) -> None:
    text = page(specs, "docs/reference/knobs.md")
    row = next(line for line in text.splitlines() if line.startswith("| [`pool.nap_time`](#pool-nap-time)"))
    assert "| duration | `5ms` | at least `1us`, at most `1s` | launch | identical | How long a worker naps" in row
    assert '<a id="pool-nap-time"></a>' in text
    assert "- Ignored, with one line, unless `pool.spin > 0us`." in text


def test_its_type_for_the_type_checker(specs: SpecSet) -> None:
    assert "    nap_time: int\n" in page(specs, "runtime/strata_runtime/_settings.pyi")


def test_its_entry_fits_the_schema_and_a_bad_one_does_not(root: Path) -> None:
    schema = json.loads((root / "schema" / "knob.schema.json").read_text(encoding="utf-8"))
    data = yaml.safe_load((root / "knobs" / "pool.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(data, schema)
    data["knobs"][-1]["defualt"] = data["knobs"][-1].pop("default")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


def test_its_strategy(settings: ModuleType) -> None:
    from support import knob_strategies

    knob: KnobInfo = next(knob for knob in settings.KNOBS if knob.name == "pool.nap_time")
    inside = {number for number in knob_strategies.boundaries(knob) if knob_strategies.fits(knob, number)}
    assert inside == {1000, 1001, 10**9 - 1, 10**9}
