"""config.json files that are missing, broken or lying: each is one error that names the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_runtime.errors import UserError
from strata_runtime.strict_json import BYTES_AT_MOST, VALUES_AT_MOST
from support.checkpoints import make_config, write_checkpoint

Load = Callable[[Path], object]

TEXTS = {
    "empty file": ("", "not valid JSON"),
    "no JSON": ("{'vocab_size': 3}", "not valid JSON"),
    "a list": ("[1]", "expected a JSON object, found a list"),
    "NaN": ('{"model_type": "glm4_moe", "rope_theta": NaN}', "NaN is not JSON"),
    "Infinity": ('{"model_type": "glm4_moe", "rope_theta": -Infinity}', "-Infinity is not JSON"),
    "a key twice": ('{"model_type": "glm4_moe", "model_type": "llama"}', "the key 'model_type' is given twice"),
    "a number of 5000 digits": ('{"vocab_size": ' + "9" * 5000 + "}", "not valid JSON"),
    "nested without end": ("[" * 100_000, "not valid JSON"),
    "millions of values": ('{"a": [' + "0," * VALUES_AT_MOST + "0]}", "more than any model needs"),
    "a text without end": ('{"a": "' + "a" * BYTES_AT_MOST + '"}', "more than any model needs"),
}

VALUES: dict[str, tuple[dict[str, object], str]] = {
    "no model type": ({"model_type": ...}, "'model_type' is missing; known: glm4_moe"),
    "model type is a number": ({"model_type": 4}, "'model_type' is 4; known: glm4_moe"),
    "unknown model type": ({"model_type": "llama"}, 'model type "llama" is not supported; known: glm4_moe'),
    "model type misspelt": ({"model_type": "glm4moe"}, "did you mean 'glm4_moe'?"),
    "other architecture": ({"architectures": ["Glm4MoeModel"]}, "names none of Glm4MoeForCausalLM"),
    "architectures is a number": ({"architectures": 7}, "names none of Glm4MoeForCausalLM"),
    "required key is missing": ({"hidden_size": ...}, "'hidden_size' is missing (width of the residual stream)"),
    "required key is null": ({"hidden_size": None}, "'hidden_size' is missing"),
    "size is zero": ({"hidden_size": 0}, "'hidden_size': must be at least 1, found 0"),
    "size is negative": ({"num_hidden_layers": -3}, "'num_hidden_layers': must be at least 1, found -3"),
    "size is huge": ({"num_hidden_layers": 10**30}, "'num_hidden_layers': must be at most 4096"),
    "size is a fraction": ({"vocab_size": 96.5}, "'vocab_size': expected a whole number, found 96.5"),
    "size is text": ({"vocab_size": "96"}, "'vocab_size': expected a whole number, found \"96\""),
    "size is true": ({"vocab_size": True}, "'vocab_size': expected a whole number, found true"),
    "size is a list": ({"vocab_size": [96]}, "'vocab_size': expected a whole number, found a list"),
    "flag is a number": ({"use_qk_norm": 1}, "'use_qk_norm': expected true or false, found 1"),
    "number is text": ({"rms_norm_eps": "1e-5"}, "'rms_norm_eps': expected a number"),
    "eps is zero": ({"rms_norm_eps": 0}, "'rms_norm_eps': must be above 0, found 0"),
    "theta is huge": ({"rope_theta": 10**400}, "'rope_theta': expected a number"),
    "theta given twice": (
        {"rope_parameters": {"rope_theta": 5.0}},
        "'rope_theta' and 'rope_parameters.rope_theta' disagree",
    ),
    "more experts chosen than there are": ({"num_experts_per_tok": 7}, "is 7, more than n_routed_experts (6)"),
    "heads do not share evenly": ({"num_attention_heads": 3}, "is 3, not a multiple of num_key_value_heads (2)"),
    "more dense layers than layers": ({"first_k_dense_replace": 4}, "is 4, more than num_hidden_layers (3)"),
    "odd rotary width": ({"partial_rotary_factor": 0.1875}, "head_dim * partial_rotary_factor is 3: an even number"),
    "fractional rotary width": ({"partial_rotary_factor": 0.3}, "is 4.8, but it must be a whole number"),
    "end token outside the vocabulary": ({"eos_token_id": [0, 96]}, "end token 96 is outside the vocabulary of 96"),
    "end token is negative": ({"eos_token_id": -1}, "expected a token id or a list of token ids, found -1"),
    "end token is text": ({"eos_token_id": "</s>"}, "expected a token id or a list of token ids"),
    "groups of experts": ({"n_group": 4}, "'n_group' is 4, only 1 works: routing by groups of experts"),
    "n_group is true": ({"n_group": True}, "'n_group' is true, only 1 works"),
    "other activation": ({"hidden_act": "gelu"}, '\'hidden_act\' is "gelu", only "silu" works'),
    "scaled rope": ({"rope_scaling": {"type": "yarn"}}, "'rope_scaling' is an object, only null works"),
    "scaled rope, new form": ({"rope_parameters": {"rope_type": "yarn"}}, "'rope_parameters.rope_type' is \"yarn\""),
    "quantised checkpoint": ({"quantization_config": {"quant_method": "fp8"}}, "use the BF16 one"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_that_is_no_config(checkpoint: Path, load: Load, case: str) -> None:
    text, expected = TEXTS[case]
    (checkpoint / "config.json").write_text(text)
    _expect(checkpoint, load, expected)


@pytest.mark.parametrize("case", VALUES)
def test_values_that_no_network_can_have(checkpoint: Path, load: Load, case: str) -> None:
    changes, expected = VALUES[case]
    write_checkpoint(checkpoint, make_config(**changes), {})
    _expect(checkpoint, load, expected)


def test_a_missing_config(checkpoint: Path, load: Load) -> None:
    (checkpoint / "config.json").unlink()
    _expect(checkpoint, load, "no such file; a checkpoint is a folder with config.json and its tensors")


def _expect(folder: Path, load: Load, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(folder)
    assert str(caught.value).startswith(str(folder / "config.json"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_may_stand_in_either_place_and_defaults_fill_the_rest(checkpoint: Path, load: Load) -> None:
    parameters = {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "rope_type": "default"}
    changes = {"rope_theta": ..., "partial_rotary_factor": ..., "rope_parameters": parameters, "n_group": ...}
    (checkpoint / "config.json").write_text(json.dumps(make_config(**changes)))
    load(checkpoint)
