"""The corpus: split into training and held-out text, kept in one folder with its tokenizer, and encoded."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from train_strata_tiny.chat import ChatPair, chat_pairs, render
from train_strata_tiny.tokenizer import END_OF_TEXT, train_tokenizer

CORPUS_FILE = "corpus.json.xz"
TOKENIZER_FILE = "tokenizer.json"

MAX_TRAINING_CHARACTERS = 300_000_000
MAX_CHAT_PAIRS = 60_000
CHAT_REPEATS = 2
TOKENIZER_TEXTS, TOKENIZER_PAIRS = 4200, 12_000
ENCODE_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts and chat pairs, for training and held out."""

    train: Sequence[str]
    held_out: Sequence[str]
    chat_train: Sequence[ChatPair]
    chat_held_out: Sequence[ChatPair]


def split(texts: Sequence[str], seed: int = 0) -> Corpus:
    """Shuffle and hold out: one text in 400 but at least 60, and 300 chat pairs; of a small corpus, a tenth."""
    shuffle = random.Random(seed)
    pairs = chat_pairs(texts)
    texts = list(texts)
    shuffle.shuffle(texts)
    shuffle.shuffle(pairs)
    held_texts = min(max(60, len(texts) // 400), max(1, len(texts) // 10))
    held_pairs = min(300, len(pairs) // 10)
    return Corpus(
        train=_first_characters(texts[held_texts:], MAX_TRAINING_CHARACTERS),
        held_out=texts[:held_texts],
        chat_train=pairs[held_pairs : held_pairs + MAX_CHAT_PAIRS],
        chat_held_out=pairs[:held_pairs],
    )


def _first_characters(texts: Sequence[str], limit: int) -> list[str]:
    kept, total = [], 0
    for text in texts:
        if total > limit:
            break
        kept.append(text)
        total += len(text)
    # Similar files side by side compress better; training shuffles again.
    return sorted(kept, key=lambda text: text[:80])


def prepare(texts: Sequence[str], folder: Path, vocab_size: int, seed: int = 0) -> Corpus:
    """Split `texts`, train the tokenizer on a sample of the training part and write both into `folder`."""
    corpus = split(texts, seed)
    sample = random.Random(seed)
    training = sample.sample(corpus.train, min(TOKENIZER_TEXTS, len(corpus.train)))
    training += [
        "\n".join(pair) for pair in sample.sample(corpus.chat_train, min(TOKENIZER_PAIRS, len(corpus.chat_train)))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer(training, vocab_size).save(str(folder / TOKENIZER_FILE))
    with lzma.open(folder / CORPUS_FILE, "wt", encoding="utf-8") as stream:
        json.dump(asdict(corpus), stream)
    return corpus


def load(folder: Path) -> tuple[Corpus, Tokenizer]:
    """Read what `prepare` wrote. Raises `FileNotFoundError` when it is not there."""
    with lzma.open(folder / CORPUS_FILE, "rt", encoding="utf-8") as stream:
        corpus = Corpus(**json.load(stream))
    return corpus, Tokenizer.from_file(str(folder / TOKENIZER_FILE))


def encode(corpus: Corpus, tokenizer: Tokenizer, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the training and the held-out stream of token ids, int32 `[tokens]` each; every text ends with its mark.

    Chat pairs come twice in the training stream: they are few beside the files.
    """
    files = [text + END_OF_TEXT for text in corpus.train]
    train = files + [render(pair) for pair in corpus.chat_train] * CHAT_REPEATS
    random.Random(seed).shuffle(train)
    held_out = [text + END_OF_TEXT for text in corpus.held_out] + [render(pair) for pair in corpus.chat_held_out]
    return _encode_texts(tokenizer, train), _encode_texts(tokenizer, held_out)


def _encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> torch.Tensor:
    parts = [torch.empty(0, dtype=torch.int32)]
    for start in range(0, len(texts), ENCODE_BATCH):
        encodings = tokenizer.encode_batch_fast(texts[start : start + ENCODE_BATCH])
        parts += [torch.tensor(encoding.ids, dtype=torch.int32) for encoding in encodings]
    return torch.cat(parts)
