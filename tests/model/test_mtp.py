"""The layer that predicts further tokens, against plain torch and transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import Glm4MoeForCausalLM
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from strata_runtime import UserError
from strata_runtime.model import Model
from strata_runtime.text.source import open_text
from support.checkpoints import AIR_OPTIONS, make_config, make_qwen_config, make_tensors, write_checkpoint
from support.mtp import expected_states
from support.reference_provider import ReferenceProvider, make_settings

LoadModel = Callable[..., Model]

TINY = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
NETWORKS = {
    "glm": make_config(num_nextn_predict_layers=1),
    "air": make_config(**AIR_OPTIONS, num_nextn_predict_layers=2),
}


def read(model: Model, ids: torch.Tensor) -> torch.Tensor:
    """The network's states of `ids`."""
    states = torch.empty(len(ids), model.info.hidden_size)
    model.forward(ids, model.new_cache(len(ids)), states=states)
    return states


def further(model: Model, ids: torch.Tensor, states: torch.Tensor, widths: list[int]) -> torch.Tensor:
    """The layer's states of `ids`, read in passes of `widths`."""
    assert model.mtp is not None
    cache, found = model.mtp.new_cache(len(ids)), []
    for width in widths:
        part = slice(cache.length, cache.length + width)
        found.append(model.mtp.forward(ids[part].tolist(), states[part], cache))
    return torch.cat(found)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("widths", [[20], [12, 1, 7], [1] * 20], ids=str)
def test_states_and_logits_are_those_of_plain_torch(
    tmp_path: Path, load_model: LoadModel, name: str, widths: list[int]
) -> None:
    config = NETWORKS[name]
    tensors = make_tensors(config)
    model = load_model(write_checkpoint(tmp_path / "model", config, tensors), draft="mtp")
    assert model.mtp is not None
    ids = torch.randint(0, 96, (21,), generator=torch.Generator().manual_seed(1))
    states = read(model, ids)[:-1]
    expected = expected_states(ids[1:], states, tensors, config)
    found = further(model, ids[1:], states, widths)
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=0)
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]).double()
    torch.testing.assert_close(model.mtp.logits(found[-1:]).double(), (expected[-1:] @ head.T)[0], atol=3e-3, rtol=0)


def test_an_embedding_and_a_head_of_its_own_are_used(tmp_path: Path) -> None:
    config = make_config(num_nextn_predict_layers=1)
    tensors = make_tensors(config)
    shared = tensors["model.embed_tokens.weight"]
    tensors["model.layers.3.embed_tokens.weight"] = shared.flip(0).contiguous()
    tensors["model.layers.3.shared_head.head.weight"] = (2 * shared).contiguous()
    folder = write_checkpoint(tmp_path / "model", config, tensors)
    model = Model.load(folder, ReferenceProvider(), make_settings(draft="mtp"))
    assert model.mtp is not None
    ids = torch.arange(10, 20)
    states = read(model, ids)[:-1]
    expected = expected_states(ids[1:], states, tensors, config)
    found = further(model, ids[1:], states, [9])
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=0)
    logits = (expected[-1:] @ (2 * shared).double().T)[0]
    torch.testing.assert_close(model.mtp.logits(found[-1:]).double(), logits, atol=3e-3, rtol=0)


@pytest.mark.native
def test_the_bundled_model_drafts_as_in_transformers(monkeypatch: pytest.MonkeyPatch, load_model: LoadModel) -> None:
    # Where transformers looks for such layers; it knows those of the published sizes.
    monkeypatch.setattr(Glm4MoeForCausalLM, "_keys_to_ignore_on_load_unexpected", [r"model\.layers\.7.*"])
    oracle = Glm4MoeForCausalLM.from_pretrained(TINY, dtype=torch.float32, attn_implementation="eager").eval()
    further_oracle = MtpModel.from_pretrained(oracle).eval()
    model = load_model(TINY, draft="mtp")
    ids = torch.tensor(
        open_text(TINY).require_tokenizer().encode("def read_lines(path):\n    with open(path) as file:\n")
    )
    states = read(model, ids)
    with torch.inference_mode():
        expected_hidden = oracle.model(ids[None]).last_hidden_state
        cache, positions = MtpCache(config=oracle.config.get_mtp_config()), torch.arange(1, len(ids))[None]
        expected = further_oracle.forward_layer(0, expected_hidden[:, :-1], positions, cache, input_ids=ids[None, 1:])
    torch.testing.assert_close(states, expected_hidden[0], atol=2e-4, rtol=0)
    torch.testing.assert_close(further(model, ids[1:], states[:-1], [len(ids) - 1]), expected[0], atol=2e-4, rtol=0)


def test_it_is_loaded_for_drafts_alone(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", make_config(num_nextn_predict_layers=1))
    for draft, loaded in (("none", False), ("ngram", False), ("mtp", True)):
        model = Model.load(folder, ReferenceProvider(), make_settings(draft=draft))
        assert (model.mtp is not None) is loaded
        assert model.info.further_layers == 1


@pytest.mark.parametrize("config", [make_config(), make_qwen_config()], ids=["glm", "qwen"])
def test_a_model_without_one_names_the_drafters_that_work(tmp_path: Path, config: dict[str, object]) -> None:
    folder = write_checkpoint(tmp_path / "model", config)
    with pytest.raises(UserError, match=r"no layer that predicts further tokens.* ngram works with every model"):
        Model.load(folder, ReferenceProvider(), make_settings(draft="mtp"))
