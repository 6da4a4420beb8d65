"""Long texts in passages: nothing dropped, cut where sentences or words start, no small rests."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.passages import SLACK, cut_places
from bothways.errors import UsageError


def flags(length: int, *places: int) -> np.ndarray:
    return np.isin(np.arange(length), places)


def test_a_text_that_fits_is_one_passage() -> None:
    assert cut_places(flags(8), flags(8), room=8) == [0, 8]
    assert cut_places(flags(1, 0), flags(1, 0), room=1) == [0, 1]


def test_sentences_are_preferred_to_words_and_words_to_nothing() -> None:
    words, none = flags(100, *range(0, 100, 2)), flags(100)
    assert cut_places(words, flags(100, 0, 33, 66), room=40) == [0, 33, 66, 100]
    # No sentence starts between 30 and 40, but words do.
    assert cut_places(words, flags(100, 0, 20), room=40)[1] == 40
    assert cut_places(none, none, room=40) == [0, 40, 70, 100]


def test_the_last_two_passages_share_what_is_left() -> None:
    ones = flags(41, *range(41))
    assert cut_places(ones, flags(41), room=40) == [0, 21, 41]


@given(
    st.integers(1, 60),
    st.lists(st.sampled_from(["sentence", "word", "inside"]), min_size=1, max_size=300),
)
def test_any_text_is_cut_within_the_room_and_whole(room: int, kinds: list[str]) -> None:
    sentences = np.array([kind == "sentence" for kind in kinds])
    words = sentences | np.array([kind == "word" for kind in kinds])
    places = cut_places(words, sentences, room)
    sizes = [stop - start for start, stop in pairwise(places)]
    assert (places[0], places[-1]) == (0, len(kinds))
    assert all(0 < size <= room for size in sizes)
    if len(kinds) > room:
        # No rest is smaller than what the slack allows of half of the last two.
        assert min(sizes) >= min((1 - SLACK) * (room + 1) / 2 - 1, room / 3)
    for place in places[1:-1]:
        if not words[place]:  # then there was none to be had before it
            reach = int(SLACK * room) // 2
            assert not words[max(place - reach, 1) : place].any() or reach == 0


def test_no_room_is_refused() -> None:
    with pytest.raises(UsageError, match="room for 0 tokens"):
        cut_places(flags(3), flags(3), room=0)
