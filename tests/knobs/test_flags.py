"""Knobs on the command line."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_runtime.knobs import resolve
from strata_runtime.knobs.flags import command_line, knob_options
from strata_runtime.knobs.grammar import show
from strata_runtime.knobs.info import KnobInfo
from support import knob_strategies


def program(knobs: tuple[KnobInfo, ...]) -> click.Command:
    """A command that prints what was given."""

    def run(**parameters: object) -> None:
        for name, text in command_line(knobs, parameters).items():
            click.echo(f"{name}={text}")

    return click.Command("program", params=list(knob_options(knobs)), callback=run)


def run(knobs: tuple[KnobInfo, ...], *arguments: str) -> str:
    result = CliRunner().invoke(program(knobs), arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_nothing_given_is_nothing(knobs: tuple[KnobInfo, ...]) -> None:
    assert run(knobs) == ""


def test_every_run_time_knob_has_its_flag_and_no_compile_knob_has(knobs: tuple[KnobInfo, ...]) -> None:
    flags = {flag for option in knob_options(knobs) for flag in option.opts}
    assert flags == {knob.flag for knob in knobs if knob.affects != "compile"}


def test_bools_have_both_directions(knobs: tuple[KnobInfo, ...]) -> None:
    assert run(knobs, "--demo-flag") == "demo.flag=true\n"
    assert run(knobs, "--no-demo-flag") == "demo.flag=false\n"


def test_text_is_passed_on_as_it_is(knobs: tuple[KnobInfo, ...]) -> None:
    assert run(knobs, "--demo-wait", "1.5s", "--demo-words", "a, b") == "demo.wait=1.5s\ndemo.words=a, b\n"


def test_a_word_that_is_no_choice(knobs: tuple[KnobInfo, ...]) -> None:
    result = CliRunner().invoke(program(knobs), ["--demo-mode", "2"])
    assert result.exit_code == 2
    assert "'0', '1', 'check'" in result.output


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_value_can_be_given_by_its_flag(knobs: tuple[KnobInfo, ...], data: st.DataObject) -> None:
    knob = data.draw(st.sampled_from([k for k in knobs if not k.is_built_in and k.name.startswith("demo.")]))
    value = data.draw(knob_strategies.values(knob))
    text = show(knob, value)
    arguments = [knob.flag if value else f"--no-{knob.flag[2:]}"] if knob.type == "bool" else [f"{knob.flag}={text}"]
    given_texts: dict[str, str] = {}
    command = program(knobs)
    command.callback = lambda **parameters: given_texts.update(command_line(knobs, parameters))
    command.main(arguments, standalone_mode=False)
    assert resolve(knobs, environ={}, command_line=given_texts).values[knob.name] == value


@pytest.mark.parametrize(
    ("flag", "facts"),
    [
        ("--pool-threads N", ("default: 0", "at least 0 and at most 1024", "STRATA_POOL_THREADS")),
        ("--demo-memory SIZE", ("default: 512MiB", "at least 4KiB", "STRATA_DEMO_MEMORY")),
        ("--demo-patience TIME", ("default: unset", "STRATA_DEMO_PATIENCE")),
        ("--demo-mode [0|1|check]", ("A word.", "default: 0", "STRATA_DEMO_MODE")),
        ("--demo-flag / --no-demo-flag", ("default: false", "STRATA_DEMO_FLAG")),
    ],
)
def test_help_says_default_range_and_variable(knobs: tuple[KnobInfo, ...], flag: str, facts: tuple[str, ...]) -> None:
    result = CliRunner().invoke(program(knobs), ["--help"], terminal_width=500)
    line = next(line for line in result.output.splitlines() if line.strip().startswith(flag))
    assert all(fact in line for fact in facts), line


def test_the_shell_completes_flags_and_words(knobs: tuple[KnobInfo, ...]) -> None:
    complete = ShellComplete(program(knobs), {}, "program", "_PROGRAM_COMPLETE")
    assert "--pool-threads" in [item.value for item in complete.get_completions([], "--pool-th")]
    assert [item.value for item in complete.get_completions(["--pool-pin"], "o")] == ["on", "off"]
