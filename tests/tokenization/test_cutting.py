"""The arithmetic of cutting, against its definition and against the engine's own truncation."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from bothways.errors import UsageError
from bothways.tokenization.cutting import cut, keep, share_room, slide

lengths = st.integers(0, 40)
rooms = st.integers(1, 20)


def covered(spans: tuple[tuple[int, int], ...]) -> list[int]:
    return [index for start, stop in spans for index in range(start, stop)]


@given(lengths, rooms)
def test_head_keeps_the_first_pieces(length: int, room: int) -> None:
    assert covered(keep(length, room, "head")) == list(range(min(length, room)))


@given(lengths, rooms)
def test_tail_keeps_the_last_pieces(length: int, room: int) -> None:
    assert covered(keep(length, room, "tail")) == list(range(length))[-room:]


@given(lengths, rooms)
def test_head_and_tail_fill_the_room_and_leave_out_the_middle(length: int, room: int) -> None:
    kept = covered(keep(length, room, "head+tail"))
    assert len(kept) == min(length, room)
    gaps = [(a, b) for a, b in pairwise(kept) if b != a + 1]
    assert len(gaps) <= 1
    if length > room > 1:
        assert kept[0] == 0
        assert kept[-1] == length - 1
        head = sum(index < length / 2 for index in kept)
        assert 0 <= 2 * head - room <= 1


@given(lengths, rooms, st.data())
def test_windows_cover_everything_and_overlap_exactly(
    length: int, room: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, room - 1))
    windows = slide(length, room, overlap)
    assert windows[0][0] == 0
    assert windows[-1][1] == length
    assert all(0 <= stop - start <= room for start, stop in windows)
    assert all(after[0] == before[1] - overlap for before, after in pairwise(windows))
    assert all(after[1] > before[1] for before, after in pairwise(windows))


def test_overlap_as_large_as_the_window_is_an_error_and_no_panic() -> None:
    """transformers#22391, #18160: a large "stride" panicked inside the engine."""
    with pytest.raises(UsageError, match="overlap is 4.*at most 3"):
        slide(10, 4, 4)


@given(lengths, lengths, rooms)
def test_a_pair_shares_room_longest_first(first: int, second: int, room: int) -> None:
    kept = list(share_room(first, second, room))
    expected = [first, second]
    while sum(expected) > room:
        # The definition: take one piece after another from the longer one.
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert sum(kept) == sum(expected)
    assert sorted(kept) == sorted(expected)
    assert all(got <= had for got, had in zip(kept, (first, second), strict=True))


@pytest.mark.parametrize("direction", ["left", "right"])
def test_pairs_are_cut_as_the_engine_cuts_them(
    uncased_engine: tokenizers.Tokenizer, direction: Literal["left", "right"]
) -> None:
    engine = tokenizers.Tokenizer.from_str(uncased_engine.to_str())
    engine.enable_truncation(11, strategy="longest_first", direction=direction)
    cut_some = 0
    for first in range(1, 14):
        for second in range(1, 14):
            members = [" ".join(str(i) for i in range(10, 10 + n)) for n in (first, second)]
            encoding = engine.encode(members[0], members[1])
            plan = cut((first, second), 8, "head" if direction == "right" else "tail")
            (spans,) = plan.windows
            for member, part in enumerate(spans):
                expected = [
                    offset[0] // 3
                    for offset, owner in zip(encoding.offsets, encoding.sequence_ids, strict=True)
                    if owner == member
                ]
                assert covered(part) == expected
            cut_some += plan.tokens_cut > 0
    assert cut_some > 100


@given(lengths, lengths, st.integers(4, 20), st.data())
def test_windows_of_a_pair_fit_and_lose_only_what_is_counted(
    first: int, second: int, room: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, room // 2 - 1))
    plan = cut((first, second), room, "windows", overlap)
    seen: list[set[int]] = [set(), set()]
    for window in plan.windows:
        assert sum(len(covered(spans)) for spans in window) <= room
        for member, spans in enumerate(window):
            seen[member] |= set(covered(spans))
    assert plan.tokens == first + second
    assert plan.tokens_cut == plan.tokens - len(seen[0]) - len(seen[1])
    if first <= room // 2 or second <= room // 2:
        assert plan.tokens_cut == 0


def test_the_second_text_of_a_pair_slides_beside_the_whole_first() -> None:
    plan = cut((3, 20), 10, "windows", 2)
    assert all(window[0] == ((0, 3),) for window in plan.windows)
    assert [window[1] for window in plan.windows] == [
        ((0, 7),),
        ((5, 12),),
        ((10, 17),),
        ((15, 20),),
    ]


def test_a_long_first_text_slides_where_the_second_is_short() -> None:
    plan = cut((20, 3), 10, "windows", 0)
    assert [window[0] for window in plan.windows] == [((0, 7),), ((7, 14),), ((14, 20),)]
    assert all(window[1] == ((0, 3),) for window in plan.windows)


def test_a_first_text_that_must_stay_whole_does() -> None:
    plan = cut((7, 6), 10, "windows", 1, whole_first=True)
    assert [window[1] for window in plan.windows] == [((0, 3),), ((2, 5),), ((4, 6),)]
    assert all(window[0] == ((0, 7),) for window in plan.windows)
    assert plan.tokens_cut == 0
    kept = {
        "head": ((0, 3),),
        "tail": ((3, 6),),
        "head+tail": ((0, 2), (5, 6)),
    }
    for policy, second in kept.items():
        plan = cut((7, 6), 10, policy, whole_first=True)  # type: ignore[arg-type]
        assert plan.windows == ((((0, 7),), second),)
        assert plan.tokens_cut == 3
    assert cut((20, 6), 30, "head", whole_first=True).tokens_cut == 0
    with pytest.raises(UsageError, match="the first text has 10 tokens and must stay whole"):
        cut((10, 6), 10, "head", whole_first=True)
    with pytest.raises(UsageError, match="overlap is 3"):
        cut((7, 6), 10, "windows", 3, whole_first=True)
