"""A package for a GPU takes a torch that was made for the same kind of GPU."""

from __future__ import annotations

import pytest
import torch

from strata_runtime.assembly import current_gpu
from strata_runtime.errors import UserError


@pytest.mark.parametrize(
    ("hip", "cuda", "backend", "made_for"),
    [
        (None, None, "hip", "cpu"),
        (None, "13.0", "hip", "cuda"),
        ("7.0", None, "cuda", "hip"),
        (None, None, "cuda", "cpu"),
    ],
)
def test_a_torch_for_something_else_is_one_line(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, cuda: str | None, backend: str, made_for: str
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    with pytest.raises(UserError, match=f"is for {backend}, and torch .* was made for {made_for}: 'strata-gen doctor"):
        current_gpu(backend)


@pytest.mark.parametrize(("hip", "cuda", "backend"), [("7.0", None, "hip"), (None, "13.0", "cuda")])
def test_a_fitting_torch_gives_its_current_gpu(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, cuda: str | None, backend: str
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert current_gpu(backend) == torch.device("cuda", 2)
