"""Codes of model families."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "M020",
        "not a formula",
        "A size is a sum of products over config keys and whole numbers. Nothing else exists: no division, no "
        "parentheses, no calls.",
        "shape: [hidden_size / 2]",
        "shape: [num_attention_heads * head_dim]",
    ),
    Explanation(
        "M021",
        "unknown config key",
        "A formula or condition names a key that the family does not declare under 'config'.",
        "hidden_size: hiden_size",
        "hidden_size: hidden_size",
    ),
    Explanation(
        "M022",
        "a config key of another type",
        "Formulas need numbers, conditions need booleans, 'eos_ids' needs ids.",
        "when: hidden_size",
        "when: attention_bias",
    ),
    Explanation(
        "M023",
        "a default that never counts",
        "A required key is always in config.json, so a default for it would only mislead.",
        "{name: hidden_size, type: int, required: true, default: 128, help: Width.}",
        "{name: hidden_size, type: int, required: true, help: Width.}",
    ),
    Explanation(
        "M024",
        "neither required nor a default",
        "A key that config.json may leave out needs a value to go on with.",
        "{name: attention_bias, type: bool, help: Whether there is a bias.}",
        "{name: attention_bias, type: bool, default: false, help: Whether there is a bias.}",
    ),
    Explanation(
        "M025",
        "the default has another type",
        "The default of a config key must be a value of the key's type.",
        "{name: rope_theta, type: float, default: large, help: Base.}",
        "{name: rope_theta, type: float, default: 10000.0, help: Base.}",
    ),
    Explanation(
        "M026",
        "bounds on what is no number",
        "'range', 'at_most' and 'multiple_of' bound numbers; a key of another type has none of them.",
        "{name: attention_bias, type: bool, default: false, range: {min: 0}, help: Bias.}",
        "{name: attention_bias, type: bool, default: false, help: Bias.}",
    ),
    Explanation(
        "M027",
        "placeholders do not fit the role",
        "The name of a tensor inside a layer holds {layer} once, that of a routed expert's also {expert}; a "
        "tensor of the whole model holds neither.",
        "{role: expert_up, name: model.layers.{layer}.mlp.up.weight, ...}",
        "{role: expert_up, name: model.layers.{layer}.mlp.experts.{expert}.up.weight, ...}",
    ),
    Explanation(
        "M028",
        "layers do not fit the role",
        "A tensor inside a layer names its groups under 'layers'; a tensor of the whole model has none.",
        "{role: embedding, name: model.embed_tokens.weight, layers: [moe], ...}",
        "{role: embedding, name: model.embed_tokens.weight, ...}",
    ),
    Explanation(
        "M029",
        "unknown group of layers",
        "'layers' of a tensor names groups that the family declares under its own 'layers'.",
        "layers: [mo]",
        "layers: [moe]",
    ),
    Explanation(
        "M030",
        "a role without a tensor",
        "The network cannot be computed without these tensors, so every family declares them.",
        "tensors: []",
        "tensors:\n  - {role: embedding, name: model.embed_tokens.weight, ...}",
    ),
    Explanation(
        "M031",
        "given twice",
        "Config keys, groups of layers, tensor names and roles are unique inside a family.",
        "- {role: embedding, ...}\n- {role: embedding, ...}",
        "- {role: embedding, ...}",
    ),
    Explanation(
        "M040",
        "a family is declared twice",
        "Two entries have the same name, in one file or in several.",
        "- name: glm4_moe\n- name: glm4_moe",
        "- name: glm4_moe",
    ),
    Explanation(
        "M041",
        "two families claim one model type",
        "A checkpoint is matched to its family by the 'model_type' of its config.json, so one type belongs to one "
        "family.",
        "- {name: a, model_types: [glm4_moe]}\n- {name: b, model_types: [glm4_moe]}",
        "- {name: a, model_types: [glm4_moe]}\n- {name: b, model_types: [other_moe]}",
    ),
)
