"""The texts of a teacher-forced run: what holds none is said before a model is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata_runtime.errors import UserError
from strata_runtime.evaluation.sequences import read_texts, read_tokens


@pytest.mark.parametrize("text", ["[]", "[[]]", "[[], []]"])
def test_lists_without_a_token(tmp_path: Path, text: str) -> None:
    (tmp_path / "ids.json").write_text(text)
    with pytest.raises(UserError, match=r"ids\.json: holds no tokens"):
        read_tokens(tmp_path / "ids.json")
    (tmp_path / "ids.json").write_text("[[], [3]]")
    assert read_tokens(tmp_path / "ids.json") == [[], [3]]


def test_texts_without_a_letter(tmp_path: Path) -> None:
    encoder: Any = SimpleNamespace(context=4, encode=lambda text: list(text.encode()))
    empty, full = tmp_path / "empty.txt", tmp_path / "full.txt"
    empty.write_text("")
    full.write_text("abcde")
    with pytest.raises(UserError, match=r"empty\.txt and .*empty\.txt: no text"):
        read_texts([empty, empty], encoder)
    assert read_texts([empty, full], encoder) == [[97, 98, 99, 100], [101]]
