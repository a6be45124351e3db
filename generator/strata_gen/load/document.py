"""One spec file as plain data plus spans."""

from __future__ import annotations

import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from strata_gen.diagnostics import Note, Sink, Span
from strata_gen.load.scalars import AmbiguousScalar, Scalar, resolve_plain

Data = Scalar | list["Data"] | dict[str, "Data"]
Key = str | int
DataPath = tuple[Key, ...]

_MERGE = "<<"
_YAML_TAG = "tag:yaml.org,2002:"
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what YAML counts as one
_LONG_ESCAPE = re.compile(r"\\U([0-9a-fA-F]{8})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_CHARACTER = "an escape names no character of Unicode"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one value stands, and its key when it has one."""

    value: Span
    key: Span | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data and, for every path into it (keys and list indexes), the place in the text."""

    file: str
    data: Data
    places: dict[DataPath, Place]

    def at(self, *path: Key) -> Span:
        """Span of the value at `path`, or of its nearest enclosing value that is known."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path].value

    def key_at(self, *path: Key) -> Span:
        """Span of the key at `path`; falls back to `at`."""
        place = self.places.get(path)
        return place.key if place is not None and place.key is not None else self.at(*path)

    def inside(self, start: int, end: int, *path: Key) -> Span:
        """Span of the characters from `start` up to `end` of the text value at `path`.

        A value whose text does not stand on one line as it is read (folded, block) gives its own span.
        """
        whole = self.at(*path)
        columns = _columns(whole, self.get(*path))
        if not 0 <= start < len(columns):
            return whole
        last = columns[min(end, len(columns) - 1)]
        return Span(whole.file, whole.line, columns[start], max(last, columns[start] + 1), whole.text)

    def get(self, *path: Key) -> Data:
        """Value at `path`, or None when it is not there."""
        here: Data = self.data
        for key in path:
            if isinstance(here, dict) and isinstance(key, str):
                here = here.get(key)
            elif isinstance(here, list) and isinstance(key, int) and 0 <= key < len(here):
                here = here[key]
            else:
                return None
        return here


def _columns(span: Span, value: Data) -> list[int]:
    """Column of every character of the scalar that `span` covers, and of its end; empty when they do not match."""
    source = span.text[span.column - 1 : span.end_column - 1]
    quote = source[0] if source[:1] in ("'", '"') else ""
    escape = {"'": "''", '"': "\\"}.get(quote)
    columns: list[int] = []
    at = len(quote)
    while at < len(source) - len(quote):
        columns.append(span.column + at)
        at += 2 if escape is not None and source.startswith(escape, at) else 1
    columns.append(span.column + at)
    return columns if isinstance(value, str) and len(columns) == len(value) + 1 else []


class _Reader:
    def __init__(self, file: str, text: str, sink: Sink) -> None:
        self.file, self.sink = file, sink
        self.lines = _LINE_BREAK.split(text)
        self.places: dict[DataPath, Place] = {}

    def span(self, start: Any, end: Any = None) -> Span:
        line = self.lines[start.line] if start.line < len(self.lines) else ""
        stop = end.column if end is not None and end.line == start.line else len(line.rstrip())
        return Span(self.file, start.line + 1, start.column + 1, max(stop, start.column + 1) + 1, line)

    def node_span(self, node: Node) -> Span:
        return self.span(node.start_mark, node.end_mark)

    def point(self, mark: Any) -> Span:
        """Span of the one character at `mark`."""
        at = self.span(mark)
        return Span(at.file, at.line, at.column, at.column + 1, at.text)

    def place(self, text: str, at: int) -> Span:
        """Span of the one character at index `at` of the whole text."""
        before = _LINE_BREAK.split(text[:at])
        column = len(before[-1]) + 1
        return Span(self.file, len(before), column, column + 1, self.lines[len(before) - 1])

    def report(self, problem: yaml.MarkedYAMLError) -> None:
        """Report why the text is not YAML, and the construct that was being read."""
        mark, began = problem.problem_mark or problem.context_mark, problem.context_mark
        where = self.point(mark) if mark is not None else Span(self.file, 1, 1, 2)
        label = "indent with spaces" if where.text[where.column - 1 : where.column] == "\t" else ""
        notes = (Note(problem.context, self.point(began)),) if problem.context and began is not None else ()
        self.sink.error("Y001", f"not valid YAML: {problem.problem or problem.context}", where, label, notes)

    def read(self, node: Node, path: DataPath, key: Span | None) -> Data:
        self.places[path] = Place(self.node_span(node), key)
        if isinstance(node, ScalarNode):
            return self.scalar(node)
        if isinstance(node, SequenceNode):
            return [self.read(child, (*path, index), None) for index, child in enumerate(node.value)]
        assert isinstance(node, MappingNode)
        return self.mapping(node, path)

    def text(self, node: ScalarNode) -> str:
        text = str(node.value)
        if _SURROGATE.search(text):
            self.sink.error("Y001", f"not valid YAML: {_NO_CHARACTER}", self.node_span(node))
        return text

    def scalar(self, node: ScalarNode) -> Scalar:
        if node.style is not None:
            return self.text(node)
        try:
            return resolve_plain(node.value)
        except AmbiguousScalar as problem:
            self.sink.error("Y004", str(problem), self.node_span(node))
            return problem.best

    def mapping(self, node: MappingNode, path: DataPath) -> dict[str, Data]:
        result: dict[str, Data] = {}
        for key_node, value_node in node.value:
            key_span = self.node_span(key_node)
            if not isinstance(key_node, ScalarNode):
                self.sink.error("Y005", "a key must be a word, not a list or a mapping", key_span)
                continue
            key = self.text(key_node)
            if key == _MERGE:
                self.sink.error("Y003", "merge keys are not part of the spec language", key_span, "write the keys out")
            elif key in result:
                first = self.places[(*path, key)].key
                self.sink.error("Y002", f"duplicate key '{key}'", key_span, notes=(Note("first given here", first),))
            else:
                result[key] = self.read(value_node, (*path, key), key_span)
        return result


def _refused_event(event: yaml.Event) -> str | None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return "anchors and aliases are not part of the spec language"
    tag = getattr(event, "tag", None)
    if tag is not None and tag != "!":
        return f"tags ('{tag.replace(_YAML_TAG, '!!')}') are not part of the spec language"
    return None


def _parse(reader: _Reader, text: str) -> Document | None:
    events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    refused = [(event, why) for event in events if (why := _refused_event(event))]
    for event, why in refused:
        reader.sink.error("Y003", why, reader.span(event.start_mark, event.end_mark))
    if refused:
        return None
    starts = [event for event in events if isinstance(event, yaml.DocumentStartEvent)]
    if len(starts) > 1:
        reader.sink.error(
            "Y006", "a second document starts here: a spec file holds one", reader.span(starts[1].start_mark)
        )
        return None
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        reader.sink.error("Y006", "the file is empty", Span(reader.file, 1, 1, 2, reader.lines[0]))
        return None
    return Document(reader.file, reader.read(node, (), None), reader.places)


def parse_document(text: str, file: str, sink: Sink) -> Document | None:
    """Parse one YAML text. Returns None when its syntax leaves nothing to read; findings go to `sink`.

    `file` is the name to show. Duplicate keys, anchors, aliases, tags, several documents in one file and empty
    files are errors.
    """
    reader = _Reader(file, text, sink)
    try:
        return _parse(reader, text)
    except yaml.MarkedYAMLError as problem:
        reader.report(problem)
    except yaml.reader.ReaderError as problem:
        place = reader.place(text, problem.position)
        # Without the line: a control character is not for terminals.
        sink.error(
            "Y001", f"not valid YAML: {problem.reason}", Span(place.file, place.line, place.column, place.end_column)
        )
    except RecursionError:
        sink.error("Y001", "not valid YAML: nested too deeply", Span(file, 1, 1, 2))
    except (ValueError, OverflowError):  # the library's own, without a place
        at = next((match.start() for match in _LONG_ESCAPE.finditer(text) if int(match[1], 16) > sys.maxunicode), 0)
        sink.error("Y001", f"not valid YAML: {_NO_CHARACTER}", reader.place(text, at))
    return None


def _ends(path: Path) -> bool:
    """Whether reading `path` whole comes to an end, or fails: a pipe waits for its writer, some devices never end."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def read_document(path: Path, shown_as: str, sink: Sink) -> Document | None:
    """Read and parse the UTF-8 file `path`; see `parse_document`."""
    try:
        if not _ends(path):
            sink.error("Y007", "cannot be read: not a file but a pipe or a device", Span(shown_as, 1, 1, 2))
            return None
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        sink.error("Y001", f"not UTF-8 text: byte {problem.start} cannot be read", Span(shown_as, 1, 1, 2))
        return None
    except OSError as problem:
        sink.error("Y007", f"cannot be read: {problem.strerror}", Span(shown_as, 1, 1, 2))
        return None
    return parse_document(text, shown_as, sink)
