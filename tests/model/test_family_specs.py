"""The family kind of spec: what it says is what the runtime gets, and what it can get wrong is one error each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata_gen.codes import CODES
from strata_gen.diagnostics import Sink
from strata_gen.edge.base import read_edges
from strata_gen.edge.family import FAMILY
from strata_gen.edge.formula import parse_formula
from strata_gen.load.document import parse_document
from strata_gen.model.check_family import check_families
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.views.family_page import families_page, formula_text
from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.expected import expected_tensors
from support.checkpoints import AIR_OPTIONS, fuse, make_config, make_qwen_config, make_tensors, shapes
from support.reference_provider import family_specs, generated_families

TEXT = (specs_root() / "models" / "glm4_moe.yaml").read_text(encoding="utf-8")


def read(text: str) -> Sink:
    sink = Sink()
    document = parse_document(text, "specs/models/x.yaml", sink)
    if document is not None:
        read_edges(FAMILY, (document,), sink)
    return sink


# --- what it says

AIR = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
}


CONFIGS = [
    *(make_config(**changes) for changes in ({}, AIR_OPTIONS, {**AIR_OPTIONS, **AIR}, {"num_nextn_predict_layers": 2})),
    *(make_qwen_config(**changes) for changes in ({}, {"attention_bias": True, "tie_word_embeddings": True})),
]


def config_of(raw: dict[str, object]) -> Config:
    (family,) = (family for family in generated_families() if raw["model_type"] in family.model_types)
    values = {key.name: raw.get(key.name, key.default) for key in family.keys}
    return Config(Path("config.json"), "config.json", family, values)  # type: ignore[arg-type]


@pytest.mark.parametrize("raw", CONFIGS)
def test_names_and_shapes_are_those_of_the_architecture(raw: dict[str, object]) -> None:
    config, expected = config_of(raw), dict(shapes(raw))
    assert {e.name: e.shape(config) for e in expected_tensors(config, "name", expected)} == expected


@pytest.mark.parametrize("raw", [make_config(num_nextn_predict_layers=1), make_qwen_config()])
def test_names_and_shapes_of_fused_experts(raw: dict[str, object]) -> None:
    config = config_of(raw)
    expected = {name: tuple(tensor.shape) for name, tensor in fuse(make_tensors(raw)).items()}
    assert {e.name: e.shape(config) for e in expected_tensors(config, "fused", expected)} == expected


def test_the_runtime_gets_what_the_spec_says() -> None:
    for spec, info in zip(family_specs(), generated_families(), strict=True):
        assert (info.name, info.title, info.model_types) == (spec.name, spec.title, spec.model_types)
        assert [str(key.at_most) for key in info.keys if key.at_most] == [
            formula_text(key.at_most) for key in spec.keys if key.at_most
        ]
        for field in ("role", "name", "fused", "gguf", "groups", "optional"):
            assert [getattr(t, field) for t in info.tensors] == [getattr(t, field) for t in spec.tensors]
        for field in ("name", "paths", "type", "required", "help"):
            assert [getattr(key, field) for key in info.keys] == [getattr(key, field) for key in spec.keys]
        assert [fixed.allowed for fixed in info.fixed] == [fixed.allowed for fixed in spec.fixed]


def test_the_runtime_gets_what_the_spec_says_of_gguf_files() -> None:
    for spec, info in zip(family_specs(), generated_families(), strict=True):
        assert spec.gguf is not None
        assert info.gguf is not None
        assert info.gguf.architectures == spec.gguf.architectures
        fields = ("name", "key", "minus", "over", "zero", "rows", "present", "absent", "value")
        for found, said in zip(info.gguf.config, spec.gguf.config, strict=True):
            assert [getattr(found, field) for field in fields] == [getattr(said, field) for field in fields]
            assert found.default == (() if found.name == "eos_token_id" else said.default)
        assert [(r.keys, r.allowed, r.note) for r in info.gguf.rules] == [
            (r.keys, r.allowed, r.note) for r in spec.gguf.rules
        ]
        assert [str(rule.written) for rule in info.gguf.rules if rule.written] == [
            formula_text(rule.written) for rule in spec.gguf.rules if rule.written
        ]
        assert [(i.keys, i.tensors, i.note) for i in info.gguf.ignored] == [
            (i.keys, i.tensors, i.note) for i in spec.gguf.ignored
        ]


@pytest.mark.parametrize("text", ["hidden_size", "2 * hidden_size", "a * b + 3 * c + 1", "0"])
def test_a_formula_is_shown_as_it_is_written(text: str) -> None:
    assert formula_text(parse_formula(text)) == text


def test_the_page_has_a_row_for_every_key_and_tensor() -> None:
    for page, spec in zip(families_page(family_specs()).families, family_specs(), strict=True):
        assert len(page.keys) == len(spec.keys)
        assert [row.role for row in page.tensors] == [tensor.role for tensor in spec.tensors]
        (gguf,), said = page.gguf, spec.gguf
        assert said is not None
        assert [name for name, _ in gguf.config] == [key.name for key in said.config]
        assert (len(gguf.rules), len(gguf.ignored)) == (len(said.rules), len(said.ignored))


# --- what it can get wrong

CASES = {
    "M012": ("help: Query heads.", "halp: Query heads.", "unknown key 'halp'"),
    "M013": ("role: head,", "role: heed,", "not 'heed'"),
    "M020": ("shape: [vocab_size, hidden_size]", "shape: [vocab_size - 1, hidden_size]", "'vocab_size - 1' is neither"),
    "M021": ("end: first_k_dense_replace}", "end: first_k_dense}", "unknown config key 'first_k_dense'"),
    "M022": ("when: use_qk_norm", "when: head_dim", "config key 'head_dim' is int, not bool"),
    "M023": ("type: int, required: true,", "type: int, required: true, default: 3,", "so its default never counts"),
    "M024": (
        "name: use_qk_norm, type: bool, default: false,",
        "name: use_qk_norm, type: bool,",
        "neither required nor",
    ),
    "M025": ("type: float, default: 1.0,", "type: float, default: true,", "is not float"),
    "M026": ("type: bool, default: true,", "type: bool, default: true, range: {max: 1},", "only numbers have bounds"),
    "M027": (
        "model.layers.{layer}.enorm.weight",
        "model.layers.4.enorm.weight",
        "role 'mtp_embedding_norm' holds {layer}",
    ),
    "M028": ("shape: [hidden_size]}\n", "shape: [hidden_size], layers: [all]}\n", "belongs to no layer"),
    "M029": ("layers: [dense]", "layers: [dence]", "unknown group of layers 'dence'"),
    "M030": (
        "      - {role: router, ",
        "      - {role: mtp_head, optional: true, when: use_qk_norm, ",
        "has the role router",
    ),
    "M031": ("name: lm_head.weight", "name: model.norm.weight", "tensor 'model.norm.weight' is given twice"),
    "M032": (
        "        - {name: head_dim, key: attention.key_length}\n",
        "",
        "config key 'head_dim' has no place in GGUF files",
    ),
    "M033": (
        "absent: output.weight",
        "absent: output.weight, value: true",
        "'tie_word_embeddings' has absent and value",
    ),
    "M034": (
        "key: block_count, minus: num_nextn_predict_layers",
        "key: block_count, minus: n_routed_experts",
        "'n_routed_experts' must stand before",
    ),
    "M035": ("[rope.scaling.factor], allowed: [0, 1],", "[rope.scaling.factor],", "a rule says nothing of what is"),
    "M036": ("{role: head_scale, gguf: output.scale,", "{role: head_scale,", "tensor of role 'head_scale' has no name"),
    "M038": ("mtp: {layers: mtp,", "mtp: {layers: moe,", "layers 'moe' have no tensor of role mtp_embedding_norm"),
    "M037": ("allowed: [0, 2], written: 2,", "allowed: [0, 2], written: 3,", "a rule does not allow what is written"),
}


@pytest.mark.parametrize("code", CASES)
def test_a_wrong_family_is_refused_at_its_line(code: str) -> None:
    before, after, message = CASES[code]
    assert before in TEXT
    spoilt = TEXT.replace(before, after, 1)
    findings = [finding for finding in read(spoilt).diagnostics if finding.code == code]
    assert findings
    assert message in findings[0].message
    changed = [line for line, (a, b) in enumerate(zip(TEXT.split("\n"), spoilt.split("\n"), strict=False), 1) if a != b]
    assert code in {"M030", "M032"} or findings[0].span.line in changed


def test_the_spec_itself_has_no_findings() -> None:
    assert read(TEXT).diagnostics == []


def test_two_families_cannot_claim_the_same_checkpoints() -> None:
    family, other = family_specs()
    twin, rival, heir = replace(family), replace(family, name="rival", gguf=None), replace(other, gguf=family.gguf)
    for others, code in (((family, twin), "M040"), ((family, rival), "M041"), ((family, heir), "M042")):
        sink = Sink()
        check_families(SpecSet((), (), (), (), others, ()), sink)
        assert [finding.code for finding in sink.diagnostics] == [code]


def test_every_code_of_families_has_a_case() -> None:
    own = {code for code in CODES if code.startswith("M") and code >= "M020"}
    assert own == {code for code in CASES if code >= "M020"} | {"M040", "M041", "M042"}
