"""Cheap evidence: what it measures, and that only those who cannot win are left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from bothways.evaluation.intervals import of_many
from bothways.ladder.evidence import Asked, Evidence, ahead, logme, weigh, why_it_cannot_win
from bothways.ladder.frozen import Frozen

# Two maximisations of the same evidence, one of them numerical.
SAME_EVIDENCE = 1e-3


def frozen(signal: float, *, count: int = 300, width: int = 12, seed: int = 0) -> Frozen:
    """Vectors of three labels, with so much signal in the first dimensions."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    vectors = generator.normal(size=(count, width)).astype(np.float32)
    vectors[np.arange(count), labels] += signal
    return Frozen(vectors, np.eye(3, dtype=np.float32)[labels], np.arange(count), True)


def test_logme_is_the_largest_evidence_of_a_linear_model() -> None:
    """Beside the density of the targets, maximised over both variances."""
    found = frozen(0.7, count=40, width=5)
    vectors = found.vectors.astype(np.float64)

    def against(target: np.ndarray) -> float:
        def density(logs: np.ndarray) -> float:
            alpha, beta = np.exp(logs)
            covariance = np.eye(len(target)) / beta + vectors @ vectors.T / alpha
            return -float(multivariate_normal.logpdf(target, cov=covariance))

        return -float(minimize(density, [0.0, 0.0], method="Nelder-Mead").fun) / len(target)

    expected = np.mean([against(target) for target in found.targets.T.astype(np.float64)])
    assert logme(found.vectors, found.targets) == pytest.approx(expected, abs=SAME_EVIDENCE)


def test_more_signal_is_more_evidence_in_all_three() -> None:
    weak, strong = weigh(frozen(0.3), 300), weigh(frozen(2.0), 300)
    assert strong.ahead_of(weak)
    assert not weak.ahead_of(strong)
    assert strong.probe > 0.8
    assert np.mean(strong.each) == pytest.approx(strong.probe)


def test_rare_labels_count_as_much_as_frequent_ones() -> None:
    """A probe that always says the frequent label scores no more than chance."""
    generator = np.random.default_rng(0)
    labels = (np.arange(400) % 20 == 0).astype(int)
    vectors = generator.normal(size=(400, 4)).astype(np.float32)
    found = Frozen(vectors, np.eye(2, dtype=np.float32)[labels], np.arange(400), True)
    assert weigh(found, 400).probe == pytest.approx(0.5, abs=0.05)


def test_numbers_are_judged_by_what_is_explained_of_them() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(300, 4)).astype(np.float32)
    noise = generator.normal(size=300)
    targets = (vectors[:, 0] + 0.5 * noise).astype(np.float32).reshape(-1, 1)
    explained = weigh(Frozen(vectors, targets, np.arange(300), False), 300).probe
    assert explained == pytest.approx(0.8, abs=0.05)


def test_who_tells_no_more_than_random_weights_and_costs_no_less_is_left_out() -> None:
    useful, useless = weigh(frozen(2.0), 300), weigh(frozen(0.0), 300)
    twin = weigh(frozen(0.0, seed=1), 300)
    confidence = of_many(3)
    cheap, dear = Asked("cheap", 1.0, useful), Asked("dear", 2.0, useless)
    other = ahead(dear, [cheap], confidence)
    assert other is cheap
    why = why_it_cannot_win(dear, cheap, twin, confidence)
    assert why is not None
    assert "random weights" in why
    assert "cheap" in why


def test_who_tells_more_than_random_weights_is_never_left_out() -> None:
    best, fair = weigh(frozen(2.0), 300), weigh(frozen(0.8), 300)
    twin = weigh(frozen(0.0), 300)
    confidence = of_many(3)
    cheap, dear = Asked("cheap", 1.0, best), Asked("dear", 2.0, fair)
    assert ahead(dear, [cheap], confidence) is cheap
    assert why_it_cannot_win(dear, cheap, twin, confidence) is None


def test_who_costs_less_is_never_left_out() -> None:
    useful, useless = weigh(frozen(2.0), 300), weigh(frozen(0.0), 300)
    small, large = Asked("small", 1.0, useless), Asked("large", 2.0, useful)
    assert ahead(small, [large], of_many(3)) is None


def test_a_lead_within_chance_leaves_nobody_out() -> None:
    generator = np.random.default_rng(0)
    right = generator.random(200) < 0.7
    better = right.copy()
    better[np.flatnonzero(~right)[:2]] = True
    low, high = (
        Evidence(float(each.mean()), 0.5 + 0.1 * number, float(number), tuple(each.astype(float)))
        for number, each in enumerate((right, better))
    )
    assert high.ahead_of(low)
    assert ahead(Asked("b", 1.0, low), [Asked("a", 1.0, high)], of_many(3)) is None
