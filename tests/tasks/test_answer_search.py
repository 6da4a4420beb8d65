"""The search for spans, beside an exhaustive one, and the threshold for no answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.tasks.answer_search import Found, Span, Window, find_answers
from bothways.tasks.answer_threshold import best_threshold, no_answer_odds


def window(starts: list[float], ends: list[float], first: int = 0, nothing: float = 0.0) -> Window:
    """Pieces of two characters, one after another from a character on."""
    begins = first + 2 * np.arange(len(starts))
    offsets = np.stack([begins, begins + 2], axis=1)
    return Window(np.array(starts), np.array(ends), offsets, nothing)


def exhaustive(windows: list[Window], max_length: int) -> Found:
    """Every span by hand: the best score of each range, and softmax over them and no answer."""
    best: dict[tuple[int, int], float] = {}
    for each in windows:
        for first in range(len(each.starts)):
            for last in range(first, min(first + max_length, len(each.starts))):
                span = (int(each.offsets[first, 0]), int(each.offsets[last, 1]))
                score = float(each.starts[first] + each.ends[last])
                best[span] = max(score, best.get(span, -math.inf))
    nothing = min(each.nothing for each in windows)
    total = sum(map(math.exp, best.values())) + math.exp(nothing)
    order = sorted(best, key=lambda span: (-best[span], span))
    assert order
    found = [(span, math.exp(best[span]) / total) for span in order]
    return Found(tuple(_span(*each) for each in found), math.exp(nothing) / total)


def _span(place: tuple[int, int], probability: float) -> Span:
    return Span(*place, probability)


numbers = st.integers(-8, 8).map(lambda number: number / 2)
scores = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6)


@given(scores, scores, st.integers(0, 6), numbers, numbers, st.integers(1, 4))
def test_it_finds_what_trying_all_spans_finds(
    left: list[tuple[float, float]],
    right: list[tuple[float, float]],
    shift: int,
    nothing: float,
    other: float,
    max_length: int,
) -> None:
    windows = [
        window([a for a, _ in left], [b for _, b in left], 0, nothing),
        window([a for a, _ in right], [b for _, b in right], 2 * shift, other),
    ]
    expected = exhaustive(windows, max_length)
    found = find_answers(windows, max_length=max_length, count=1000)
    assert [(s.start, s.end) for s in found.spans] == [(s.start, s.end) for s in expected.spans]
    assert [s.probability for s in found.spans] == pytest.approx(
        [s.probability for s in expected.spans]
    )
    assert found.no_answer == pytest.approx(expected.no_answer)


def test_an_end_is_never_before_its_start_and_answers_are_not_too_long() -> None:
    # The best start is the last piece, the best end the first; the best legal span is 0 to 2.
    one = window([3.0, 0.0, 5.0], [5.0, 0.0, 4.0])
    assert spans(one, max_length=3) == [(4, 6), (0, 2), (0, 6)]
    assert spans(one, max_length=2)[:2] == [(4, 6), (0, 2)]
    long = window([9.0, 0.0, 0.0], [-9.0, -9.0, 9.0])
    assert spans(long, max_length=3)[0] == (0, 6)
    assert spans(long, max_length=2)[0] == (2, 6)


def spans(one: Window, max_length: int) -> list[tuple[int, int]]:
    found = find_answers([one], max_length=max_length, count=3)
    return [(span.start, span.end) for span in found.spans]


def test_a_span_of_two_windows_is_listed_once_with_its_better_score() -> None:
    left = window([0.0, 2.0], [0.0, 2.0], 0, nothing=-1.0)
    right = window([3.0, 0.0], [3.0, 0.0], 2, nothing=-5.0)
    found = find_answers([left, right], max_length=1, count=9)
    assert [(span.start, span.end) for span in found.spans] == [(2, 4), (0, 2), (4, 6)]
    total = math.exp(6) + 1 + 1 + math.exp(-5)
    assert found.spans[0].probability == pytest.approx(math.exp(6) / total)
    assert found.no_answer == pytest.approx(math.exp(-5) / total)


def test_pieces_without_characters_are_no_answer() -> None:
    empty = Window(np.ones(2), np.ones(2), np.array([[3, 3], [4, 4]]), 0.0)
    assert [(s.start, s.end) for s in find_answers([empty], max_length=2, count=5).spans] == [
        (3, 4)
    ]


def test_an_empty_context_has_no_answer() -> None:
    """transformers#14277, #18719: an empty context is no crash."""
    nothing = Window(np.empty(0), np.empty(0), np.empty((0, 2), dtype=np.int64), 7.0)
    assert find_answers([nothing], max_length=30, count=3) == Found((), 1.0)


def test_odds_are_the_difference_of_the_scores() -> None:
    found = find_answers([window([1.0], [1.5], nothing=4.0)], max_length=1, count=1)
    assert no_answer_odds(found.no_answer, found.spans[0].probability) == pytest.approx(1.5)
    assert no_answer_odds(1.0, 0.0) > 600  # and no error


@pytest.mark.parametrize(
    ("odds", "scores", "has", "expected"),
    [
        # Answered below 1: both answers right, the question without one refused.
        ([-3.0, 0.5, 2.0], [1.0, 1.0, 0.0], [1, 1, 0], 1.25),
        # Zero is as good as any threshold from -3 to 2.
        ([-3.0, 2.0], [1.0, 0.0], [1, 0], 0.0),
        # Refusing everything is best, and 0 does so; where it does not, below the lowest.
        ([1.0, 2.0], [0.0, 0.0], [0, 0], 0.0),
        ([-2.0, -1.0], [0.0, 0.0], [0, 0], -3.0),
        # Answering everything is best.
        ([1.0, 2.0], [1.0, 1.0], [1, 1], 3.0),
        # Equal odds stay together: 1 + 0 right whichever way, so 0 serves.
        ([1.0, 1.0], [1.0, 0.0], [1, 0], 0.0),
    ],
)
def test_the_best_threshold(
    odds: list[float], scores: list[float], has: list[int], expected: float
) -> None:
    found = best_threshold(odds, np.array(scores), np.array(has, dtype=bool))
    assert found == pytest.approx(expected)
