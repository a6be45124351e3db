"""The engine and the command line on GGUF files: text from the vocabulary inside, or token ids where there is none."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import pytest
from click.testing import CliRunner, Result

from strata_runtime import Engine, SamplingParams, UserError
from strata_runtime.cli.main import group
from strata_runtime.provider import PATH_VARIABLE
from support.checkpoints import make_config, make_tensors, write_checkpoint
from support.compiled import compiled_provider
from support.gguf_files import add_tokenizer
from support.gguf_models import named, write_model
from support.text_models import CONTROL, TEMPLATE, byte_level, write_folder

pytestmark = pytest.mark.native
REFERENCE = Path(__file__).parent / "reference"
GREEDY = SamplingParams(temperature=0)
CONFIG = make_config(vocab_size=300, max_position_embeddings=128)
END, BEGIN = 0, 1
BACKEND = byte_level(merges=[("d", "e"), ("de", "f")])
LoadEngine = Callable[[Path], Engine]


def write_text_model(path: Path, *, template: str | None = TEMPLATE, end: int = END) -> Path:
    def fill(writer: gguf.GGUFWriter) -> None:
        add_tokenizer(writer, BACKEND, "gpt-2")
        writer.add_eos_token_id(end)
        writer.add_bos_token_id(BEGIN)
        if template is not None:
            writer.add_chat_template(template)

    return write_model(path, CONFIG, named(CONFIG, make_tensors(CONFIG)), fill=fill)


@pytest.fixture
def load_engine() -> Iterator[LoadEngine]:
    engines: list[Engine] = []

    def load(path: Path) -> Engine:
        engines.append(Engine.load(path, environ={}, provider=compiled_provider()))
        return engines[-1]

    yield load
    for engine in engines:
        engine.close()


@pytest.fixture
def strata(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv(PATH_VARIABLE, str(compiled_provider().folder))
    return lambda *words: CliRunner().invoke(group, [str(word) for word in words])


# --- text


def test_text_is_that_of_the_same_model_in_a_folder(tmp_path: Path, load_engine: LoadEngine) -> None:
    tensors = {name: tensor.float() for name, tensor in make_tensors(CONFIG).items()}
    folder = write_folder(tmp_path / "model", BACKEND, model_config=CONFIG)
    write_checkpoint(folder, CONFIG, tensors)
    expected, found = load_engine(folder), load_engine(write_text_model(tmp_path / "model.gguf"))
    chat = [{"role": "user", "content": "größer <|user|>"}]
    for prompt in ("def f(x):", "<|endoftext|>", chat):
        assert found.encode(prompt) == expected.encode(prompt)
        one, other = (engine.generate(prompt, GREEDY, max_tokens=20).run() for engine in (found, expected))
        assert (one.text, one.token_ids) == (other.text, other.token_ids)
    assert found.path == tmp_path / "model.gguf"


def test_end_tokens_and_the_first_token_come_from_the_file(tmp_path: Path, load_engine: LoadEngine) -> None:
    path = write_text_model(tmp_path / "model.gguf")
    engine = load_engine(path)
    assert engine.encode("") == (BEGIN,)
    drawn = engine.generate("abc", GREEDY, max_tokens=5, ignore_eos=True).run().token_ids
    ending = load_engine(write_text_model(tmp_path / "other.gguf", end=drawn[0]))
    result = ending.generate("abc", GREEDY, max_tokens=5).run()
    assert (result.token_ids, result.finish_reason, result.text) == (drawn[:1], "stop", "")


def test_a_file_without_a_chat_template(tmp_path: Path, load_engine: LoadEngine) -> None:
    engine = load_engine(write_text_model(tmp_path / "model.gguf", template=None))
    with pytest.raises(UserError, match=r"model.gguf: the model has no chat template \('tokenizer.chat_template' is"):
        engine.encode([{"role": "user", "content": "a"}])


def test_a_vocabulary_of_another_model(tmp_path: Path, load_engine: LoadEngine) -> None:
    config = make_config(vocab_size=64)
    path = write_model(
        tmp_path / "model.gguf",
        config,
        named(config, make_tensors(config)),
        fill=lambda writer: add_tokenizer(writer, BACKEND, "gpt-2"),
    )
    size = len(CONTROL) + 256 + 2
    with pytest.raises(UserError, match=rf"has {size} tokens, but the model has only 64"):
        load_engine(path)


# --- token ids alone


def test_a_model_without_text_works_with_token_ids(load_engine: LoadEngine) -> None:
    engine = load_engine(REFERENCE / "glm4moe-e2-f32.gguf")
    assert engine.tokenizer is None
    case = json.loads((REFERENCE / "glm4moe-e2-f32.json").read_text())[1]
    result = engine.generate(case["prompt_ids"], GREEDY, max_tokens=4).run()
    assert result.token_ids == tuple(step["id"] for step in case["steps"])
    assert result.text == ""


@pytest.mark.parametrize("prompt", ["text", "", [{"role": "user", "content": "a"}]])
def test_text_for_a_model_without_text_says_why(load_engine: LoadEngine, prompt: str | list[dict[str, str]]) -> None:
    engine = load_engine(REFERENCE / "glm4moe-e2-f32.gguf")
    with pytest.raises(
        UserError, match=r"the file has no tokenizer \('tokenizer.ggml.model' is 'test'\): give token ids"
    ):
        engine.generate(prompt)
    with pytest.raises(UserError, match="stop strings need text"):
        engine.generate([1], stop="x")


def test_what_is_left_out_is_said(caplog: pytest.LogCaptureFixture, load_engine: LoadEngine) -> None:
    with caplog.at_level(logging.WARNING, "strata_runtime"):
        engine = load_engine(REFERENCE / "glm4moe-e2-f32.gguf")
    assert [record.getMessage() for record in caplog.records] == [f"strata: {note}" for note in engine.info.notes]
    assert "left out blk.0.ffn_gate.scale, " in engine.info.notes[1]


# --- the command line


def test_ids_in_ids_out(strata: Callable[..., Result]) -> None:
    case = json.loads((REFERENCE / "qwen3moe-e16-q4_k.json").read_text())[2]
    words = ["--prompt-ids", ",".join(map(str, case["prompt_ids"])), "--max-tokens", 4, "--temperature", 0, "--quiet"]
    result = strata("generate", "--model", REFERENCE / "qwen3moe-e16-q4_k.gguf", *words)
    assert result.exit_code == 0, result.output
    assert result.stdout == ",".join(str(step["id"]) for step in case["steps"])
    found = strata("generate", "--model", REFERENCE / "qwen3moe-e16-q4_k.gguf", *words, "--json")
    assert json.loads(found.stdout)["token_ids"] == [step["id"] for step in case["steps"]]


def test_ids_for_a_model_with_text_give_text(strata: Callable[..., Result], tmp_path: Path) -> None:
    path = write_text_model(tmp_path / "model.gguf")
    words = ["--max-tokens", 6, "--temperature", 0, "--quiet"]
    ids = ",".join(map(str, BACKEND.encode("abc").ids))
    assert strata("generate", "--model", path, "--prompt-ids", ids, *words).stdout == (
        strata("generate", "--model", path, "--prompt", "abc", *words).stdout
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt", "a"], "the file has no tokenizer"),
        (["--prompt-ids", "1,x"], "--prompt-ids takes token ids such as 1,2,3, not 'x'"),
        (["--prompt-ids", ""], "not ''"),
        (["--prompt-ids", "-1"], "not '-1'"),
        (["--prompt-ids", "1_0"], "not '1_0'"),
        (["--prompt-ids", "128"], "must be an id from 0 to 127, not 128"),
        (["--prompt-ids", "1", "--prompt", "a"], "not several"),
        (["--prompt-ids", "1", "--chat"], "--chat needs text"),
    ],
)
def test_prompts_that_do_not_fit(strata: Callable[..., Result], words: list[str], message: str) -> None:
    result = strata("generate", "--model", REFERENCE / "glm4moe-e2-f32.gguf", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_info_shows_a_file(strata: Callable[..., Result]) -> None:
    path = REFERENCE / "glm4moe-e2-f32.gguf"
    text = strata("info", "--model", path).stdout
    assert f"model {path}: GLM-4.5 mixture of experts (glm4_moe)" in text
    assert "no tokenizer: works with token ids alone" in text
    report = json.loads(strata("info", "--model", path, "--json").stdout)["model"]
    assert (report["path"], report["has_text"], len(report["notes"])) == (str(path), False, 2)
