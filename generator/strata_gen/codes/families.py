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
        "The name of a tensor inside a layer holds {layer} once; a tensor of the whole model does not. Routed experts "
        "hold {expert} too under 'name', where they are stored one by one, and not under 'fused' and 'gguf', where all "
        "of a layer are one tensor.",
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
        "M032",
        "a config key without a place in GGUF files",
        "A family with a 'gguf' section says where each of its config keys is found there, if only as a fixed value.",
        "gguf:\n  config:\n    - {name: hidden_size, key: embedding_length}",
        "gguf:\n  config:\n    - {name: hidden_size, key: embedding_length}\n    - {name: norm_topk_prob, value: true}",
    ),
    Explanation(
        "M033",
        "not one source of a value",
        "A value comes from a metadata key, the rows of a tensor, the presence or absence of a tensor, or is fixed: "
        "one of them.",
        "- {name: vocab_size, key: vocab_size, rows: token_embd.weight}",
        "- {name: vocab_size, rows: token_embd.weight}",
    ),
    Explanation(
        "M034",
        "worked out from what comes later",
        "'minus' and 'over' name config keys that stand before in the list, so that their values are known.",
        "- {name: layers, key: block_count, minus: further}\n- {name: further, key: nextn_predict_layers}",
        "- {name: further, key: nextn_predict_layers}\n- {name: layers, key: block_count, minus: further}",
    ),
    Explanation(
        "M035",
        "a rule that allows nothing",
        "A rule says what its keys may hold: 'allowed', 'equals' or 'sections'. Keys that may hold anything are "
        "'ignored'.",
        "- {keys: [rope.scaling.factor], note: scaled rope is not supported}",
        "- {keys: [rope.scaling.factor], allowed: [0, 1], note: scaled rope is not supported}",
    ),
    Explanation(
        "M036",
        "a tensor without a name",
        "A tensor has a name in safetensors ('name'), in GGUF files ('gguf'), or both.",
        "- {role: final_norm, shape: [hidden_size]}",
        "- {role: final_norm, name: model.norm.weight, gguf: output_norm.weight, shape: [hidden_size]}",
    ),
    Explanation(
        "M037",
        "a rule does not allow what is written",
        "'written' is what conversion to GGUF writes for a rule's keys, and reading holds files to the rule: it is "
        "what the rule 'equals', or one of its 'allowed' whole numbers.",
        "- {keys: [expert_gating_func], allowed: [0, 2], written: 3, note: other routers are not supported}",
        "- {keys: [expert_gating_func], allowed: [0, 2], written: 2, note: other routers are not supported}",
    ),
    Explanation(
        "M038",
        "layers that cannot predict further tokens",
        "Layers named under 'mtp' have tensors of the roles 'mtp_embedding_norm', 'mtp_hidden_norm', 'mtp_projection' "
        "and 'mtp_final_norm'.",
        "mtp: {layers: all, projection: embedding_first}",
        "mtp: {layers: mtp, projection: embedding_first}",
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
    Explanation(
        "M042",
        "two families claim one GGUF architecture",
        "A GGUF file is matched to its family by 'general.architecture', so one architecture belongs to one family.",
        "- {name: a, gguf: {architectures: [glm4moe], ...}}\n- {name: b, gguf: {architectures: [glm4moe], ...}}",
        "- {name: a, gguf: {architectures: [glm4moe], ...}}\n- {name: b, gguf: {architectures: [other], ...}}",
    ),
)
