"""Codes of protocols."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "P020",
        "neither words nor a block, or both",
        "A file of specs/protocol describes signals ('words') or a block of memory ('fields'), not both.",
        "name: signals",
        "name: signals\nwords:\n  - {name: seq, writer: device, raised: Published., missing: The window fails.}",
    ),
    Explanation(
        "P021",
        "a name given twice",
        "Words and fields become members of one C++ struct, so each name stands once.",
        "words: [{name: seq, ...}, {name: seq, ...}]",
        "words: [{name: seq, ...}, {name: rows_ready, ...}]",
    ),
    Explanation(
        "P022",
        "a limit without a value",
        "A limit is a number, or the value of a compile-time knob: exactly one of 'value' and 'knob'.",
        "limits: [{name: picks, help: Experts of a token.}]",
        "limits: [{name: picks, value: 16, help: Experts of a token.}]",
    ),
    Explanation(
        "P023",
        "an axis that is no size",
        "Every axis of a field's shape is a limit or a size of the same block.",
        "limits: [{name: tokens, value: 8, help: Positions.}]\nfields: [{name: ids, shape: [token], ...}]",
        "limits: [{name: tokens, value: 8, help: Positions.}]\nfields: [{name: ids, shape: [tokens], ...}]",
    ),
    Explanation(
        "P024",
        "a fixed field behind a sized one",
        "Fields whose size is known at run time alone come last, so that the others have fixed places.",
        "fields: [{name: rows, shape: [hidden], ...}, {name: layer, ...}]",
        "fields: [{name: layer, ...}, {name: rows, shape: [hidden], ...}]",
    ),
    Explanation(
        "P025",
        "a record that is a choice",
        "Elements are records of named parts, or numbers whose values have names: one of 'parts' and 'values'.",
        "fields: [{name: owner, type: u8, parts: [cpu], values: [cpu], ...}]",
        "fields: [{name: owner, type: u8, values: [nobody, cpu], ...}]",
    ),
    Explanation(
        "P030",
        "a condition that cannot be read",
        "'when' is a condition over knobs, in the language of the relations between knobs.",
        "when: verify.defer_cpu = 1",
        'when: verify.defer_cpu != "0"',
    ),
    Explanation(
        "P031",
        "a limit that is no compile-time integer",
        "Memory is sized when code is compiled, so the knob behind a limit is an int that affects compile.",
        "limits: [{name: tokens, knob: pool.threads, help: Positions.}]",
        "limits: [{name: tokens, knob: window.max_tokens, help: Positions.}]",
    ),
    Explanation(
        "P032",
        "a stamp that proves nothing",
        "A word's stamp is a field of a block: a single u32 that the word's own writer fills behind its data.",
        "stamp: plan.ids",
        "stamp: plan.published",
    ),
    Explanation(
        "P033",
        "two protocols of one name",
        "A protocol's name becomes the name of a C++ type and of a header.",
        "# protocol/a.yaml\nname: plan\n# protocol/b.yaml\nname: plan",
        "# protocol/a.yaml\nname: plan\n# protocol/b.yaml\nname: plan_of_prompts",
    ),
)
