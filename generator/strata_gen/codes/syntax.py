"""Codes of reading a file at all: YAML, before any meaning."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "Y001",
        "not valid YAML",
        "The text cannot be read as YAML, or is not UTF-8. The place is where the reader gave up; the mistake is "
        "there or shortly before. Frequent causes: a tab that indents, a missing closing quote or bracket, ': ' "
        "inside text without quotes.",
        "help: Slots: how many there are.",
        'help: "Slots: how many there are."',
    ),
    Explanation(
        "Y002",
        "duplicate key",
        "A mapping gives one key twice. Most YAML readers keep the last one silently, which hides the first; here "
        "both places are shown and one must go.",
        "default: 1\nhelp: How many.\ndefault: 2",
        "default: 2\nhelp: How many.",
    ),
    Explanation(
        "Y003",
        "not part of the spec language",
        "Anchors (&), aliases (*), merge keys (<<) and tags (!) make the meaning of a line depend on another one "
        "and are refused. Write the value out where it belongs.",
        "range: &small {max: 8}",
        "range: {max: 8}",
    ),
    Explanation(
        "Y004",
        "a number that reads two ways",
        "A number with leading zeros is octal to YAML 1.1 and decimal to YAML 1.2; a number of more than 100 "
        "characters is none that a program can hold. Drop the zeros, or put the value in quotes if it is text.",
        "default: 010",
        "default: 10",
    ),
    Explanation(
        "Y005",
        "a key that is no word",
        "Keys are words. A list or a mapping as a key is valid YAML and means nothing here; most often a '?' or a "
        "bracket slipped in.",
        "? [min, max]\n: 3",
        "min: 3\nmax: 3",
    ),
    Explanation(
        "Y006",
        "not exactly one document",
        "A spec file holds one YAML document. An empty file, one with comments only, or a second document behind "
        "'---' is refused, because it would be read as less than it seems to hold.",
        "knobs: [...]\n---\nknobs: [...]",
        "knobs: [...]",
    ),
    Explanation(
        "Y007",
        "cannot be read",
        "The folder or file is not there, is no folder of specs, or must not be read. A folder of specs holds at "
        "least one of knobs/, targets/, formats/, kernels/ and models/.",
        "strata-gen check --specs specs/knobs",
        "strata-gen check --specs specs",
    ),
    Explanation(
        "Y008",
        "a spec file that is never read",
        "Specs are the files *.yaml that lie directly in the folder of their kind. A file with another ending, in "
        "a folder below, or in a folder that belongs to no kind would be passed over silently, so it is an error.",
        "specs/knobs/verify.yml\nspecs/knob/verify.yaml",
        "specs/knobs/verify.yaml",
    ),
)
