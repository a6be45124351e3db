"""Which experts get slots, what is in them, and the files that say how often experts are used."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from strata_runtime.errors import UserError
from strata_runtime.hybrid.placement import ExpertProfile, by_layer, by_use, read_profile
from strata_runtime.hybrid.residency import Residency, SlotLayout
from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from strata_runtime.provider import Provider
from support.checkpoints import make_config, write_checkpoint

pytestmark = pytest.mark.native

MIXTURES, EXPERTS = 2, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("placement") / "model", make_config())


@pytest.fixture
def residency_of(folder: Path, provider: Provider) -> Callable[..., Residency]:
    def load(**settings: object) -> Residency:
        values = provider.settings_type.from_values(resolve(provider.knobs, environ={}, python=settings).values)
        model = Model.load(folder, provider, values)
        notes.extend(model.info.notes)
        residency = model._windows._residency  # type: ignore[attr-defined]
        model.close()
        assert isinstance(residency, Residency)
        return residency

    notes: list[str] = []
    load.notes = notes  # type: ignore[attr-defined]
    return load


def test_by_layer_takes_whole_layers_first() -> None:
    assert by_layer(0, 3, 4) == []
    assert by_layer(5, 3, 4) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert by_layer(99, 3, 4)[-1] == (2, 3)


def test_by_use_takes_the_most_used_and_of_equals_the_first() -> None:
    counts = np.array([[3, 9, 0], [9, 1, 9]])
    assert by_use(4, counts) == [(0, 1), (1, 0), (1, 2), (0, 0)]
    assert by_use(0, counts) == []


def test_slots_are_numbered_through_and_hold_the_experts(residency_of: Callable[..., Residency]) -> None:
    residency = residency_of(expert_cache=8)
    assert residency.table.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, -1, -1, -1, -1]]
    assert residency.address % 64 == residency.stride % 64 == 0
    assert not residency.is_complete


@pytest.mark.parametrize("slots", [0, 5, MIXTURES * EXPERTS])
def test_a_model_counts_what_windows_found_in_slots(folder: Path, provider: Provider, slots: int) -> None:
    values = provider.settings_type.from_values(
        resolve(provider.knobs, environ={}, python={"expert_cache": slots}).values
    )
    model = Model.load(folder, provider, values)
    cache = model.new_cache(32)
    for tokens in (1, 4):
        model.forward(torch.arange(tokens), cache, window=True)
    hits = model.expert_hits
    model.close()
    asked = 5 * model.info.experts_per_token * MIXTURES
    if slots == 0:
        assert hits is None
    elif slots < MIXTURES * EXPERTS:
        assert hits is not None
        assert 0 < hits[0] < hits[1] == asked
    else:
        assert hits == (asked, asked)


def test_more_slots_than_experts_are_said_and_not_made(residency_of: Callable[..., Residency]) -> None:
    residency = residency_of(expert_cache=10**6)
    assert residency.slots == MIXTURES * EXPERTS
    assert residency.is_complete
    assert residency_of.notes == ["expert.cache is 1000000: all of the model's 12 experts have slots"]  # type: ignore[attr-defined]


def test_a_profile_places_the_most_used(residency_of: Callable[..., Residency], tmp_path: Path) -> None:
    counts = np.zeros((MIXTURES, EXPERTS), np.int64)
    counts[1, 4], counts[0, 2] = 9, 5
    ExpertProfile(7, counts).save(tmp_path / "profile.json")
    residency = residency_of(expert_cache=2, expert_profile=str(tmp_path / "profile.json"))
    assert residency.table[1, 4] == 0
    assert residency.table[0, 2] == 1
    assert (residency.table >= 0).sum() == 2


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    counts = np.arange(12).reshape(2, 6)
    ExpertProfile(40, counts).save(tmp_path / "profile.json")
    found = read_profile(tmp_path / "profile.json", 2, 6)
    assert found.tokens == 40
    assert np.array_equal(found.counts, counts)
    with pytest.raises(UserError, match="of a model with 2 layers of 6 experts, and this one has 3 of 6"):
        read_profile(tmp_path / "profile.json", 3, 6)


def test_a_profile_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "profile.json"
    ExpertProfile(40, np.arange(12).reshape(2, 6)).save(path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"profile\.json: cannot be written: No space left on device"):
        ExpertProfile(9, np.ones((2, 6), np.int64)).save(path)
    assert read_profile(path, 2, 6).tokens == 40
    assert [each.name for each in tmp_path.iterdir()] == ["profile.json"]


KIND = "strata expert profile"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"kind": KIND},
        {"kind": "other", "tokens": 1, "counts": [[1]]},
        {"kind": KIND, "tokens": "1", "counts": [[1]]},
        {"kind": KIND, "tokens": 1, "counts": [[-1]]},
        {"kind": KIND, "tokens": 1, "counts": [1]},
        {"kind": KIND, "tokens": 1, "counts": [[1], [1, 2]]},
        {"kind": KIND, "tokens": 1, "counts": [["x"]]},
        {"kind": KIND, "tokens": 1, "counts": [[10**30]]},
        {"kind": KIND, "tokens": 3, "counts": [[0.7]]},
        {"kind": KIND, "tokens": 3, "counts": [["5"]]},
        {"kind": KIND, "tokens": 3, "counts": [[True]]},
        {"kind": KIND, "tokens": -5, "counts": [[5]]},
        {"kind": KIND, "tokens": True, "counts": [[5]]},
    ],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"profile\.json: not a file of 'strata profile'"):
        read_profile(path, 1, 1)


def test_gate_and_up_in_two_formats_have_no_slot() -> None:
    def matrix(name: str) -> SimpleNamespace:
        return SimpleNamespace(form=SimpleNamespace(name=name, row_bytes=lambda columns: columns), shape=(2, 3))

    experts = {"expert_gate": [matrix("a")], "expert_up": [matrix("b")], "expert_down": [matrix("a")]}
    with pytest.raises(UserError, match=r"gate matrices in a and up matrices in b.*engine\.expert_format"):
        SlotLayout.of(SimpleNamespace(), SimpleNamespace(experts=experts), None, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"route_tail_skip": 2}, "route.tail_skip is 2: it must be below this model's 2 experts per token"),
        ({"expert_cache": 1, "expert_profile": "nowhere.json"}, "nowhere.json: cannot be read"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    residency_of: Callable[..., Residency], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        residency_of(**settings)


def test_a_cap_that_leaves_no_further_token_an_expert_is_said(residency_of: Callable[..., Residency]) -> None:
    residency_of(verify_ecap=2, expert_cache=1)
    residency_of(verify_ecap=3, expert_cache=1)
    notes = residency_of.notes  # type: ignore[attr-defined]
    assert notes == [
        "verify.ecap is 2, at most the 2 experts of one token: no token of a window behind the first keeps any"
    ]
