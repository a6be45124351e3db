"""`strata-gen new knob` appends a complete entry that passes every check, or writes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from strata_gen.model.knob import Knob, KnobValue
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs

Run = Callable[..., Result]
Make = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the project's specs."""
    return Path(shutil.copytree(specs_root(), tmp_path / "specs"))


def knob(root: Path, name: str) -> Knob:
    return next(knob for knob in load_specs([root]).knobs if knob.name == name)


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bool", "true", True),
        ("int", "-3", -3),
        ("float", "0.5", 0.5),
        ("str", "plain", "plain"),
        ("str", "no", "no"),
        ("str", "8.10", "8.10"),
        ("str", 'a: "b" # c', 'a: "b" # c'),
        ("str", "", ""),
        ("bytes", "512MiB", 512 << 20),
        ("duration", "250ms", 250_000_000),
        ("path", "/tmp/x y", "/tmp/x y"),
        ("list", "a, b,no", ("a", "b", "no")),
        ("list", "", ()),
        ("int", None, None),
    ],
)
def test_every_type_and_default(strata_gen: Run, root: Path, kind: str, default: str | None, value: KnobValue) -> None:
    given = () if default is None else ("--default", default)
    result = strata_gen("new", "knob", "verify.most", "--type", kind, *given, "--specs-alone", "--specs", root)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("STRATA_VERIFY_MOST, --verify-most, settings.verify.most\n")
    made = knob(root, "verify.most")
    assert made.default == value
    assert type(made.default) is type(value)
    assert made.type == kind


def test_an_enum_with_its_choices_and_what_it_affects(strata_gen: Run, root: Path) -> None:
    options = ("--choices", "on, off,8.10", "--default", "on", "--affects", "compile", "--output", "reorders")
    sentence = ("--help-text", "How it is: yes or no.")
    result = strata_gen(
        "new", "knob", "verify.mode", "--type", "enum", *options, *sentence, "--specs-alone", "--specs", root
    )
    assert result.exit_code == 0, result.output
    made = knob(root, "verify.mode")
    assert made.choices == ("on", "off", "8.10")
    assert (made.affects, made.output, made.help) == ("compile", "reorders", "How it is: yes or no.")


def test_an_existing_file_keeps_every_byte(strata_gen: Run, root: Path) -> None:
    path = root / "knobs" / "pool.yaml"
    before = path.read_text()
    made = ("new", "knob", "pool.nap", "--type", "int", "--default", "0")
    assert strata_gen(*made, "--specs-alone", "--specs", root).exit_code == 0
    after = path.read_text()
    assert after.startswith(before)
    assert after[len(before) :].startswith(
        "\n  - name: pool.nap\n    # STRATA_POOL_NAP, --pool-nap, settings.pool.nap\n"
    )


def test_the_indentation_of_the_file_is_kept(strata_gen: Run, spec_root: Make, entry: Callable[[str], str]) -> None:
    flush = entry("a.one").replace("\n  ", "\n")
    root = spec_root({"knobs/a.yaml": flush})
    made = ("new", "knob", "a.two", "--type", "int", "--default", "1")
    assert strata_gen(*made, "--specs-alone", "--specs", root).exit_code == 0
    assert [knob.name for knob in load_specs([root]).knobs] == ["a.one", "a.two"]
    assert "\n- name: a.two\n" in (root / "knobs" / "a.yaml").read_text()


def test_the_last_folder_gets_the_entry(strata_gen: Run, spec_root: Make, root: Path) -> None:
    mine = spec_root(
        {"knobs/other.yaml": (root / "knobs" / "pool.yaml").read_text().replace("pool.", "other.")}, "mine"
    )
    result = strata_gen("new", "knob", "extra.one", "--type", "bool", "--specs-alone", "--specs", root, "--specs", mine)
    assert result.exit_code == 0, result.output
    assert (mine / "knobs" / "extra.yaml").is_file()
    assert not (root / "knobs" / "extra.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pool.threads", "--type", "int"), "error: knob 'pool.threads' exists already"),
        (("threads", "--type", "int"), "error: 'threads' is not a knob's name"),
        (("pool.for", "--type", "int"), "'for' is a keyword of Python"),
        (("pool.nap", "--type", "duration", "--default", "3"), "'3' needs a unit"),
        (("pool.nap", "--type", "int", "--default", "1\n    colour: 3"), "takes a whole number"),
        (("pool.nap", "--type", "enum"), "--choices belongs to --type enum"),
        (("pool.nap", "--type", "int", "--choices", "a,b"), "--choices belongs to --type enum"),
        (("pool.nap", "--type", "enum", "--choices", "a,b", "--default", "c"), "'c' is not one of a, b"),
        (("pool.nap", "--type", "str", "--affects", "compile"), "affects compile and is of type str"),
        (("pool.nap", "--type", "int", "--help-text", "Naps"), "'help' must be a sentence"),
        (("pool.nap", "--type", "integer"), "'integer' is not one of"),
        (("pool_threads.x", "--type", "int", "--default", "9" * 30), "does not fit into 64 bits"),
    ],
)
def test_what_would_be_wrong_is_refused_and_nothing_is_written(
    strata_gen: Run, root: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.yaml")}
    result = strata_gen("new", "knob", *arguments, "--specs-alone", "--specs", root)
    assert result.exit_code == 2
    assert message in result.stderr
    assert {path: path.read_bytes() for path in root.rglob("*.yaml")} == before


def test_a_clash_with_another_file_is_refused(strata_gen: Run, spec_root: Make, entry: Callable[[str], str]) -> None:
    root = spec_root({"knobs/a_b.yaml": entry("a_b.c")})
    result = strata_gen("new", "knob", "a.b_c", "--type", "int", "--default", "0", "--specs-alone", "--specs", root)
    assert result.exit_code == 2
    assert "the same variable STRATA_A_B_C" in result.stderr
    assert not (root / "knobs" / "a.yaml").exists()


@pytest.mark.parametrize("text", ["knobs: [{%s}]\n", "{knobs: [{%s}]}\n"])
def test_a_file_in_flow_style_is_left_alone(strata_gen: Run, spec_root: Make, text: str) -> None:
    inner = "name: a.one, type: int, default: 0, affects: runtime, output: identical, help: One."
    root = spec_root({"knobs/a.yaml": text % inner})
    result = strata_gen("new", "knob", "a.two", "--type", "int", "--default", "0", "--specs-alone", "--specs", root)
    assert result.exit_code == 2
    assert "not a list with one '- name:' per entry" in result.stderr
