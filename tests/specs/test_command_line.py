"""The command line: quick, lazy, and one clear message with exit code 2 for what a user can mend."""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from strata_gen import __version__
from strata_gen.cli.main import COMMANDS, Entry, LazyGroup
from strata_gen.diagnostics import SpecErrors, render_github
from strata_gen.errors import GeneratorError
from strata_gen.specs import load_specs

Run = Callable[..., Result]
Make = Callable[..., Path]
HEAVY = ("torch", "pydantic", "jinja2", "yaml", "numpy")
START = "from strata_gen.cli.main import main; main()"


def test_help_takes_less_than_150_ms() -> None:
    """Processor time, so that the answer does not depend on what else the machine does; it never waits for anything."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", START, "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(7)) < 0.150


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["explain", "K012"]])
def test_what_needs_no_specs_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from strata_gen.cli.main import group
group.main({arguments!r}, standalone_mode=False)
print("loaded:", sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "loaded: []"


def test_help_has_a_line_for_every_command(strata_gen: Run) -> None:
    lines = strata_gen("--help").output.splitlines()
    for name, entry in COMMANDS.items():
        assert any(line.split() == [name, *entry.help.split()] for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(strata_gen: Run, name: str) -> None:
    module, _, attribute = COMMANDS[name].target.partition(":")
    assert isinstance(getattr(importlib.import_module(module), attribute), click.Command)
    result = strata_gen(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: strata-gen {name} ")


def test_version(strata_gen: Run) -> None:
    assert strata_gen("--version").output == f"strata-gen, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["xyzzy"], "No such command 'xyzzy'."),
        (["check", "--fromat", "json"], "No such option"),
        (["check", "--format", "xml"], "'xml' is not one of 'text', 'json', 'github'"),
        (["check", "--specs", "none"], "none:1:1: error[Y007]: no such spec folder"),
        (["new", "knob", "a.b"], "Missing option '--type'"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_exit_code_2(
    strata_gen: Run, arguments: list[str], message: str
) -> None:
    result = strata_gen(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def running(problem: BaseException) -> Result:
    @click.command()
    def command() -> None:
        raise problem

    sys.modules["strata_gen_made_up"] = type(sys)("strata_gen_made_up")
    sys.modules["strata_gen_made_up"].command = command  # type: ignore[attr-defined]
    try:
        lazy = LazyGroup(table={"go": Entry("strata_gen_made_up:command", "Go.")}, name="made-up")
        return CliRunner().invoke(lazy, ["go"])
    finally:
        del sys.modules["strata_gen_made_up"]


def test_a_generator_error_says_what_where_and_how_to_mend_it() -> None:
    result = running(GeneratorError("no such target 'sm_8'", where="--target cuda", mend="did you mean 'sm_80'?"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: no such target 'sm_8'\n  at: --target cuda\n  fix: did you mean 'sm_80'?\n"


def test_an_interrupt_exits_with_130() -> None:
    result = running(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_mistake_of_ours_is_not_hidden() -> None:
    assert isinstance(running(ZeroDivisionError()).exception, ZeroDivisionError)


def test_completion_of_names_imports_no_command() -> None:
    code = """
import sys
from strata_gen.cli.main import COMMANDS, group
import click.shell_completion
names = [item.value for item in group.shell_complete(click.Context(group), "e")]
print(names, [entry.target for entry in COMMANDS.values() if entry.target.partition(":")[0] in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "['emit', 'explain'] []\n"


# --- check


def test_check_counts_what_is_right(strata_gen: Run) -> None:
    result = strata_gen("check")
    assert result.exit_code == 0
    assert result.output.startswith("specs are right: ")
    assert result.output.count("\n") == 1
    for word in ("knob", "target", "format", "kernel", "famil"):
        assert word in result.output


def test_check_prints_text_to_stderr_and_other_formats_to_stdout(strata_gen: Run, spec_root: Make) -> None:
    root = spec_root({"knobs/a.yaml": "knobs:\n  - {}\n"})
    text, as_json, github = (
        strata_gen("check", "--specs-alone", "--specs", root, "--format", form) for form in ("text", "json", "github")
    )
    assert [result.exit_code for result in (text, as_json, github)] == [2, 2, 2]
    assert text.stderr.startswith("specs/knobs/a.yaml:2:5: error[K010]: missing keys")
    assert text.stdout == as_json.stderr == github.stderr == ""
    assert [row["code"] for row in json.loads(as_json.stdout)] == ["K010"]
    with pytest.raises(SpecErrors) as problem:
        load_specs([root])
    assert github.stdout == render_github(problem.value) + "\n"


def test_check_with_json_is_an_empty_array_when_all_is_right(strata_gen: Run) -> None:
    assert json.loads(strata_gen("check", "--format", "json").stdout) == []


# --- knobs


def test_knobs_lists_what_is_derived(strata_gen: Run, spec_root: Make, entry: Callable[[str], str]) -> None:
    root = spec_root({"knobs/a.yaml": entry("cache.slot_count")})
    head, row = strata_gen("knobs", "--specs-alone", "--specs", root).output.splitlines()
    assert head.split() == ["name", "variable", "flag", "type", "default", "affects", "help"]
    expected = ["cache.slot_count", "STRATA_CACHE_SLOT_COUNT", "--cache-slot-count", "int", "0", "runtime", "Something"]
    assert row.split()[:7] == expected


def test_knobs_as_json(strata_gen: Run) -> None:
    rows = json.loads(strata_gen("knobs", "--json").stdout)
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    spin = next(row for row in rows if row["name"] == "pool.spin")
    assert spin["variable"] == "STRATA_POOL_SPIN"
    assert isinstance(spin["default"], int)
