"""Files of prompts: lines, texts and token ids."""

import pytest

from strata_runtime.ab.prompts import read_prompts
from strata_runtime.errors import UserError


@pytest.fixture
def read(tmp_path):
    def write(content, name="prompts.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_prompts(path)

    return write


def test_lines_are_prompts_as_they_are(read):
    assert read("def a():\r\n\n  indented, with an end  \n \nlast") == ("def a():", "  indented, with an end  ", "last")
    assert read("\ufeffone\n") == ("one",)


def test_a_line_may_look_like_the_begin_of_a_list(read):
    assert read("[INST] Add two numbers.\nsecond") == ("[INST] Add two numbers.", "second")


@pytest.mark.parametrize("name", ["prompts.txt", "prompts.json"])
def test_lists_hold_texts_and_token_ids(read, name):
    assert read('["one\\ntwo", [3, 1, 4], ""]', name) == ("one\ntwo", [3, 1, 4], "")


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("", "prompts.txt", "holds no prompts"),
        ("\n \n", "prompts.txt", "holds no prompts"),
        ("[]", "prompts.json", "holds no prompts"),
        (b"\xff\xfe", "prompts.txt", "not UTF-8 text at byte 0"),
        ("[1, 2", "prompts.json", "not valid JSON: "),
        ('{"a": 1}', "prompts.json", "expected a JSON list of prompts, found an object"),
        ("[1, 2]", "prompts.txt", "prompt 1 must be a text or a list of token ids, not 1"),
        ('["a", [1, true]]', "prompts.json", "prompt 2: entry 1 is true, not a token id"),
        ("[[1.5]]", "prompts.json", "prompt 1: entry 0 is 1.5, not a token id"),
    ],
)
def test_other_files_are_refused(read, content, name, says):
    with pytest.raises(UserError) as problem:
        read(content, name)
    assert says in str(problem.value)
    assert name in str(problem.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_prompts(tmp_path / "none.txt")
