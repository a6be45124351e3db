"""Codes of shape, which all kinds share: keys that are missing or unknown, values of the wrong type or size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.codes.explanation import Explanation

Example = tuple[str, str]
"""An excerpt before and after mending."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of spec, with an example for each number."""

    prefix: str
    noun: str
    missing: Example
    type: Example
    unknown: Example
    choice: Example
    limit: Example
    other: Example

    def explanations(self) -> Iterator[Explanation]:
        """Yield the shared codes for this kind."""
        for number, title, text, example in (
            (
                "010",
                "a key is missing",
                f"An obligatory key of a {self.noun} spec is not there. All that are missing in one place are "
                "named together.",
                self.missing,
            ),
            (
                "011",
                "a value of the wrong type",
                f"A {self.noun} spec has a value of another type than its key takes. Nothing is converted: `yes` "
                "and `no` are text, 1 is no boolean, and a single value is no list.",
                self.type,
            ),
            (
                "012",
                "an unknown key",
                f"A {self.noun} spec has a key that means nothing there. It is an error, because a misspelt key "
                "that is passed over leaves the value unset.",
                self.unknown,
            ),
            (
                "013",
                "not one of the words that are allowed",
                f"The value of this key of a {self.noun} spec is one of a few words; the message lists them.",
                self.choice,
            ),
            (
                "014",
                "outside of what the key allows",
                f"A value of a {self.noun} spec is too small, too large, too short or not in the form that its key "
                "takes.",
                self.limit,
            ),
            (
                "015",
                "not valid",
                f"A value of a {self.noun} spec breaks a rule that the message states.",
                self.other,
            ),
        ):
            yield Explanation(f"{self.prefix}{number}", title, text, *example)


_KINDS = (
    _Kind(
        "K",
        "knob",
        missing=("- name: pool.threads\n  type: int", "- name: pool.threads\n  type: int\n  affects: launch\n  ..."),
        type=("choices: fast", "choices: [fast, slow]"),
        unknown=("defualt: 0", "default: 0"),
        choice=("output: same", "output: identical"),
        limit=("knobs: []", "knobs:\n  - name: pool.threads\n    ..."),
        other=("since: next", 'since: "0.2"'),
    ),
    _Kind(
        "T",
        "target",
        missing=("wave_size: {value: 32}", "wave_size: {value: 32, source: guide}"),
        type=("aliases: ampere", "aliases: [ampere]"),
        unknown=("featrues: [fp8]", "features: [fp8]"),
        choice=("dot: dp4", "dot: dp4a"),
        limit=("name: SM 86", "name: sm_86"),
        other=("wave_size: 32", "wave_size: {value: 32, source: guide}"),
    ),
    _Kind(
        "F",
        "format",
        missing=(
            "fields: [{name: d, type: f16, offset: 0}]",
            "fields: [{name: d, type: f16, offset: 0, help: Scale.}]",
        ),
        type=("block: 34", "block: {elements: 32, bytes: 34}"),
        unknown=("decode: {quant: q, scales: d}", "decode: {quant: q, scale: d}"),
        choice=("activation: int4", "activation: int8"),
        limit=("block: {elements: 0, bytes: 2}", "block: {elements: 1, bytes: 2}"),
        other=("fields: [{name: q, count: .inf, ...}]", "fields: [{name: q, count: 32, ...}]"),
    ),
    _Kind(
        "N",
        "kernel",
        missing=(
            "- {name: out, type: f32, access: write}",
            '- {name: out, type: f32, shape: "[rows]", access: write, ...}',
        ),
        type=("backends: cpu", "backends: [cpu]"),
        unknown=("paramters: [...]", "parameters: [...]"),
        choice=("access: reads", "access: read"),
        limit=("body: ops.cpp", "body: strata/ops.hpp"),
        other=("tolerance: [{activation: float, bound: .nan}]", "tolerance: [{activation: float, bound: 1e-5}]"),
    ),
    _Kind(
        "M",
        "family",
        missing=("- {name: hidden_size, type: int}", "- {name: hidden_size, type: int, required: true, help: Width.}"),
        type=("architectures: Glm4MoeForCausalLM", "architectures: [Glm4MoeForCausalLM]"),
        unknown=("model_type: [glm4_moe]", "model_types: [glm4_moe]"),
        choice=("type: integer", "type: int"),
        limit=("name: GLM-4", "name: glm4"),
        other=("default: {}", "default: 0"),
    ),
    _Kind(
        "P",
        "protocol",
        missing=(
            "words: [{name: seq, writer: device, raised: Published.}]",
            "words: [{name: seq, writer: device, raised: Published., missing: The window fails.}]",
        ),
        type=("words: {name: seq}", "words: [{name: seq, ...}]"),
        unknown=("field: [{name: layer, ...}]", "fields: [{name: layer, ...}]"),
        choice=("writer: gpu", "writer: device"),
        limit=(
            "limits: [{name: picks, value: 0, help: Experts of a token.}]",
            "limits: [{name: picks, value: 16, help: Experts of a token.}]",
        ),
        other=("name: Window Words", "name: window_words"),
    ),
)

CODES: tuple[Explanation, ...] = tuple(entry for kind in _KINDS for entry in kind.explanations())
