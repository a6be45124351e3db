"""Standard streams that are closed or full: one message and exit code 2, in both command lines."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = {name: f"from {name}.cli.main import main; main()" for name in ("strata_gen", "strata_runtime")}


def in_shell(environment, program, redirected, *args):
    command = ["bash", "-c", f'"$@" {redirected}', "bash", sys.executable, "-c", START[program], *args]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("program", START)
@pytest.mark.parametrize(
    ("redirected", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_is_one_message(clean_environment, program, redirected, why):
    done = in_shell(clean_environment, program, redirected, "--help")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.lower().startswith("error: the output cannot be written: ")
    assert done.stderr.strip().endswith(why)


@pytest.mark.parametrize("program", START)
def test_a_command_works_with_nowhere_to_say_what_it_does(clean_environment, program):
    done = in_shell(clean_environment, program, "2>&-", "--version")
    assert (done.returncode, done.stdout.strip()[-5:]) == (0, "0.1.0")


@pytest.mark.parametrize("program", START)
def test_nothing_is_open_to_anything(clean_environment, program):
    assert in_shell(clean_environment, program, "<&- >&- 2>&-", "--help").returncode == 2


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize(
    ("redirected", "why"),
    [
        ({"stdout": ">/dev/full"}, "Error: the output cannot be written: No space left on device"),
        ({"stdout": ">&-"}, "Error: the output cannot be written: Bad file descriptor"),
        ({"stdin": "<&-"}, "Error: standard input: cannot be read: Bad file descriptor"),
    ],
)
def test_generate_says_which_stream_fails(clean_environment, driver, folder, redirected, why, json):
    prompt = "-" if "stdin" in redirected else "abc"
    args = ["generate", "--model", folder, "--prompt", prompt, "--max-tokens", "5", *json]
    shell = f'"$@" {" ".join(redirected.values())}'
    command = ["bash", "-c", shell, "bash", sys.executable, str(driver), *map(os.fspath, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, why), done.stderr
    assert "Traceback" not in done.stderr
