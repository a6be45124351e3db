"""What fuzzing found and started from, read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import gguf_files, safetensors_files

CORPUS = Path(__file__).parent / "corpus"
READERS: dict[str, Callable[[bytes], None]] = {
    "gguf": gguf_files.exercise,
    "safetensors": safetensors_files.exercise,
}


@pytest.mark.parametrize("kind", READERS)
def test_the_corpus_is_there_and_small(kind: str) -> None:
    sizes = [path.stat().st_size for path in (CORPUS / kind).iterdir()]
    assert len(sizes) >= 20
    assert sum(sizes) < 150_000


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*")), ids=lambda path: path.name)
@pytest.mark.parametrize("reader", READERS)
def test_every_file_ends_well_in_every_reader(path: Path, reader: str) -> None:
    if path.is_file():
        READERS[reader](path.read_bytes())
