"""Tests of differences: by hand where it can be done, else beside scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import permutation_test

from bothways.evaluation.intervals import Units
from bothways.evaluation.significance import holm, mcnemar, swapped_scores, swapped_sums

# Of 20,000 swaps: three standard errors of a share near 0.16.
SAMPLED = 0.0078
SWAPS = 20_000


@pytest.mark.parametrize(
    ("only_first", "only_second", "expected"),
    [
        (1, 6, 2 * (1 + 7) / 2**7),
        (0, 5, 2 / 2**5),
        (10, 2, 2 * (1 + 12 + 66) / 2**12),
        (4, 4, 1.0),
        (0, 0, 1.0),
    ],
)
def test_mcnemar_counts_the_examples_that_differ(
    only_first: int, only_second: int, expected: float
) -> None:
    assert mcnemar(only_first, only_second) == pytest.approx(expected)
    assert mcnemar(only_second, only_first) == pytest.approx(expected)


def test_swapping_sums_is_the_permutation_test_of_pairs() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=11), draw.normal(0.9, size=11)
    exact = permutation_test(
        (first, second),
        lambda one, other: one.sum() - other.sum(),
        permutation_type="samples",
        vectorized=False,
    )
    found = swapped_sums(first, second, resamples=SWAPS)
    assert 0.05 < exact.pvalue < 0.2
    assert found == pytest.approx(exact.pvalue, abs=SAMPLED)


def test_swapping_scores_agrees_with_swapping_sums_where_the_score_is_a_mean() -> None:
    draw = np.random.default_rng(1)
    first, second = (draw.random(60) < 0.6).astype(float), (draw.random(60) < 0.75).astype(float)
    both = np.concatenate([first, second])
    found = swapped_scores(lambda some: float(both[some].mean()), Units.of(60), resamples=4000)
    assert found == pytest.approx(swapped_sums(first, second, resamples=4000), abs=0.02)


def test_units_are_swapped_whole() -> None:
    """Ten copies of three examples are no thirty examples."""
    first, second = np.zeros(30), np.ones(30)
    both = np.concatenate([first, second])

    def score(some: np.ndarray) -> float:
        return float(both[some].mean())

    alone = swapped_scores(score, Units.of(30), resamples=500)
    groups = swapped_scores(score, Units.of(30, [n % 3 for n in range(30)]), resamples=4000)
    assert alone == pytest.approx(1 / 501)
    # All three units on one side: 2 of 8 ways.
    assert groups == pytest.approx(0.25, abs=0.03)


def test_equal_scores_show_nothing() -> None:
    same = np.array([0.1, 0.2, 0.3] * 20)
    assert swapped_sums(same, same[::-1].copy()) == 1.0


def test_chance_is_seldom_called_a_difference() -> None:
    """Of equally good models one in twenty has p below 0.05."""
    draw = np.random.default_rng(2)
    found = [
        swapped_sums(draw.normal(size=50), draw.normal(size=50), resamples=300, seed=seed)
        for seed in range(200)
    ]
    assert 0.01 <= np.mean(np.array(found) < 0.05) <= 0.10


def test_holm_corrects_for_how_many_were_looked_at() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
