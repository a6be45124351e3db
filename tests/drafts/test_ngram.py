"""Prompt lookup."""

from strata_runtime.drafts.ngram import NgramDrafter


def draft(ids, count, least=2, drafter=None):
    drafter = drafter or NgramDrafter(least)
    *before, newest = ids
    drafter.seen(0, before, None)
    return drafter.draft(len(before), newest, count, None)


def test_what_followed_the_longest_end_is_repeated():
    assert draft([1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2, 3], 3) == [4, 5, 9]


def test_ends_shorter_than_the_least_do_not_count():
    ids = [1, 2, 3, 4, 9, 2, 3]
    assert draft(ids, 2, least=2) == [4, 9]
    assert draft(ids, 2, least=3) == []
    assert draft([1, 2, 3], 2, least=1) == []


def test_past_the_texts_end_the_drafts_go_on():
    assert draft([7, 1, 2, 1, 2], 7) == [1, 2, 1, 2, 1, 2, 1]


def test_a_token_is_added_once_whether_drafted_from_or_seen_first():
    drafter = NgramDrafter(2)
    assert draft([1, 2, 3, 1, 2], 2, drafter=drafter) == [3, 1]
    drafter.seen(4, [2, 3], None)
    assert drafter.draft(6, 1, 2, None) == [2, 3]
    assert drafter._index.ids == [1, 2, 3, 1, 2, 3, 1]
