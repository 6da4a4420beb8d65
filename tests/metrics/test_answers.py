"""Exact match and F1 of answers, beside numbers worked out by hand from SQuAD's rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bothways.metrics.answers import AnswerScores, exact_match, normalised, word_f1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("An apple, a day", "apple day"),
        ("theatre", "theatre"),  # an article is a word, not a beginning
        ("well-known", "wellknown"),  # punctuation leaves no space
        ("a-the", "athe"),  # punctuation goes first, then articles
        ("$1,000.50", "100050"),
        ("«la Tour»", "«la tour»"),  # ASCII punctuation and English articles only
        ("长江。", "长江。"),
        ("", ""),
    ],
)
def test_normalised(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("predicted", "answer", "exact", "f1"),
    [
        ("Denver Broncos", "The Denver Broncos.", 1.0, 1.0),
        ("Broncos", "Denver Broncos", 0.0, 2 / 3),  # precision 1, recall 1/2
        ("red red blue", "red", 0.0, 0.5),  # one of three words, counted once
        ("red red", "red red red", 0.0, 0.8),  # precision 1, recall 2/3
        ("Carolina", "Denver Broncos", 0.0, 0.0),
        ("the", "", 1.0, 1.0),  # nothing is left of either
        ("the", "Denver", 0.0, 0.0),
        ("长江 三峡", "长江", 0.0, 2 / 3),
        ("长江三峡", "长江", 0.0, 0.0),  # without spaces all is one word
    ],
)
def test_scores_of_one_answer(predicted: str, answer: str, exact: float, f1: float) -> None:
    assert exact_match(predicted, answer) == exact
    assert word_f1(predicted, answer) == pytest.approx(f1)


def test_the_best_of_several_answers_counts_and_empty_ones_are_left_out() -> None:
    """Numbers as SQuAD 2.0's script gives them for these predictions: 40 exact, 66.67 F1."""
    predicted = ["Denver Broncos", "in 1990", "", "Ann", ""]
    answers = [["Broncos", "The Denver Broncos"], ["1990", "the 1990s"], [], [], ["Bo"]]
    scores = AnswerScores(predicted, answers)
    assert scores.exact.tolist() == [1, 0, 1, 0, 0]
    assert scores.f1.tolist() == pytest.approx([1, 2 / 3, 1, 0, 0])
    found = scores.scores(np.arange(5))
    assert found == pytest.approx(
        {
            "exact_match": 0.4,
            "f1": (1 + 2 / 3 + 1) / 5,
            "f1_has_answer": (1 + 2 / 3 + 0) / 3,
            "f1_no_answer": 0.5,
        }
    )


def test_an_answer_that_is_only_an_article_counts_as_none() -> None:
    scores = AnswerScores(["", "the"], [["a"], ["!"]])
    assert scores.exact.tolist() == [1, 1]


def test_both_kinds_are_named_only_where_both_occur() -> None:
    scores = AnswerScores(["x", ""], [["x"], []])
    assert set(scores.scores(np.array([0, 0]))) > {"f1_has_answer", "f1_no_answer"}
    assert math.isnan(scores.scores(np.array([0, 0]))["f1_no_answer"])
    alone = AnswerScores(["x"], [["x"]])
    assert set(alone.scores(np.array([0]))) == {"exact_match", "f1"}
