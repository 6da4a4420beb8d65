"""Correlations and cosines, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from bothways.metrics.similarity import Correlations, cosine, pearson, spearman


def test_correlations_by_hand() -> None:
    # Ranks 1 2 3 4 against 1 3 2 4: 1 - 6 * 2 / (4 * 15).
    assert spearman([1, 2, 3, 4], [10, 30, 20, 1000]) == pytest.approx(0.8)
    assert pearson([0, 1, 2], [5, 7, 9]) == pytest.approx(1.0)
    assert pearson([0, 1, 2], [2, 1, 0]) == pytest.approx(-1.0)


def test_correlations_are_those_of_scipy() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 11, 200) / 2
    predicted = truth + generator.normal(size=200).round(1)
    assert pearson(truth, predicted) == pytest.approx(pearsonr(truth, predicted)[0], abs=1e-12)
    assert spearman(truth, predicted) == pytest.approx(spearmanr(truth, predicted)[0], abs=1e-12)


def test_correlations_of_resampled_values() -> None:
    generator = np.random.default_rng(1)
    truth = generator.integers(0, 6, 50) / 2
    predicted = (truth + generator.normal(size=50)).round(1)
    found = Correlations(truth, predicted)
    for some in (np.arange(50), generator.integers(0, 50, 50), np.array([3, 3, 7, 9, 11])):
        scores = found.scores(some)
        assert scores["spearman"] == pytest.approx(
            spearmanr(truth[some], predicted[some])[0], abs=1e-12
        )
        assert scores["pearson"] == pearson(truth[some], predicted[some])


def test_tied_values_share_their_mean_rank() -> None:
    assert spearman([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)
    # Ranks 1 2.5 2.5 4 against 1 2 3 4.
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(3 / math.sqrt(10), abs=1e-6)


@pytest.mark.parametrize("correlation", [spearman, pearson])
@pytest.mark.parametrize("sides", [([1, 1, 1], [1, 2, 3]), ([1, 2], [4, 4]), ([1], [1]), ([], [])])
def test_no_correlation_of_a_constant_side_and_no_warning(
    correlation: Callable[..., float], sides: tuple[list[float], list[float]]
) -> None:
    assert math.isnan(correlation(*sides))


def test_cosine_of_rows_and_of_single_vectors() -> None:
    first = np.array([[1.0, 0.0], [3.0, 4.0]])
    second = np.array([[0.0, 2.0], [6.0, 8.0]])
    assert cosine(first, second).tolist() == pytest.approx([0.0, 1.0])
    assert float(cosine(first[1], -second[1])) == pytest.approx(-1.0)


def test_cosine_beside_a_zero_vector_is_zero() -> None:
    assert cosine(np.zeros((2, 3)), np.ones((2, 3))).tolist() == [0.0, 0.0]


def test_cosine_does_not_overflow_in_half_precision() -> None:
    large = np.full((1, 4), 60_000, dtype=np.float16)
    assert cosine(large, large).tolist() == pytest.approx([1.0])
