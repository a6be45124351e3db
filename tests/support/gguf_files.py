"""GGUF files written by hand, byte by byte, so that they can lie about everything."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, pre_tokenizers

from strata_runtime.errors import UserError
from strata_runtime.gguf.files import split_of
from strata_runtime.gguf.metadata import Array
from strata_runtime.gguf.reader import formats_by_name, parse
from strata_runtime.gguf.tokenizer import build_tokenizer
from strata_runtime.gguf.vocabulary import read_vocabulary


@dataclass(frozen=True)
class Format:
    """A weight format, as far as the reader is concerned."""

    gguf: str | None
    block_elements: int
    block_bytes: int


FORMATS = (
    Format("F32", 1, 4),
    Format("F16", 1, 2),
    Format("BF16", 1, 2),
    Format("Q8_0", 32, 34),
    Format("Q4_K", 256, 144),
    Format(None, 1, 1),
)
F32, F16, Q4_0, Q8_0, Q4_K = 0, 1, 2, 8, 12
"""Numbers of tensor types. Q4_0 is the one that no format above has."""

TEXT, ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value: str | bytes, length: int | None = None) -> bytes:
    """A text, with its length or another."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def payload(kind: int, value: object) -> bytes:
    """A value without its type. Arrays are pairs of (kind of the items, items)."""
    if kind == TEXT:
        assert isinstance(value, str | bytes)
        return text(value)
    if kind == ARRAY:
        assert isinstance(value, tuple)
        return array(*value)
    return struct.pack("<" + _SCALARS[kind], value)


def array(kind: int, items: Sequence[object], count: int | None = None) -> bytes:
    """An array without its own type, with its count or another."""
    head = struct.pack("<IQ", kind, len(items) if count is None else count)
    return head + b"".join(payload(kind, item) for item in items)


def key(name: str | bytes, kind: int, value: object) -> bytes:
    """A key with a value; `value` may be the raw bytes of one."""
    raw = value if isinstance(value, bytes) and kind != TEXT else payload(kind, value)
    return text(name) + struct.pack("<I", kind) + raw


def tensor(
    name: str | bytes, dimensions: Sequence[int], kind: int = F32, offset: int = 0, rank: int | None = None
) -> bytes:
    """An entry of the tensor table; `dimensions` as the file has them, fastest first."""
    rank = len(dimensions) if rank is None else rank
    sizes = b"".join(struct.pack("<Q", size) for size in dimensions)
    return text(name) + struct.pack("<I", rank) + sizes + struct.pack("<IQ", kind, offset)


def gguf_bytes(
    keys: Iterable[bytes] = (),
    tensors: Iterable[bytes] = (),
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    key_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file. The counts are those of what is given unless they are said to be others."""
    keys, tensors = list(keys), list(tensors)
    counts = (len(tensors) if tensor_count is None else tensor_count, len(keys) if key_count is None else key_count)
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment if tensors else 0) + data


def sound_keys() -> list[bytes]:
    """Metadata with every type."""
    scalars = [key(f"x.{kind}", kind, 1) for kind in _SCALARS if kind != 7]
    return [
        key("general.architecture", TEXT, "qwen3moe"),
        *scalars,
        key("x.bool", 7, True),
        key("x.words", ARRAY, (TEXT, ["a", "", "größer"])),
        key("x.numbers", ARRAY, (6, [0.5, -1.0])),
        key("x.flags", ARRAY, (7, [True, False])),
        key("x.nested", ARRAY, (ARRAY, [(4, [1, 2]), (TEXT, ["b"]), (ARRAY, [(0, [])])])),
    ]


def sound_file() -> bytes:
    """A small file with every type of metadata and a few tensors."""
    tensors = [tensor("a", [8, 2], F32, 0), tensor("b", [32, 3], Q8_0, 64), tensor("c", [4], Q4_0, 192)]
    return gguf_bytes(sound_keys(), tensors, bytes(range(200)))


def split_keys(number: int, count: int, tensors: int) -> list[bytes]:
    """Metadata of one part of a split file."""
    return [key("split.no", 2, number), key("split.count", 2, count), key("split.tensors.count", 5, tensors)]


def write_split(folder: Path, stem: str = "model", count: int = 3) -> list[Path]:
    """Write a split file whose part `i` holds the tensor `t<i>`, [8] of the number `i`."""
    paths = []
    for number in range(count):
        keys = split_keys(number, count, count)
        if number == 0:
            keys.insert(0, key("general.architecture", TEXT, "qwen3moe"))
        data = np.full(8, number, np.float32).tobytes()
        path = folder / f"{stem}-{number + 1:05}-of-{count:05}.gguf"
        path.write_bytes(gguf_bytes(keys, [tensor(f"t{number}", [8])], data))
        paths.append(path)
    return paths


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer, pre: str) -> None:
    """Write a byte-level BPE tokenizer the way converters do."""
    model = json.loads(tokenizer.to_str())["model"]
    special = tokenizer.get_added_tokens_decoder()
    tokens = sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
    kinds = [
        gguf.TokenType.NORMAL
        if index not in special
        else gguf.TokenType.CONTROL
        if special[index].special
        else gguf.TokenType.USER_DEFINED
        for _, index in tokens
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])


def write_with_library(path: Path, fill: Callable[[gguf.GGUFWriter], None] | None = None) -> Path:
    """Write a file with the `gguf` package; `fill` is called with its writer."""
    writer = gguf.GGUFWriter(path, "qwen3moe")
    if fill is not None:
        fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _read_deeply(array: Array) -> None:
    for item in array.values():
        if isinstance(item, Array):
            _read_deeply(item)


def exercise(content: bytes) -> bool:
    """Read all that a file claims to hold, and check what was promised of it. Nothing but clear errors may come up.

    Returns whether its tables are sound.
    """
    try:
        part = parse(Path("any.gguf"), memoryview(content), formats_by_name(FORMATS))
    except UserError:
        return False
    with suppress(UserError):
        spans = []
        for found in part.tensors.values():
            assert found.bytes is None or len(found.data) == found.bytes
            spans += [(found.start, found.start + found.bytes)] if found.bytes else []
        spans.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        assert not spans or spans[-1][1] <= len(content)
        for value in part.metadata.values():
            if isinstance(value, Array):
                with suppress(UserError):
                    _read_deeply(value)
        with suppress(UserError):
            split_of(part.metadata)
        tokenizer = build_tokenizer(read_vocabulary(part.metadata))
        ids = tokenizer.encode("Text 123\n  größer <|end|>").ids
        assert tokenizer.decode(ids, skip_special_tokens=False) is not None
    return True


def small_vocabulary(**changes: list[bytes] | None) -> list[bytes]:
    """Metadata of a byte-level BPE vocabulary: bytes, `th`, `the`, a control, a user-defined and an unused token.

    `changes` replace the metadata of the key `tokenizer.ggml.<name>`, or take it out.
    """
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "the", "<|end|>", "<think>", "[PAD]"]
    own = {
        "model": [key("tokenizer.ggml.model", TEXT, "gpt2")],
        "pre": [key("tokenizer.ggml.pre", TEXT, "chatglm-bpe")],
        "tokens": [key("tokenizer.ggml.tokens", ARRAY, (TEXT, tokens))],
        "token_type": [key("tokenizer.ggml.token_type", ARRAY, (5, [1] * 258 + [3, 4, 5]))],
        "merges": [key("tokenizer.ggml.merges", ARRAY, (TEXT, ["t h", "th e"]))],
        "eos_token_id": [key("tokenizer.ggml.eos_token_id", 4, 258)],
    }
    return [raw for raws in {**own, **changes}.values() if raws is not None for raw in raws]
