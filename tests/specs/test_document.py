"""A document is plain data with a place for every key and value."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_gen.diagnostics import Sink, Span
from strata_gen.load.document import Document, parse_document, read_document

TEXT = """\
first: 1
list:
  - name: "a"
    size: 8.10
  - {name: b}
"""


def parsed(text: str) -> Document:
    sink = Sink()
    document = parse_document(text, "f.yaml", sink)
    assert sink.diagnostics == []
    assert document is not None
    return document


def covered(span: Span) -> str:
    return span.text[span.column - 1 : span.end_column - 1]


def test_every_key_and_value_knows_its_place() -> None:
    document = parsed(TEXT)
    assert document.data == {"first": 1, "list": [{"name": "a", "size": 8.1}, {"name": "b"}]}
    assert covered(document.at("list", 0, "name")) == '"a"'
    assert covered(document.at("list", 0, "size")) == "8.10"
    assert covered(document.key_at("list", 1, "name")) == "name"
    assert document.at("list", 1, "name").line == 5


def test_what_is_not_there_gives_the_nearest_place_around_it() -> None:
    document = parsed(TEXT)
    assert document.at("list", 1, "size") == document.at("list", 1)
    assert document.get("list", 7) is None
    assert document.get("first", "second") is None


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("a.b == c", "=="),
        ("'it''s == c'", "=="),
        ('"a \\"quoted\\" == c"', "=="),
        ('"a \\\\ == c"', "=="),
    ],
)
def test_a_part_of_a_text_is_found_in_its_line(source: str, part: str) -> None:
    document = parsed(f"when: {source}\n")
    text = document.get("when")
    assert isinstance(text, str)
    start = text.index(part)
    assert covered(document.inside(start, start + len(part), "when")) == part


@pytest.mark.parametrize("source", [">\n  a\n  b", "|\n  a\n  b", "a\n  b", '"\\u0041 b"'])
def test_a_part_of_a_text_that_is_folded_or_escaped_gives_the_whole(source: str) -> None:
    document = parsed(f"when: {source}\n")
    assert document.inside(1, 2, "when") == document.at("when")


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.sampled_from("'\" \\"), min_size=1))
def test_every_character_of_a_single_quoted_text_is_found(text: str) -> None:
    document = parsed("when: '" + text.replace("'", "''") + "'\n")
    if document.get("when") != text:  # a line break in disguise was folded
        return
    for index, character in enumerate(text):
        span = document.inside(index, index + 1, "when")
        assert span == document.at("when") or span.text[span.column - 1] == character


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_endings_do_not_move_places(newline: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(("\ufeff" + TEXT.replace("\n", newline)).encode())
    document = read_document(path, "f.yaml", Sink())
    assert document is not None
    assert document.data == parsed(TEXT).data
    assert covered(document.at("list", 0, "size")) == "8.10"
    assert document.key_at("first").column == 1


def test_exotic_line_breaks_count_as_yaml_counts_them() -> None:
    document = parsed("# one\u2028# two\x85key: value\n")
    assert document.key_at("key").line == 3
    assert covered(document.at("key")) == "value"


@pytest.mark.parametrize("content", [b"a: \xff\xfe", b"\xff\xfea\x00:\x00"])
def test_what_is_not_utf8_is_one_finding(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    sink = Sink()
    assert read_document(path, "specs/f.yaml", sink) is None
    (finding,) = sink.diagnostics
    assert finding.code == "Y001"
    assert "UTF-8" in finding.message


def test_a_file_that_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    sink = Sink()
    assert read_document(tmp_path / "none.yaml", "specs/none.yaml", sink) is None
    assert [d.code for d in sink.diagnostics] == ["Y007"]


@pytest.mark.parametrize("target", ["a pipe", "/dev/zero"])
def test_what_has_no_end_is_not_waited_for(tmp_path: Path, target: str) -> None:
    path = tmp_path / "f.yaml"
    if target == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    sink = Sink()
    assert read_document(path, "specs/f.yaml", sink) is None
    assert [(d.code, "a pipe or a device" in d.message) for d in sink.diagnostics] == [("Y007", True)]


@pytest.mark.parametrize("escape", ["U00110000", "UFFFFFFFF", "ud800", "U0000DFFF"])
@pytest.mark.parametrize("text", ['a: 1\nb: "x{}"\n', 'a: 1\n"x{}": 1\n'])
def test_an_escape_that_names_no_character_is_a_finding_in_its_line(escape: str, text: str) -> None:
    sink = Sink()
    parse_document(text.format("\\" + escape), "f.yaml", sink)
    (finding,) = sink.diagnostics
    assert (finding.code, finding.span.line) == ("Y001", 2)
    assert "an escape names no character of Unicode" in finding.message


@pytest.mark.parametrize("text", ["[" * 700 + "]" * 700, "{a: " * 700 + "}" * 700, "- " * 700])
def test_absurd_nesting_is_a_finding(text: str) -> None:
    sink = Sink()
    assert parse_document(text, "f.yaml", sink) is None
    assert [d.code for d in sink.diagnostics] == ["Y001"]


@given(st.text(st.sampled_from("abdDuU08\\:-[]{}#&*!|>'\"%@`?, \n\t01.~<\u2028\x85\ufeff\x00"), max_size=40))
def test_no_text_raises(text: str) -> None:
    sink = Sink()
    document = parse_document(text, "f.yaml", sink)
    assert document is not None or sink.diagnostics
    for finding in sink.diagnostics:
        assert finding.span.line >= 1
        assert finding.span.end_column > finding.span.column >= 1


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]))
KEYS = TEXTS.filter(lambda key: key != "<<")
JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(JSON_DATA)
def test_json_is_read_as_what_it_is(data: object) -> None:
    assert parsed(json.dumps(data, ensure_ascii=False)).data == data
