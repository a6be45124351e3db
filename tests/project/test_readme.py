"""What the pages for users say is true: commands, options, links, shown messages, the Python example."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import click
import pytest

from strata_gen.cli.main import group as strata_gen
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.cli.main import group as strata
from support.documents import Command, blocks, commands, links
from support.served import served

ROOT = Path(__file__).resolve().parents[2]
READMES = tuple(sorted([ROOT / "README.md", *ROOT.glob("examples/**/README.md"), *ROOT.glob("bench/**/README.md")]))
DOCS = tuple(sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")]))
PAGES = READMES + DOCS
SCRIPTS = Path(sys.executable).parent

COMMANDS = [(page, command) for page in PAGES for command in commands(page)]
IDS = [f"{page.relative_to(ROOT)}: {command}" for page, command in COMMANDS]

READ_ONLY = {("strata-gen", name) for name in ("check", "describe", "explain", "knobs", "plan", "targets")}
WRITING = {("strata-gen", "emit"), ("strata-gen", "new")}


def knob_flags() -> set[str]:
    return {"--" + knob.name.replace(".", "-").replace("_", "-") for knob in load_specs((specs_root(),)).knobs}


def knob_variables() -> set[str]:
    return {knob.env for knob in load_specs((specs_root(),)).knobs}


def click_options(command: click.Command, words: tuple[str, ...]) -> set[str]:
    """Follow `words` through groups to a command; return its options. Fails for a command that is not there."""
    context = click.Context(command)
    while isinstance(command, click.Group):
        assert words, f"'{command.name}' needs a command"
        _, found, rest = command.resolve_command(context, list(words))
        assert found is not None, f"no command '{words[0]}'"
        command, words = found, tuple(rest)
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@cache
def make_targets() -> frozenset[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


@cache
def script_help(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words, "--help"], cwd=ROOT, env=python_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "examples")}


def python_options(words: tuple[str, ...]) -> set[str]:
    """Return the options of `python script.py ...` or `python -m package command ...`."""
    program = words[:3] if words[0] == "-m" else words[:1]
    return {"-m"} | set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", script_help(*program)))


def known_options(command: Command) -> set[str]:
    name, *rest = command.words
    match name:
        case "strata-gen":
            return click_options(strata_gen, tuple(rest))
        case "strata":
            return click_options(strata, tuple(rest)) | knob_flags()
        case "python":
            return python_options(tuple(rest))
        case "make":
            assert set(rest) <= make_targets()
            return set()
        case "curl" | "apt-get":
            return set(command.options)
        case "cd" | "source":
            return set()
    pytest.fail(f"a page names a command that nothing checks: {command}")


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=IDS)
def test_every_command_and_option_exists(page: Path, command: Command) -> None:
    assert set(command.options) <= known_options(command)
    assert {name for name in command.variables if name.startswith("STRATA_")} <= knob_variables()


# What the documentation adds is run by the tests of its pages.
RUN = [(page, each) for page, each in COMMANDS if page in READMES and "--specs" not in each.words]
CHEAP = [(page, each) for page, each in RUN if each.words[:2] in READ_ONLY or each.words[1:2] in (("emit",), ("new",))]


@pytest.mark.parametrize("command", [each for _, each in CHEAP], ids=str)
def test_cheap_commands_succeed(command: Command, tmp_path: Path) -> None:
    words = list(command.words)
    if words[1] in {"emit", "plan"}:
        words += ["--out", str(tmp_path)]
    if words[1] == "new":
        shutil.copytree(ROOT / "specs", tmp_path / "specs")
        words += ["--specs-alone", "--specs", str(tmp_path / "specs")]
    done = subprocess.run([SCRIPTS / words[0], *words[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(CHEAP) > 5


def test_commands_on_specs_of_ones_own_work_in_the_order_of_the_page(tmp_path: Path) -> None:
    own = [each for page, each in COMMANDS if page in READMES and "--specs" in each.words and each.words[1] != "build"]
    assert [each.words[1] for each in own] == ["new", "check"]
    for command in own:
        words = [SCRIPTS / command.words[0], *command.words[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_new_knob_has_the_names_that_the_page_gives(tmp_path: Path) -> None:
    command = next(each for _, each in RUN if each.words[:3] == ("strata-gen", "new", "knob"))
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    words = [*command.words[1:], "--specs-alone", "--specs", str(tmp_path / "specs")]
    done = subprocess.run([SCRIPTS / "strata-gen", *words], capture_output=True, text=True, check=True)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"STRATA_\w+|--[a-z-]+|settings[\w.]+", done.stdout.partition(": ")[2])
    assert len(names) == 3
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_shown_error_is_what_check_prints(tmp_path: Path) -> None:
    shown = next(block for block in blocks(ROOT / "README.md", "") if "error[" in block)
    specs = tmp_path / "specs"
    shutil.copytree(ROOT / "specs", specs)
    file = specs / "knobs" / "pool.yaml"
    file.write_text(file.read_text().replace("    default: 50us", "    defualt: 50us"))
    done = subprocess.run(
        [SCRIPTS / "strata-gen", "check", "--specs-alone", "--specs", specs], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == shown


@pytest.mark.parametrize("page", [*PAGES, ROOT / "DESIGN.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not link.exists()] == []


@pytest.mark.native
@pytest.mark.parametrize(("number", "said"), [(0, "Usage(prompt_tokens="), (2, "finish='length'")])
def test_the_python_examples_run(kernels: Path, number: int, said: str) -> None:
    examples = blocks(ROOT / "README.md", "python")
    assert len(examples) == 3
    example = examples[number]
    environment = {**python_environment(), "STRATA_PROVIDER_PATH": str(kernels)}
    done = subprocess.run([sys.executable, "-c", example], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def shorter(words: Sequence[str]) -> list[str]:
    """The same command with one round, and fewer tokens: what is shown is not measured here."""
    least = {"--rounds": "1", "--max-tokens": "4"}
    if words[0] == "bench":
        least |= {"--prompt": "5", "--window": "1,4", "--context": "0", "--prompt-tokens": "64"}
    if tuple(words[:2]) == ("bench", "serve"):
        words = [*words, "--seconds", "0.5", "--compare", "4", "--warm", "0.1", "--stream-tokens", "60"]
    return [least.get(before, word) for before, word in zip(("", *words), words, strict=False)]


@pytest.mark.native
def test_commands_on_models_write_text(kernels: Path, tmp_path: Path) -> None:
    """In the order of the page: what one writes, a later one may read."""
    generating = [each for _, each in RUN if each.words[0] == "strata" and each.words[1] != "serve"]
    assert len(generating) >= 4
    made = {one.words[one.words.index("--out") + 1] for one in generating if "--out" in one.words}
    for command in generating:
        environment = {**python_environment(), "STRATA_PROVIDER_PATH": str(kernels), **command.variables}
        words = [tmp_path / word if word in made else word for word in shorter(command.words[1:])]
        done = subprocess.run([SCRIPTS / "strata", *words], cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


@pytest.mark.native
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_server_answers_what_the_page_asks_it(kernels: Path) -> None:
    (start,) = [each for _, each in RUN if each.words[:2] == ("strata", "serve")]
    asking = [each for _, each in RUN if each.words[0] == "curl"]
    (example,) = [block for block in blocks(ROOT / "README.md", "python") if "openai" in block]
    shown = "http://127.0.0.1:8000"
    assert shown in example
    with served([SCRIPTS / "strata"], *start.words[2:], STRATA_PROVIDER_PATH=str(kernels)) as server:
        for command in asking:
            words = [word.replace(shown, server.url) for word in command.words]
            done = subprocess.run([*words, "--fail-with-body"], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            assert {"choices", "slots"} & json.loads(done.stdout).keys()
        script = example.replace(shown, server.url)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout) > 10
