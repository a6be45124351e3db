"""Whatever is wrong with what a user gives: exit code 2, one message that names it, no traceback, empty stdout."""

import json
import os

import pytest

from support.text_models import TEMPLATE, byte_level


def spoil(name, content):
    """A change to the model folder: write bytes, or remove the file."""

    def change(folder):
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    return change


VALUES = [
    (["--temperature", "nan"], "temperature must be"),
    (["--temperature", "-1"], "temperature must be"),
    (["--temperature", "inf"], "temperature must be"),
    (["--temperature", "1e9"], "temperature must be"),
    (["--temperature", "hot"], "'hot' is not a valid float"),
    (["--temperature", ""], "'' is not a valid float"),
    (["--top-k", "-1"], "top_k must be"),
    (["--top-k", "1.5"], "'1.5' is not a valid int"),
    (["--top-p", "0"], "top_p must be"),
    (["--top-p", "1.1"], "top_p must be"),
    (["--top-p", "nan"], "top_p must be"),
    (["--min-p", "-0.5"], "min_p must be"),
    (["--min-p", "2"], "min_p must be"),
    (["--repetition-penalty", "0"], "repetition_penalty must be"),
    (["--repetition-penalty", "-2"], "repetition_penalty must be"),
    (["--seed", "-1"], "seed must be"),
    (["--seed", str(2**64)], "seed must be"),
    (["--seed", "x"], "'x' is not a valid int"),
    (["--max-tokens", "-1"], "max_tokens must be"),
    (["--max-tokens", "many"], "'many' is not a valid int"),
    (["--stop", ""], "a stop string must be"),
    (["--stop", "a\udcff"], "is not valid Unicode"),
    (["--system", "s"], "--system needs --chat"),
    (["--engine-context", "-1"], "engine.context"),
    (["--engine-context", "200000"], "own maximum of 100000"),
    (["--engine-context", "x"], "engine.context"),
    (["--engine-contxt", "5"], "--engine-context"),
    (["--pool-pin", "maybe"], "'maybe' is not one of"),
    (["--prompt-file", "also"], "not several"),
    (["--prompt-ids", "1,2"], "not several"),
    (["extra"], "unexpected extra argument"),
]


def check(result, message):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1
    assert len(result.stderr) < 1500


@pytest.mark.parametrize(("args", "message"), VALUES, ids=lambda v: " ".join(v)[:40])
def test_a_bad_value_is_refused(strata, folder, args, message):
    check(strata("generate", "--model", folder, "--prompt", "abc", *args), message)
    assert strata.model.passes == []


PROMPTS = [
    ([], "Give a prompt"),
    (["--prompt", ""], "the prompt is empty"),
    (["--prompt", "a\udcffb"], "not valid Unicode"),
    (["--prompt", "x" * 9000], "9000 tokens, more than the context of 8192"),
    (["--prompt-file", "absent"], "absent: cannot be read: No such file"),
    (["--prompt-file", "."], ".: cannot be read: Is a directory"),
    (["--prompt-file", ""], "--prompt-file is empty"),
    (["--prompt-file", "/dev/zero"], "/dev/zero: not a file but a pipe or a device; - reads standard input"),
    (["--prompt-file", "a\0b"], "not a path"),
    (["--prompt-file", "n" * 300], "File name too long"),
    (["--chat", "--system", "a\udcff", "--prompt", "b"], "not valid Unicode"),
]


@pytest.mark.parametrize(
    ("args", "message"), PROMPTS, ids=lambda v: " ".join(v)[:40].encode("ascii", "replace").decode()
)
def test_a_bad_prompt_is_refused(strata, folder, args, message):
    check(strata("generate", "--model", folder, *args), message)
    assert strata.model.passes == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the prompt is empty"),
        (b"abc\xff", "not UTF-8 text at byte 3"),
        ("half €".encode()[:-1], "not UTF-8 text at byte 5"),
        ("text".encode("utf-16"), "not UTF-8 text at byte 0"),
        ("text".encode("utf-16-le"), "holds NUL characters"),
        (b"a\0b", "holds NUL characters"),
    ],
    ids=str,
)
@pytest.mark.parametrize("through", ["file", "stdin"])
def test_a_bad_prompt_file_is_refused(strata, folder, tmp_path, content, message, through):
    (tmp_path / "prompt").write_bytes(content)
    source = tmp_path / "prompt" if through == "file" else "-"
    check(strata("generate", "--model", folder, "--prompt-file", source, input=content), message)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_prompt_file_is_refused(strata, folder, tmp_path):
    (tmp_path / "prompt").touch(mode=0)
    check(strata("generate", "--model", folder, "--prompt-file", tmp_path / "prompt"), "Permission denied")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent", "no such folder"),
        ("", "no such folder"),
        ("model/config.json", "a file that is no GGUF file; give the folder"),
        ("a\0b", "NUL character"),
        ("empty", "tokenizer.json: cannot be read: No such file"),
    ],
    ids=repr,
)
def test_a_path_that_is_no_model_is_refused(strata, folder, path, message):
    (folder.parent / "empty").mkdir()
    model = folder.parent / path if path else folder / "nowhere"
    check(strata("generate", "--model", model, "--prompt", "abc"), message)


def test_the_model_must_be_named(strata):
    check(strata("generate", "--prompt", "abc"), "Missing option '--model'")


FILES = {
    "no tokenizer": spoil("tokenizer.json", None),
    "empty tokenizer": spoil("tokenizer.json", b""),
    "tokenizer of text": spoil("tokenizer.json", b"hello"),
    "tokenizer cut short": spoil("tokenizer.json", byte_level().to_str()[:500].encode()),
    "tokenizer of another kind": spoil("tokenizer.json", {"model": {"type": "Unknown"}}),
    "tokenizer of bytes": spoil("tokenizer.json", bytes(range(256))),
    "tokenizer larger than the model": spoil(
        "tokenizer.json", byte_level(control=[f"<{n}>" for n in range(100)]).to_str().encode()
    ),
    "tokenizer_config of text": spoil("tokenizer_config.json", b"hello"),
    "tokenizer_config is a list": spoil("tokenizer_config.json", []),
    "tokenizer_config deeply nested": spoil("tokenizer_config.json", b'{"a":' + b"[" * 100_000),
    "generation_config of text": spoil("generation_config.json", b"{"),
    "end token beyond the vocabulary": spoil("generation_config.json", {"eos_token_id": 10**9}),
    "end token that is no id": spoil("config.json", {"eos_token_id": {"a": 1}}),
    "no template": spoil("tokenizer_config.json", {}),
    "template that is a number": spoil("tokenizer_config.json", {"chat_template": 5}),
    "template with a syntax error": spoil("tokenizer_config.json", {"chat_template": "{% for %}"}),
    "template that raises": spoil("tokenizer_config.json", {"chat_template": "{{ raise_exception('no') }}"}),
    "template that divides by zero": spoil("tokenizer_config.json", {"chat_template": "{{ 1 / 0 }}"}),
    "template that reaches out": spoil("tokenizer_config.json", {"chat_template": "{{ ''.__class__.mro() }}"}),
    "template without an end": spoil(
        "tokenizer_config.json", {"chat_template": "{% for a in range(10**9) %}{% endfor %}"}
    ),
    "template that is empty": spoil("tokenizer_config.json", {"chat_template": ""}),
    "template file of bytes": spoil("chat_template.jinja", b"\xff\xfe"),
}


@pytest.mark.parametrize("change", FILES.values(), ids=FILES.keys())
def test_a_damaged_text_file_of_the_model_is_refused(strata, folder, change):
    change(folder)
    result = strata("generate", "--model", folder, "--chat", "--prompt", "abc", "--quiet")
    check(result, "Error: ")
    assert strata.model.passes == []


def test_the_model_is_freed_after_an_error(strata, folder):
    spoil("tokenizer_config.json", {"chat_template": TEMPLATE[:30]})(folder)
    check(strata("generate", "--model", folder, "--chat", "--prompt", "abc"), "broken")
    assert strata.model.closed == 1
