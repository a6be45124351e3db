"""The index of a text's ends, against looking at all of the text."""

from hypothesis import given
from hypothesis import strategies as st

from strata_runtime.drafts.suffixes import SuffixIndex


def longest(ids):
    """Length of the longest end that occurred before."""
    for length in range(len(ids) - 1, 0, -1):
        if any(ids[at : at + length] == ids[-length:] for at in range(len(ids) - length)):
            return length
    return 0


@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_length_is_that_of_the_longest_end_that_occurred_before(ids):
    index = SuffixIndex()
    for token in ids:
        index.push(token)
        length, behind = index.match
        assert length == longest(index.ids)
        assert 0 < behind < len(index.ids) or length == 0
        assert index.ids[behind - length : behind] == index.ids[len(index.ids) - length :]


def test_of_several_occurrences_a_late_one_is_found():
    index = SuffixIndex()
    for token in [1, 2, 7, 1, 2, 8, 1, 2, 9, 1, 2]:
        index.push(token)
    assert index.match == (2, 8)


def test_a_long_repetitive_text_takes_constant_time_per_token():
    """As the number of states, which is at most twice the text's length."""
    index = SuffixIndex()
    for at in range(20_000):
        index.push(at % 3 and 5)
    assert len(index._states) < 40_000
    assert index.match[0] == 20_000 - 3
