"""Where a checkpoint's tensors lie: one file, or several with an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from strata_runtime.checkpoint.folder import INDEX_FILE, open_folder
from strata_runtime.checkpoint.weights import Weights
from strata_runtime.errors import UserError
from support.checkpoints import make_config, make_tensors, write_checkpoint
from support.reference_provider import FORMATS

Load = Callable[[Path], Weights]
NORM = "model.norm.weight"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model", make_config(), shards=3)


def _edit_index(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = folder / INDEX_FILE
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


def test_shards_hold_the_same_weights_as_one_file(sharded: Path, checkpoint: Path, load: Load) -> None:
    one, many = load(checkpoint), load(sharded)
    assert many.parameters == one.parameters
    assert np.array_equal(many.tensors["embedding"].data, one.tensors["embedding"].data)
    for role, experts in one.layers[2].experts.items():
        for expert, other in zip(experts, many.layers[2].experts[role], strict=True):
            assert np.array_equal(expert.data, other.data)


def test_experts_keep_their_order(checkpoint: Path, load: Load) -> None:
    expected = make_tensors(make_config())
    for index, found in enumerate(load(checkpoint).layers[1].experts["expert_down"]):
        wanted = expected[f"model.layers.1.mlp.experts.{index}.down_proj.weight"]
        assert np.array_equal(found.floats(), wanted.float().numpy())


def test_a_named_shard_that_is_not_there(sharded: Path) -> None:
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(
        UserError, match=r"names the file 'model-00002-of-00003\.safetensors', which is not in the folder"
    ):
        open_folder(sharded, FORMATS)


def test_a_truncated_shard(sharded: Path) -> None:
    shard = sharded / "model-00003-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"model-00003-of-00003\.safetensors: tensor .* the file is truncated"):
        open_folder(sharded, FORMATS)


def test_an_index_that_names_a_tensor_which_its_shard_lacks(sharded: Path) -> None:
    _edit_index(sharded, lambda files: files.update({"ghost.weight": "model-00001-of-00003.safetensors"}))
    with pytest.raises(UserError, match=r"lacks tensors that .* says it holds: ghost\.weight"):
        open_folder(sharded, FORMATS)


def test_a_shard_with_a_tensor_that_the_index_does_not_list(sharded: Path) -> None:
    _edit_index(sharded, lambda files: files.pop(NORM))
    with pytest.raises(UserError, match=r"holds tensors that .* does not list for it: model\.norm\.weight"):
        open_folder(sharded, FORMATS)


def test_a_tensor_listed_in_another_shard_than_it_lies_in(sharded: Path) -> None:
    _edit_index(sharded, lambda files: files.update({NORM: "model-00003-of-00003.safetensors"}))
    with pytest.raises(UserError, match=r"model\.norm\.weight"):
        open_folder(sharded, FORMATS)


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/passwd", "", "sub/model.safetensors", "model.bin", 3, None, ["a"]]
)
def test_an_index_that_points_outside_its_folder_or_nowhere(sharded: Path, file: object) -> None:
    _edit_index(sharded, lambda files: files.update({NORM: file}))
    with pytest.raises(UserError, match=r"tensor 'model\.norm\.weight': expected a \.safetensors file of this folder"):
        open_folder(sharded, FORMATS)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', '{"weight_map": []}', "[", "", "null"])
def test_an_index_without_a_weight_map(sharded: Path, text: str) -> None:
    (sharded / INDEX_FILE).write_text(text)
    with pytest.raises(UserError, match=r"index\.json: (expected|not valid JSON)"):
        open_folder(sharded, FORMATS)


def test_a_folder_without_tensors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds neither model\.safetensors nor model\.safetensors\.index\.json"):
        open_folder(tmp_path, FORMATS)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        open_folder(tmp_path / "nowhere", FORMATS)
