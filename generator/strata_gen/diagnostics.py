"""Diagnostics: what is wrong, where, and how to mend it; collected, then shown all at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

SHOWN_AT_MOST = 20
LINE_AT_MOST = 160


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one source line, counted in characters. Lines and columns count from 1; `end_column` is exclusive.

    `file` is the path as a user would type it (relative to the spec root's parent, forward slashes).
    """

    file: str
    line: int
    column: int
    end_column: int
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Note:
    """Another place that belongs to a diagnostic, such as the first of two duplicate keys."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable and explained by `strata-gen explain CODE`; `label` stands behind the caret."""

    code: str
    message: str
    span: Span
    label: str = ""
    notes: tuple[Note, ...] = ()


class SpecErrors(Exception):
    """Raised once, after everything was read, with every diagnostic found (sorted, without repeats)."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        unique = dict.fromkeys(diagnostics)
        self.diagnostics = tuple(sorted(unique, key=lambda d: (d.span, d.code, d.message)))
        count = len(self.diagnostics)
        super().__init__(f"{count} error{'s' if count != 1 else ''} in the specs")


@dataclass(slots=True)
class Sink:
    """Collects diagnostics while specs are read; the one mutable thing that the loading stages share."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def error(self, code: str, message: str, span: Span, label: str = "", notes: tuple[Note, ...] = ()) -> None:
        """Record one error and go on."""
        self.diagnostics.append(Diagnostic(code, message, span, label, notes))

    def raise_if_any(self) -> None:
        """Raise `SpecErrors` when anything was recorded."""
        if self.diagnostics:
            raise SpecErrors(self.diagnostics)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the nearest candidate, or an empty string when none is near."""
    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else ""


def _excerpt(span: Span, label: str) -> list[str]:
    if not span.text:
        return []
    # A long line is cut so that the caret stays in view.
    cut = max(0, span.column - LINE_AT_MOST // 2) if len(span.text) > LINE_AT_MOST else 0
    line = span.text[cut : cut + LINE_AT_MOST]
    before = "".join("\t" if character == "\t" else " " for character in line[: span.column - 1 - cut])
    carets = "^" * min(max(1, span.end_column - span.column), max(1, len(line) - len(before)))
    return [f"{span.line:>5} | {line}", f"      | {before}{carets}" + (f" {label}" if label else "")]


def _text(diagnostic: Diagnostic) -> list[str]:
    at = diagnostic.span
    lines = [f"{at.file}:{at.line}:{at.column}: error[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(at, diagnostic.label)
    for note in diagnostic.notes:
        where = f"{note.span.file}:{note.span.line}:{note.span.column}: " if note.span else ""
        lines.append(f"{where}note: {note.message}")
        lines += _excerpt(note.span, "") if note.span else []
    return lines


def render_text(errors: SpecErrors) -> str:
    """Render for a terminal: at most `SHOWN_AT_MOST` findings, then how many were left out."""
    lines = [line for diagnostic in errors.diagnostics[:SHOWN_AT_MOST] for line in _text(diagnostic)]
    left_out = len(errors.diagnostics) - SHOWN_AT_MOST
    if left_out > 0:
        lines.append(f"... and {left_out} more")
    codes = sorted({d.code for d in errors.diagnostics})
    lines.append(f"{errors}; 'strata-gen explain {codes[0]}' says more")
    return "\n".join(lines)


def render_json(errors: SpecErrors) -> str:
    """Render every finding as a JSON array (file, line, column, end_column, code, message, label, notes)."""

    def place(span: Span) -> dict[str, object]:
        return {"file": span.file, "line": span.line, "column": span.column, "end_column": span.end_column}

    rows = [
        {
            **place(d.span),
            "code": d.code,
            "message": d.message,
            "label": d.label,
            "notes": [{"message": n.message, **(place(n.span) if n.span else {})} for n in d.notes],
        }
        for d in errors.diagnostics
    ]
    return json.dumps(rows, indent=2)


def _github_escape(text: str, *, is_property: bool) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text


def render_github(errors: SpecErrors) -> str:
    """Render as workflow commands, which annotate the lines of a pull request."""
    return "\n".join(
        f"::error file={_github_escape(d.span.file, is_property=True)},line={d.span.line},col={d.span.column},"
        f"endColumn={d.span.end_column},title={d.code}::"
        + _github_escape(d.message + (f" ({d.label})" if d.label else ""), is_property=False)
        for d in errors.diagnostics
    )


RENDERERS = {"text": render_text, "json": render_json, "github": render_github}
