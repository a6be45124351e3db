"""What fuzzing found and started from, read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.whole_models import exercise_folder, exercise_gguf

CORPUS = Path(__file__).parent / "corpus"
READERS: dict[str, Callable[[bytes], None]] = {
    "gguf": exercise_gguf,
    "safetensors": exercise_folder,
}


def test_the_corpus_is_there_and_small() -> None:
    sizes = {kind: [path.stat().st_size for path in (CORPUS / kind).iterdir()] for kind in READERS}
    assert all(len(of_kind) >= 20 for of_kind in sizes.values())
    assert sum(map(sum, sizes.values())) < 400_000


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*")), ids=lambda path: path.name)
@pytest.mark.parametrize("reader", READERS)
def test_every_file_ends_well_in_every_reader(path: Path, reader: str) -> None:
    if path.is_file():
        READERS[reader](path.read_bytes())
