"""Streams of text: whole characters, equal to decoding at once, and nothing of a stop string."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata_runtime.errors import UserError
from strata_runtime.text.stream import Detokenizer, StopMatcher, TextStream
from strata_runtime.text.tokenizer import Tokenizer
from support.text_models import byte_fallback, byte_level, word_piece

# Merges across character borders: the last bytes of one character with the first of the next.
BYTES = Tokenizer(byte_level(merges=[("ð", "Ł"), ("Ģ", "ð"), ("h", "e"), ("he", "y")]), {}, "here")
FALLBACK = Tokenizer(byte_fallback(), {}, "here")
WORDS = Tokenizer(word_piece(), {}, "here")


def pieces(tokenizer, ids):
    detokenizer = Detokenizer(tokenizer.decode)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


def byte_ids(text: bytes):
    """Ids of single bytes in FALLBACK."""
    return [3 + byte for byte in text]


text_tokens = st.lists(st.integers(4, BYTES.size - 1), max_size=120)


@given(text_tokens)
@settings(max_examples=150, deadline=None)
def test_pieces_of_any_tokens_join_to_the_text_decoded_at_once(ids):
    """Random byte tokens: mostly invalid UTF-8, and unfinished characters at the end."""
    assert "".join(pieces(BYTES, ids)) == BYTES.decode(ids)


@given(st.text(st.sampled_from("aé€😀\ufffd \nhey"), max_size=60))
@settings(max_examples=120, deadline=None)
@example("😀" * 60)
@example("aé€" + "😀€" * 60)
@example("\ufffd" * 20)
@example("a" * 100)
def test_valid_text_survives_and_no_piece_ever_holds_half_a_character(text):
    for tokenizer in (BYTES, FALLBACK):
        ids = [token for token in tokenizer.encode(text) if tokenizer.has_text(token)]
        found = pieces(tokenizer, ids)
        assert "".join(found) == tokenizer.decode(ids) == text
        if "\ufffd" not in text:
            assert not any("\ufffd" in piece for piece in found)


@given(st.lists(st.integers(2, WORDS.size - 1), max_size=80))
@settings(max_examples=100, deadline=None)
def test_a_tokenizer_without_bytes_streams_like_it_decodes(ids):
    assert "".join(pieces(WORDS, ids)) == WORDS.decode(ids)


def test_a_character_comes_with_its_last_byte():
    assert pieces(FALLBACK, byte_ids("é".encode())) == ["", "é", ""]
    assert pieces(FALLBACK, byte_ids("😀".encode())) == ["", "", "", "😀", ""]


def test_an_unfinished_character_at_the_end_becomes_the_replacement_character():
    ids = BYTES.encode("a😀")[:-1]
    assert pieces(BYTES, ids)[-1] == "\ufffd"
    assert "".join(pieces(BYTES, ids)) == "a\ufffd"


def test_a_valid_character_before_invalid_bytes_is_not_taken_back():
    """This decoder shows a whole run of bytes as invalid when its end is; what was given out stays."""
    ids = byte_ids("é".encode() + b"\xe4") + FALLBACK.encode("c")[2:]
    joined = "".join(pieces(FALLBACK, ids))
    assert joined.startswith("é")
    assert joined.endswith("c")


def test_endless_invalid_bytes_flow_and_do_not_grow_the_window():
    lengths = []
    detokenizer = Detokenizer(lambda ids: lengths.append(len(ids)) or BYTES.decode(ids))
    continuation = BYTES.encode("é")[-1]
    text = "".join(detokenizer.push(continuation) for _ in range(2000))
    assert text + detokenizer.flush() == "\ufffd" * 2000
    assert max(lengths) <= 64


# Stop strings


def matched(stops, parts):
    """Feed parts; return (text given out, whether a stop was found)."""
    matcher = StopMatcher(stops)
    out = ""
    for part in parts:
        text, found = matcher.push(part)
        out += text
        if found:
            return out, True
    return out + matcher.flush(), False


def by_definition(stops, text):
    """The stop that is complete first ends the text, the one that starts first among several."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=3), max_size=12),
)
@settings(max_examples=250, deadline=None)
def test_stops_are_found_however_the_text_is_cut(stops, parts):
    """One character at a time is the definition; larger parts may only find an equal or earlier end."""
    text = "".join(parts)
    assert matched(stops, text) == by_definition(stops, text)
    found = matched(stops, parts)
    assert found[1] == by_definition(stops, text)[1]
    if len(stops) == 1 or not found[1]:
        assert found == by_definition(stops, text)


def test_text_that_may_become_a_stop_is_held_back_and_released_when_it_does_not():
    matcher = StopMatcher(["\n\ndef", "STOP"])
    assert matcher.push("x = 1\n") == ("x = 1", False)
    assert matcher.push("\nde") == ("", False)
    assert matcher.push("l ST") == ("\n\ndel ", False)
    assert matcher.push("OP and more") == ("", True)


def test_what_is_held_back_comes_out_at_the_end():
    matcher = StopMatcher(["STOP"])
    assert matcher.push("a STO") == ("a ", False)
    assert matcher.flush() == "STO"


def test_text_before_the_stop_is_given_out_and_the_stop_is_not():
    assert matched(["###"], ["abc#", "##def"]) == ("abc", True)


def test_an_empty_stop_string_is_refused():
    with pytest.raises(UserError, match="must not be empty"):
        StopMatcher(["a", ""])


def test_without_stops_text_passes_straight_through():
    assert matched([], ["ab", "", "c"]) == ("abc", False)


def test_a_stop_can_complete_in_the_character_that_the_end_releases():
    stream = TextStream(BYTES, ["\ufffd"])
    for token in BYTES.encode("a😀")[:-1]:
        assert not stream.push(token)[1]
    assert stream.finish() == ("", True)


def test_control_tokens_and_ids_without_a_token_have_no_text():
    stream = TextStream(BYTES, [])
    assert stream.push(0) == ("", False)
    assert stream.push(BYTES.size + 5) == ("", False)
    assert stream.finish() == ("", False)
