"""The vocabulary inside a GGUF file: as a tokenizer that gives the ids of the one that was written."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from strata_runtime.errors import UserError
from strata_runtime.gguf.files import open_gguf
from strata_runtime.gguf.metadata import Metadata
from strata_runtime.gguf.pretokenizers import PRE_TOKENIZERS
from strata_runtime.gguf.reader import parse
from strata_runtime.gguf.tokenizer import build_tokenizer
from strata_runtime.gguf.vocabulary import Vocabulary, read_vocabulary
from strata_runtime.text.tokenizer import Tokenizer as TextTokenizer
from support.gguf_files import (
    ARRAY,
    FORMATS,
    TEXT,
    add_tokenizer,
    gguf_bytes,
    key,
    small_vocabulary,
    write_with_library,
)
from support.text_models import TEXTS

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
REFERENCE = Path(__file__).parent / "reference"


@cache
def original() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def converted(path: Path, pre: str) -> Tokenizer:
    write_with_library(path, lambda writer: add_tokenizer(writer, original(), pre))
    return build_tokenizer(read_vocabulary(open_gguf(path, FORMATS).metadata))


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return converted(tmp_path_factory.mktemp("vocabulary") / "x.gguf", "chatglm-bpe")


def same(one: Tokenizer, other: Tokenizer, text: str, literal: bool = False) -> bool:
    one.encode_special_tokens = other.encode_special_tokens = literal
    ids = one.encode(text).ids
    return ids == other.encode(text).ids and one.decode(ids) == other.decode(ids)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("literal", [False, True])
def test_a_written_tokenizer_gives_the_same_ids(rebuilt: Tokenizer, text: str, literal: bool) -> None:
    assert same(original(), rebuilt, text, literal)


def test_the_same_ids_on_the_projects_own_source(rebuilt: Tokenizer) -> None:
    sources = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "runtime").rglob("*.hpp"), *ROOT.glob("*.md")]
    assert len(sources) > 50
    for path in sources:
        assert same(original(), rebuilt, path.read_text()), path


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_the_same_ids_on_any_text(rebuilt: Tokenizer, text: str) -> None:
    assert same(original(), rebuilt, text)
    assert rebuilt.decode(rebuilt.encode(text).ids, skip_special_tokens=False) == text


def test_the_same_ids_where_whole_words_come_first(tmp_path: Path) -> None:
    glm = converted(tmp_path / "x.gguf", "glm4")
    for text in TEXTS:
        assert same(original(), glm, text)


def test_the_same_tokens_and_control_tokens(rebuilt: Tokenizer) -> None:
    assert rebuilt.get_vocab(with_added_tokens=True) == original().get_vocab(with_added_tokens=True)
    specials = {index: token.content for index, token in original().get_added_tokens_decoder().items()}
    found = rebuilt.get_added_tokens_decoder()
    assert {index: token.content for index, token in found.items() if token.special} == specials


def test_the_text_side_takes_it_as_any_other(rebuilt: Tokenizer) -> None:
    own, expected = TextTokenizer(rebuilt, {"eos_token": "<|endoftext|>"}, "x.gguf"), TextTokenizer.load(MODEL)
    for text in TEXTS:
        assert own.encode(text) == expected.encode(text)
    assert own.control_tokens == expected.control_tokens
    assert own.size == expected.size


PIECES = {
    "gpt-2": ["Don", "'t", " WE", "'", "LL", " 12345", "  ", " x", "!=", "\n", "\n", "y"],
    "llama-bpe": ["Don", "'t", " WE", "'LL", " ", "123", "45", "  ", " x", "!=\n\n", "y"],
    "qwen2": ["Don", "'t", " WE", "'LL", " ", "1", "2", "3", "4", "5", "  ", " x", "!=\n\n", "y"],
    "default": ["Don", "'", "t", " WE", "'", "LL", " ", "123", "45", "  ", " x", "!=", "\n", "\n", "y"],
}
for name in ("llama3", "llama-v3", "glm4", "chatglm-bpe"):
    PIECES[name] = PIECES["llama-bpe"]


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_text_is_cut_as_the_name_says(pre: str) -> None:
    backend = build_tokenizer(vocabulary_of(pre=[key("tokenizer.ggml.pre", TEXT, pre)], bos=BOS))
    assert backend.pre_tokenizer is not None
    pieces = backend.pre_tokenizer.pre_tokenize_str("Don't WE'LL 12345   x!=\n\ny")
    assert [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece, _ in pieces] == PIECES[pre]


def metadata_of(*keys: bytes) -> Metadata:
    return parse(Path("x.gguf"), memoryview(gguf_bytes(keys)), {}).metadata


def vocabulary_of(**changes: list[bytes] | None) -> Vocabulary:
    return read_vocabulary(metadata_of(*small_vocabulary(**changes)))


BOS = [key("tokenizer.ggml.bos_token_id", 4, 258)]


def flag(name: str, value: bool) -> list[bytes]:
    return [key(f"tokenizer.ggml.{name}", 7, value)]


def ids_of(**changes: list[bytes] | None) -> list[int]:
    return build_tokenizer(vocabulary_of(**changes)).encode("the<|end|><think>th[PAD]").ids


def test_kinds_of_tokens() -> None:
    ids = ids_of()
    assert ids[:4] == [257, 258, 259, 256]
    assert len(ids) == 4 + len("[PAD]")
    backend = build_tokenizer(vocabulary_of())
    assert backend.decode([257, 258, 259, 256]) == "the<think>th"
    assert backend.id_to_token(260) is None
    backend.encode_special_tokens = True
    assert 258 not in backend.encode("<|end|>").ids
    assert backend.encode("<think>").ids == [259]


def test_without_kinds_all_tokens_are_normal() -> None:
    assert build_tokenizer(vocabulary_of(token_type=None)).get_added_tokens_decoder() == {}


@pytest.mark.parametrize(
    ("pre", "add_bos", "add_eos", "before", "after"),
    [
        ("chatglm-bpe", None, None, [], []),
        ("llama-bpe", None, None, [258], []),
        ("llama-bpe", False, None, [], []),
        ("qwen2", True, None, [258], []),
        ("qwen2", True, True, [258], [258]),
        ("gpt-2", None, True, [], [258]),
    ],
)
def test_what_is_put_around_a_text(
    pre: str, add_bos: bool | None, add_eos: bool | None, before: list[int], after: list[int]
) -> None:
    flags = {"b": add_bos, "e": add_eos}
    keys = {k: flag(f"add_{k}os_token", value) for k, value in flags.items() if value is not None}
    backend = build_tokenizer(vocabulary_of(pre=[key("tokenizer.ggml.pre", TEXT, pre)], bos=BOS, **keys))
    assert backend.encode("the").ids == [*before, 257, *after]
    assert backend.encode("").ids == [*before, *after]
    assert backend.encode("the", add_special_tokens=False).ids == [257]


def test_qwen_composes_characters_as_its_models_were_trained() -> None:
    qwen = build_tokenizer(vocabulary_of(pre=[key("tokenizer.ggml.pre", TEXT, "qwen2")]))
    assert qwen.encode("e\u0301").ids == qwen.encode("é").ids
    other = build_tokenizer(vocabulary_of())
    assert other.encode("e\u0301").ids != other.encode("é").ids


def test_ends_are_those_named_and_those_that_cannot_be_otherwise() -> None:
    assert vocabulary_of().end == {258}
    tokens = ["a", "<|im_end|>", "<|eot_id|>", "x", "<|endoftext|>", "y"]
    found = read_vocabulary(
        metadata_of(
            key("tokenizer.ggml.model", TEXT, "gpt2"),
            key("tokenizer.ggml.tokens", ARRAY, (TEXT, tokens)),
            # What is no control token is text, whatever it looks like.
            key("tokenizer.ggml.token_type", ARRAY, (5, [1, 3, 1, 1, 3, 1])),
            key("tokenizer.ggml.bos_token_id", 4, 0),
            key("tokenizer.ggml.eos_token_id", 4, 3),
            key("tokenizer.ggml.eot_token_id", 4, 5),
        )
    )
    assert (found.bos, found.eos, found.end, found.size) == (0, 3, {1, 3, 4, 5}, 6)


def test_templates() -> None:
    assert vocabulary_of().templates == {}
    keys = [
        key("tokenizer.chat_template", TEXT, "main"),
        key("tokenizer.chat_templates", ARRAY, (TEXT, ["tool_use", "rag"])),
        key("tokenizer.chat_template.tool_use", TEXT, "tools"),
        key("tokenizer.chat_template.rag", TEXT, "documents"),
    ]
    assert vocabulary_of(x=keys).templates == {"default": "main", "tool_use": "tools", "rag": "documents"}
    with pytest.raises(UserError, match=r"names 'tool_use', but 'tokenizer\.chat_template\.tool_use' is missing"):
        vocabulary_of(x=keys[:2])


def test_templates_as_the_library_writes_them(tmp_path: Path) -> None:
    templates = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    path = write_with_library(tmp_path / "x.gguf", lambda writer: writer.add_chat_template(templates))
    assert read_vocabulary(open_gguf(path, FORMATS).metadata).templates == {"default": "a", "tool_use": "b"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, r"the file has no tokenizer \('tokenizer.ggml.model' is missing\): give token ids instead of text"),
        ("none", r"\('tokenizer.ggml.model' is 'none'\): give token ids instead of text"),
        ("no_vocab", r"\('tokenizer.ggml.model' is 'no_vocab'\)"),
        ("test", r"\('tokenizer.ggml.model' is 'test'\)"),
        ("llama", r"the tokenizer 'llama' \(SentencePiece\) is not supported, only 'gpt2' \(byte-level BPE\) is"),
        ("bert", r"the tokenizer 'bert' \(of another kind\) is not supported"),
    ],
)
def test_files_of_token_ids_alone(model: str | None, expected: str) -> None:
    keys = [] if model is None else [key("tokenizer.ggml.model", TEXT, model)]
    vocabulary = read_vocabulary(metadata_of(*keys, key("tokenizer.ggml.eos_token_id", 4, 2)))
    assert (vocabulary.model, vocabulary.size, vocabulary.end) == (model, None, {2})
    with pytest.raises(UserError, match=f"x.gguf: .*{expected}"):
        build_tokenizer(vocabulary)


@pytest.mark.parametrize("name", ["glm4moe-e2-f32", "qwen3moe-e16-q4_k"])
def test_the_reference_files_have_tokens_without_text(name: str) -> None:
    vocabulary = read_vocabulary(open_gguf(REFERENCE / f"{name}.gguf", FORMATS).metadata)
    assert (vocabulary.model, vocabulary.size, vocabulary.end) == ("test", 128, frozenset())
    with pytest.raises(UserError, match="give token ids instead of text"):
        build_tokenizer(vocabulary)


def texts(name: str, items: list[str]) -> list[bytes]:
    return [key(f"tokenizer.ggml.{name}", ARRAY, (TEXT, items))]


def number(name: str, value: int, kind: int = 4) -> list[bytes]:
    return [key(f"tokenizer.ggml.{name}", kind, value)]


def kinds(items: list[int], kind: int = 5) -> list[bytes]:
    return [key("tokenizer.ggml.token_type", ARRAY, (kind, items))]


def tokens_with(*more: str, first: str = "!") -> list[bytes]:
    library_order = [token for token in small_tokens() if token != "!"]
    return texts("tokens", [first, *library_order, *more])


def small_tokens() -> list[str]:
    tokens = metadata_of(*small_vocabulary()).array("tokenizer.ggml.tokens")
    assert tokens is not None
    return tokens.texts()


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no pre-tokenizer": (
        lambda: ids_of(pre=None),
        "'tokenizer.ggml.pre' is missing: without it text would be split by",
    ),
    "an unknown one": (
        lambda: ids_of(pre=[key("tokenizer.ggml.pre", TEXT, "qwen3")]),
        "'tokenizer.ggml.pre' is 'qwen3', which is not known (did you mean 'qwen2'?); known: chatglm-bpe, default",
    ),
    "a pre-tokenizer that is a number": (lambda: ids_of(pre=number("pre", 3)), "'tokenizer.ggml.pre' must be text"),
    "no tokens": (lambda: ids_of(tokens=None), "'tokenizer.ggml.tokens' is missing"),
    "tokens that are empty": (lambda: ids_of(tokens=texts("tokens", [])), "'tokenizer.ggml.tokens' is empty"),
    "tokens that are numbers": (
        lambda: ids_of(tokens=[key("tokenizer.ggml.tokens", ARRAY, (4, [1] * 261))]),
        "'tokenizer.ggml.tokens' must be an array of texts, but is one of u32",
    ),
    "a token twice": (
        lambda: ids_of(tokens=tokens_with("a"), token_type=None),
        "are both 'a'",
    ),
    "a byte without a token": (
        lambda: ids_of(tokens=tokens_with(first="xyz")),
        "no token for the byte written '!': text would be lost",
    ),
    "fewer kinds than tokens": (
        lambda: ids_of(token_type=kinds([1])),
        "'tokenizer.ggml.token_type' has 1 items for 261",
    ),
    "a kind that is none": (lambda: ids_of(token_type=kinds([1] * 260 + [9])), "token 260 is of kind 9"),
    "kinds that are fractions": (lambda: ids_of(token_type=kinds([1] * 261, 6)), "token 0 is of kind 1.0"),
    "no merges": (lambda: ids_of(merges=None), "'tokenizer.ggml.merges' is missing"),
    "a merge of one": (
        lambda: ids_of(merges=texts("merges", ["t h", "the"])),
        "item 1 is 'the', which does not join two",
    ),
    "a merge of three": (
        lambda: ids_of(merges=texts("merges", ["t h e"])),
        "item 0 is 't h e', which does not join two",
    ),
    "a merge of what is no token": (
        lambda: ids_of(merges=texts("merges", ["qq q"])),
        "item 0 is 'qq q', which does not",
    ),
    "a merge into what is no token": (
        lambda: ids_of(merges=texts("merges", ["q q"])),
        "item 0 is 'q q', which does not",
    ),
    "a merge twice": (
        lambda: ids_of(merges=texts("merges", ["t h", "th e", "t h"])),
        "item 2, 't h', is there twice",
    ),
    "an end outside the vocabulary": (
        lambda: vocabulary_of(eos_token_id=number("eos_token_id", 261)),
        "'tokenizer.ggml.eos_token_id' must be a token id below 261, found 261",
    ),
    "a negative end": (
        lambda: vocabulary_of(eos_token_id=number("eos_token_id", -1, 5)),
        "must be a token id below 261, found -1",
    ),
    "a BOS that is text": (
        lambda: vocabulary_of(bos=[key("tokenizer.ggml.bos_token_id", TEXT, "<s>")]),
        "'tokenizer.ggml.bos_token_id' must be a whole number, found '<s>'",
    ),
    "a BOS that is wanted and missing": (
        lambda: ids_of(b=flag("add_bos_token", True)),
        "every text needs the token 'tokenizer.ggml.bos_token_id', which is missing",
    ),
    "a space before every text": (
        lambda: ids_of(f=flag("add_space_prefix", True)),
        "'tokenizer.ggml.add_space_prefix' is true, which is not supported with 'gpt2'",
    ),
    "a control token that merges spell": (
        lambda: ids_of(token_type=kinds([1] * 257 + [3, 3, 4, 5])),
        "the control token 'the' can be written as ordinary text",
    ),
    "a control token that is a word": (
        lambda: ids_of(
            tokens=tokens_with("stop"),
            token_type=kinds([1] * 258 + [3, 4, 5, 3]),
            pre=[key("tokenizer.ggml.pre", TEXT, "glm4")],
        ),
        "the control token 'stop' can be written as ordinary text",
    ),
    "more named templates than anyone needs": (
        lambda: vocabulary_of(t=[key("tokenizer.chat_templates", ARRAY, (TEXT, [f"t{n}" for n in range(1025)]))]),
        "'tokenizer.chat_templates' has 1025 names, more than 1024",
    ),
    "a template that is a number": (
        lambda: vocabulary_of(t=[key("tokenizer.chat_template", 4, 1)]),
        "'tokenizer.chat_template' must be text, found 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_vocabulary_that_is_not_sound_is_one_error(case: str) -> None:
    make, expected = BAD[case]
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith("x.gguf: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_random_vocabularies_work_or_are_refused() -> None:
    random = Random(0)
    parts = ["t", "h", "e", "th", "the", "a b", "", "Ġ", "<|end|>", "é", "中", "[PAD]", "🙂", "\n"]
    built = 0
    for _ in range(400):
        tokens, count = small_tokens(), random.randint(0, 4)
        tokens += [random.choice(parts) + random.choice(["", "x", "é"]) for _ in range(count)]
        merges = [f"{random.choice(parts)} {random.choice(parts)}" for _ in range(random.choice([0, 1, 3]))]
        try:
            backend = build_tokenizer(
                vocabulary_of(
                    pre=[key("tokenizer.ggml.pre", TEXT, random.choice(list(PRE_TOKENIZERS)))],
                    tokens=texts("tokens", tokens),
                    token_type=kinds([random.choice([1, 1, 1, 1, 1, 3, 4, 5]) for _ in tokens])
                    if random.random() < 0.2
                    else kinds([1] * 258 + [3, 4, 5] + [random.randint(0, 6) for _ in range(count)]),
                    merges=texts("merges", ["t h", "th e", *merges]),
                    bos=number("bos_token_id", random.randrange(270)),
                    b=flag("add_bos_token", random.random() < 0.5),
                    e=flag("add_eos_token", random.random() < 0.5),
                )
            )
        except UserError:
            continue
        built += 1
        for text in ("the <|end|>xé中🙂\n", "".join(tokens[-6:])):
            assert max(backend.encode(text).ids, default=0) < len(tokens)
        assert isinstance(backend.decode(list(range(len(tokens) + 5))), str)
    assert built > 20


def test_flags_that_ask_for_nothing_are_fine() -> None:
    assert ids_of(f=flag("add_space_prefix", False), g=flag("add_sep_token", False)) == ids_of()


def test_token_types_have_the_librarys_numbers() -> None:
    from strata_runtime.gguf import vocabulary

    for name in ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "UNUSED", "BYTE"):
        assert getattr(vocabulary, name) == getattr(gguf.TokenType, name)
