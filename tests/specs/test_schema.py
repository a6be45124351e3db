"""JSON Schemas: generated, deterministic, right for every spec of ours, and strict where shape alone decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from strata_gen.diagnostics import Sink
from strata_gen.edge.base import SpecKind
from strata_gen.kinds import KINDS
from strata_gen.load.document import read_document
from strata_gen.paths import specs_root
from strata_gen.schema import schema_files, schema_of
from strata_gen.specs import spec_files

Kind = SpecKind[Any, Any]
BAD = Path(__file__).parent / "bad"
SHAPE_CODES = ("010", "011", "012", "013", "014")


def data_of(path: Path) -> Any:
    document = read_document(path, path.name, Sink())
    assert document is not None
    return document.data


def validator(kind: Kind) -> jsonschema.Draft202012Validator:
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_spec_of_ours_is_accepted(kind: Kind) -> None:
    check = validator(kind)
    for path in spec_files(specs_root(), kind):
        check.validate(data_of(path))


def wrong_by_shape() -> Iterator[Path]:
    """Bad specs whose findings are all of shape."""
    for path in sorted(BAD.glob("*/*.expected")):
        codes = {line.split("error[")[1][:4] for line in path.read_text().splitlines() if ": error[" in line}
        if codes and all(code[0] != "Y" and code[1:] in SHAPE_CODES for code in codes):
            yield path.with_suffix(".yaml")


@pytest.mark.parametrize("case", list(wrong_by_shape()), ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_what_is_wrong_by_shape_is_refused(case: Path) -> None:
    (kind,) = (kind for kind in KINDS if kind.folder == case.parent.name)
    assert not validator(kind).is_valid(data_of(case))


def test_there_are_cases_of_shape() -> None:
    assert len(list(wrong_by_shape())) >= 20


def test_text_may_be_written_as_a_number() -> None:
    (knob,) = (kind for kind in KINDS if kind.name == "knob")
    text = """{"knobs": [{"name": "a.b", "type": "str", "affects": "runtime", "output": "identical", "help": "A.",
        "since": 0.1, "default": 8.10}]}"""
    validator(knob).validate(json.loads(text))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_schema_names_its_kind_and_explains_its_parts(kind: Kind) -> None:
    schema = schema_of(kind)
    assert kind.folder in schema["title"]
    assert schema["description"]
    for name, part in schema["$defs"].items():
        assert part["description"], name


def test_the_text_does_not_depend_on_the_run() -> None:
    code = "from strata_gen.schema import schema_files; print(schema_files())"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale},
        ).stdout
        for seed, locale in (("1", "C"), ("2", "C.UTF-8"))
    }
    assert len(outputs) == 1


def test_the_files_in_the_specs_are_up_to_date() -> None:
    folder = specs_root() / "schema"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == dict(schema_files())


def test_the_command_writes_what_is_missing_and_checks_what_is_stale(
    strata_gen: Callable[..., Result], tmp_path: Path
) -> None:
    assert strata_gen("schema", "--output", tmp_path, "--check").exit_code == 1
    assert list(tmp_path.iterdir()) == []
    written = strata_gen("schema", "--output", tmp_path)
    assert written.output.count("wrote ") == len(KINDS)
    assert strata_gen("schema", "--output", tmp_path, "--check").exit_code == 0
    stale = tmp_path / "knob.schema.json"
    stale.write_text("{}")
    check = strata_gen("schema", "--output", tmp_path, "--check")
    assert (check.exit_code, check.stdout) == (1, f"stale {stale}\n")
    assert strata_gen("schema", "--output", tmp_path).output == f"wrote {stale}\n"
