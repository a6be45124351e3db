"""Spec folders are read together; nothing that looks like a spec is passed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.diagnostics import Diagnostic, SpecErrors
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs, root_names

Make = Callable[..., Path]
Entry = Callable[[str], str]


def refused(*roots: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(SpecErrors) as problem:
        load_specs(roots)
    return problem.value.diagnostics


def test_the_projects_own_specs_are_right() -> None:
    specs = load_specs([specs_root()])
    for found in (specs.knobs, specs.targets, specs.formats, specs.kernels, specs.families, specs.protocols):
        names = [item.name for item in found]
        assert names
        assert names == sorted(names)


def test_several_folders_are_read_as_one(spec_root: Make, entry: Entry) -> None:
    first = spec_root({"knobs/a.yaml": entry("a.one")}, "first")
    second = spec_root({"knobs/b.yaml": entry("b.two")}, "second")
    assert [knob.name for knob in load_specs([second, first]).knobs] == ["a.one", "b.two"]


def test_a_name_in_two_folders_is_declared_twice(spec_root: Make, entry: Entry) -> None:
    first = spec_root({"knobs/a.yaml": entry("a.one")}, "first")
    second = spec_root({"knobs/a.yaml": entry("a.one")}, "second")
    (finding,) = refused(first, second)
    assert (finding.code, finding.span.file) == ("K027", "second/knobs/a.yaml")
    assert finding.notes[0].span is not None
    assert finding.notes[0].span.file == "first/knobs/a.yaml"


def test_files_are_named_from_the_spec_folder_on_wherever_it_lies(
    spec_root: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = spec_root({"knobs/a.yaml": "knobs: []\n"})
    monkeypatch.chdir(root)
    for given in (root, Path(), Path("../specs")):
        (finding,) = refused(given)
        assert finding.span.file == "specs/knobs/a.yaml"


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    roots = [tmp_path / "a" / "specs", tmp_path / "b" / "specs", tmp_path / "c"]
    assert list(root_names(roots).values()) == ["specs", "b/specs", "c"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("knobs/b.yml", "its name must end in .yaml"),
        ("knobs/deeper/b.yaml", "it must lie in knobs/ itself"),
        ("knob/b.yaml", "not in the folder of a kind of spec"),
        ("b.yaml", "not in the folder of a kind of spec"),
    ],
)
def test_a_file_that_would_never_be_read_is_an_error(spec_root: Make, entry: Entry, path: str, message: str) -> None:
    root = spec_root({"knobs/a.yaml": entry("a.one"), path: entry("b.two")})
    (finding,) = refused(root)
    assert (finding.code, finding.span.file) == ("Y008", f"specs/{path}")
    assert message in finding.message


def test_other_files_of_a_spec_folder_are_left_alone(spec_root: Make, entry: Entry) -> None:
    root = spec_root({"knobs/a.yaml": entry("a.one"), "knobs/README.md": "", "schema/x.json": "{}", "notes.txt": ""})
    assert len(load_specs([root]).knobs) == 1


def test_a_folder_that_is_not_there_or_holds_no_specs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    findings = refused(tmp_path / "none", tmp_path / "empty")
    assert [finding.code for finding in findings] == ["Y007", "Y007"]
    assert {finding.message.partition(":")[0] for finding in findings} == {"no such spec folder", "not a spec folder"}


def test_a_folder_that_cannot_be_is_one_finding() -> None:
    (finding,) = refused(Path("x" * 5000))
    assert (finding.code, finding.message) == ("Y007", "cannot be read: File name too long")


def test_findings_of_all_files_come_together_and_in_order(spec_root: Make, entry: Entry) -> None:
    bad = entry("A.one").replace("int", "integer")
    root = spec_root({"knobs/b.yaml": bad, "knobs/a.yaml": "knobs: 3\n", "targets/t.yaml": "backend: gpu\n"})
    files = [finding.span.file for finding in refused(root)]
    assert files == sorted(files)
    assert set(files) == {"specs/knobs/a.yaml", "specs/knobs/b.yaml", "specs/targets/t.yaml"}


def test_a_file_that_is_not_utf8_is_one_finding(spec_root: Make) -> None:
    (finding,) = refused(spec_root({"knobs/a.yaml": b"knobs: \xff\n"}))
    assert finding.code == "Y001"
