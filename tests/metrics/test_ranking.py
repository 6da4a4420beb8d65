"""Scores of rankings: by hand, and against scikit-learn where nothing is tied."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from bothways.metrics.ranking import (
    by_score,
    mean_score,
    ndcg,
    ranking_scores,
    recall,
    reciprocal_rank,
    scores_of_rankings,
)


def test_ndcg_by_hand() -> None:
    best = 3 / math.log2(2) + 1 / math.log2(3)
    assert ndcg([1, 0, 3], [3, 1]) == pytest.approx((1 + 3 / math.log2(4)) / best)
    # What was judged and not found counts in the best that can be had, what is too deep does not.
    assert ndcg([1], [3, 1]) == pytest.approx(1 / best)
    assert ndcg([0] * 10 + [3], [3, 1]) == 0.0
    assert ndcg([1] * 10, [1] * 12) == 1.0


def test_ndcg_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        gains, scores = generator.integers(0, 5, 30), generator.permutation(30)
        ours = ndcg(gains[by_score(scores, gains)], gains)
        assert ours == pytest.approx(ndcg_score([gains], [scores], k=10), abs=1e-12)


def test_first_relevant_rank_and_recall() -> None:
    assert reciprocal_rank([0, 0, 2, 1], [2, 1]) == pytest.approx(1 / 3)
    assert reciprocal_rank([0] * 10 + [1], [1]) == 0.0
    assert recall([0, 1, 0, 2], [1, 2, 1, 0]) == pytest.approx(2 / 3)
    assert recall([0] * 100 + [1], [1]) == 0.0


def test_equal_scores_gain_nothing_from_their_order() -> None:
    gains = [1, 0, 0]
    constant = by_score([0.5, 0.5, 0.5], gains)
    assert np.array(gains)[constant].tolist() == [0, 0, 1]
    assert by_score([0.1, 0.9, 0.9], gains).tolist() == [1, 2, 0]


def test_nothing_relevant_is_no_score_and_left_out_of_the_mean() -> None:
    assert all(math.isnan(value) for value in ranking_scores([0, 0], [0, 0]).values())
    found = scores_of_rankings(
        {"a": ["x", "y"], "b": ["x"], "c": ["y", "x"]}, {"a": {"y": 2.0}, "c": {"y": 1.0}}
    )
    assert found["mrr_at_10"].tolist() == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)
    assert mean_score(found["mrr_at_10"]) == 0.75
    assert mean_score(found["mrr_at_10"], [3, 1, 1]) == pytest.approx((1.5 + 1) / 4)
    assert math.isnan(mean_score([math.nan]))
