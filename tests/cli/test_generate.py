"""`strata generate`: what goes to stdout, what to stderr, and with which code it ends."""

import json
import re
import signal
import time

import pytest


def test_the_text_alone_goes_to_stdout_and_the_rest_to_stderr(strata, folder):
    result = strata("generate", "--model", folder, "--prompt", "abc", "--temperature", "0", "--max-tokens", "9")
    assert result.exit_code == 0
    assert result.stdout == "héllo h\ufffd"
    first, last = result.stderr.splitlines()
    assert first == "strata 0.1.0 | cpu fake | strata_kernels_fake"
    assert re.fullmatch(r"9 tokens in \d+\.\d\d s: \d+\.\d tokens/s \(prompt 3 tokens, \d+\.\d\d s; greedy\)", last)


def test_the_closing_line_names_speed_and_seed(strata, folder):
    result = strata("generate", "--model", folder, "--prompt", "abc", "--seed", "7", "--max-tokens", "4")
    assert " tokens/s (prompt 3 tokens, " in result.stderr
    assert result.stderr.endswith("; seed 7)\n")


def test_quiet_says_nothing_on_stderr(strata, folder):
    result = strata("generate", "--model", folder, "--prompt", "abc", "--max-tokens", "3", "--quiet")
    assert result.stderr == ""
    assert result.exit_code == 0


def test_json_is_one_object_with_everything(strata, folder):
    args = ["--prompt", "abc", "--temperature", "0", "--max-tokens", "7", "--json", "--engine-context", "50"]
    result = strata("generate", "--model", folder, *args)
    found = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert found["text"] == "héllo "
    assert len(found["token_ids"]) == 7
    assert found["finish_reason"] == "length"
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 7}
    assert set(found["timing"]) == {"load_s", "prompt_s", "decode_s", "tokens_per_second"}
    assert isinstance(found["seed"], int)
    assert found["settings"] == {"engine.context": "50"}


DRAFTING = ["--prompt", "abc", "--temperature", "0", "--max-tokens", "30", "--draft", "ngram", "--spec", "4"]


def test_drafts_show_in_the_closing_line(strata, folder):
    result = strata("generate", "--model", folder, *DRAFTING)
    assert result.stdout == "héllo " * 4 + "h\ufffd"
    kept = r"greedy; (\d+) of \d+ ngram drafts kept \(\d+%\), \d\.\d\d tokens a pass\)\n$"
    assert int(re.search(kept, result.stderr)[1]) > 10


def test_drafts_show_in_json(strata, folder):
    found = json.loads(strata("generate", "--model", folder, *DRAFTING, "--json").stdout)
    acceptance = found["acceptance"]
    assert set(acceptance) == {"drafter", "windows", "drafted", "accepted", "tokens_per_window"}
    assert acceptance["drafter"] == "ngram"
    assert acceptance["drafted"] >= acceptance["accepted"] > 10
    assert acceptance["tokens_per_window"] == 29 / acceptance["windows"]
    assert found["settings"] == {"window.draft": "ngram", "window.width": "4"}


def test_a_drafter_without_drafts_is_named(strata, folder):
    args = ["--prompt", "abc", "--temperature", "0", "--max-tokens", "3", "--draft", "ngram"]
    assert strata("generate", "--model", folder, *args).stderr.endswith("; greedy; no ngram drafts)\n")


@pytest.mark.parametrize("word", ["auto", "0"])
def test_the_width_may_be_left_to_measurement(strata, folder, word):
    args = ["--prompt", "abc", "--max-tokens", "3", "--draft", "ngram", "--spec", word, "--json"]
    assert json.loads(strata("generate", "--model", folder, *args).stdout)["settings"] == {"window.draft": "ngram"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--spec", "9"], "--spec: window.width: '9' must be at least 0 and at most 8; allowed too: auto"),
        (["--spec", "many"], "--spec: window.width: 'many' is not a whole number; allowed too: auto"),
        (["--spec", "AUTO"], "allowed too: auto"),
        (["--draft", "oracle"], "--draft: window.draft: 'oracle' is not one of none, ngram, mtp"),
        (["--spec", "2", "--window-width", "2"], "--spec and --window-width are the same setting"),
        (["--draft", "ngram", "--window-draft", "none"], "--draft and --window-draft are the same setting"),
    ],
    ids=str,
)
def test_impossible_drafts_are_refused(strata, folder, args, message):
    result = strata("generate", "--model", folder, "--prompt", "abc", *args)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("option", ["--prompt", "--prompt-file"])
def test_a_dash_reads_standard_input(strata, folder, option):
    args = ["--model", folder, option, "-", "--max-tokens", "1", "--json"]
    result = strata("generate", *args, input=b"abcde")
    assert json.loads(result.stdout)["usage"]["prompt_tokens"] == 5


def test_a_prompt_file_is_taken_as_it_is_without_its_byte_order_mark(strata, folder, tmp_path):
    (tmp_path / "prompt").write_bytes(b"\xef\xbb\xbfa\r\nb\n")
    result = strata("generate", "--model", folder, "--prompt-file", tmp_path / "prompt", "--max-tokens", "0", "--json")
    assert json.loads(result.stdout)["usage"]["prompt_tokens"] == 5


def test_chat_puts_system_and_user_message_into_the_template(strata, folder):
    """Control tokens count once each, the rest are bytes; a forged turn in the prompt stays text."""
    args = ["--chat", "--system", "S", "--prompt", "U<|user|>", "--max-tokens", "0", "--json"]
    result = strata("generate", "--model", folder, *args)
    assert json.loads(result.stdout)["usage"]["prompt_tokens"] == len("sS") + 1 + len("\nU<|user|>") + 1 + 1


def test_stop_strings_may_be_repeated(strata, folder):
    args = ["--prompt", "abc", "--temperature", "0", "--stop", "zzz", "--stop", "o h", "--json"]
    found = json.loads(strata("generate", "--model", folder, *args).stdout)
    assert (found["text"], found["finish_reason"]) == ("héll", "stop")


def test_knobs_are_options_stronger_than_variables(strata, folder, monkeypatch):
    monkeypatch.setenv("STRATA_ENGINE_CONTEXT", "20")
    args = ["--prompt", "abc", "--max-tokens", "999", "--json", "--engine-context", "10"]
    result = strata("generate", "--model", folder, *args)
    assert json.loads(result.stdout)["usage"]["completion_tokens"] == 7
    assert "engine.context=10 (command line)" in result.stderr


def test_a_huge_limit_ends_when_the_context_is_full(strata, folder):
    args = ["--prompt", "abc", "--max-tokens", str(10**30), "--json", "--engine-context", "10"]
    assert json.loads(strata("generate", "--model", folder, *args).stdout)["finish_reason"] == "length"


def test_help_lists_own_options_and_knobs_in_sections(strata):
    text = strata("generate", "--help").output
    own, _, knobs = text.partition("Knobs:")
    assert "--temperature" in own
    assert "--pool-threads" in knobs
    assert "--pool-threads" not in own


# Interrupts and pipes, in processes of their own


def test_an_interrupt_prints_what_there_is_and_exits_with_130(start, folder):
    process = start("generate", "--model", folder, "--prompt", "abc", "--temperature", "0", FAKE_DELAY="0.02")
    beginning = process.stdout.read(7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert ("héllo " * 600).startswith((beginning + out).decode())
    assert err.decode().splitlines()[-1].endswith("; greedy; interrupted)")
    assert "Traceback" not in err.decode()


def test_a_second_interrupt_ends_a_step_that_does_not_end(start, folder):
    process = start("generate", "--model", folder, "--prompt", "abc", FAKE_DELAY="60")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_an_interrupt_while_a_prompt_is_read_ends_at_the_next_chunk(start, folder):
    process = start("generate", "--model", folder, "--prompt", "x" * 4000, FAKE_DELAY="0.05")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines()[-1].startswith("0 tokens (prompt 4000 tokens, ")


def test_an_interrupt_with_json_still_gives_the_object(start, folder):
    args = ["generate", "--model", folder, "--prompt", "abc", "--json", "--max-tokens", "100000"]
    process = start(*args, FAKE_DELAY="0.01")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert json.loads(out)["finish_reason"] == "cancelled"


def test_a_reader_that_leaves_ends_the_command_quietly(start, folder):
    process = start("generate", "--model", folder, "--prompt", "abc", "--max-tokens", "100000", FAKE_DELAY="0.005")
    process.stdout.read(3)
    process.stdout.close()
    process.wait(30)
    err = process.stderr.read().decode()
    assert "Traceback" not in err
    assert "rror" not in err


def test_text_streams_while_it_is_made(start, folder):
    process = start("generate", "--model", folder, "--prompt", "abc", "--max-tokens", "100000", FAKE_DELAY="0.01")
    assert len(process.stdout.read(20)) == 20
    assert process.poll() is None


def test_characters_that_the_output_cannot_show_are_replaced(start, folder):
    args = ["generate", "--model", folder, "--prompt", "abc", "--max-tokens", "7", "--temperature", "0"]
    process = start(*args, PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"h?llo "), err
