"""Bounds that hold for all looks together, and the order of candidates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom

from bothways.evaluation.intervals import Units
from bothways.ladder.deciding import Bar, bound, cheapest_first

# The bound comes from a bootstrap of 2,000 draws, whose variance is known to about 3 %.
BOOTSTRAP = 0.01
# Of 200 choices with 95 % confidence; more than 16 wrong ones would come by chance once in 100.
RESAMPLINGS, MOST_WRONG = 200, 16


def accuracy_bar(target: float, looks: int) -> Bar:
    return Bar("accuracy", target, 1, looks)


def lower(right: NDArray[np.float64], bar: Bar, seed: int = 0) -> float:
    found = bound(lambda some: float(right[some].mean()), Units.of(len(right)), bar, seed=seed)
    assert found.low is not None
    return found.low


@pytest.mark.parametrize("right", [100, 97, 80, 50])
@pytest.mark.parametrize("looks", [1, 12])
def test_a_share_has_the_exact_bound(right: int, looks: int) -> None:
    """At the bound, so many right ones or more have just the probability that is left for error."""
    outcomes = np.repeat([1.0, 0.0], [right, 100 - right])
    bar = accuracy_bar(0.5, looks)
    low = lower(outcomes, bar)
    at_bound = binom.sf(right - 1, 100, low - BOOTSTRAP)
    assert at_bound < 0.05 / looks < binom.sf(right - 1, 100, low + BOOTSTRAP)


def test_more_looks_lower_the_bound() -> None:
    outcomes = np.repeat([1.0, 0.0], [90, 10])
    lows = [lower(outcomes, accuracy_bar(0.8, looks)) for looks in (1, 6, 36)]
    assert lows == sorted(lows, reverse=True)
    assert lows[0] > lows[-1]


def test_examples_of_one_group_count_for_less() -> None:
    outcomes = np.repeat([1.0, 0.0], [160, 40])
    groups = [number // 10 for number in range(200)]
    bar = accuracy_bar(0.5, 1)
    grouped = bound(lambda some: float(outcomes[some].mean()), Units.of(200, groups), bar)
    assert grouped.low is not None
    assert grouped.low < lower(outcomes, bar) - 0.05


def test_where_less_is_better_the_upper_end_decides() -> None:
    errors = np.random.default_rng(0).exponential(size=400)
    bar = Bar("mae", 1.5, -1, 1)
    found = bound(lambda some: float(errors[some].mean()), Units.of(400), bar)
    assert found.high is not None
    assert bar.reached_by(found.high)
    assert not Bar("mae", 0.9, -1, 1).reached_by(found.high)


def test_over_resamplings_the_target_is_truly_met_as_often_as_is_said() -> None:
    """Three candidates, each a hair below the target or above; a choice below it is wrong.

    Their per-example correctness is stored for a large population, from which dev sets are drawn.
    Two seeds of each are looked at, and the better one on dev counts.
    """
    target, size = 0.8, 250
    generator = np.random.default_rng(0)
    ease = generator.random(20_000)
    truths = [0.785, 0.798, 0.86]
    runs = [
        [
            (0.7 * ease + 0.3 * generator.random(len(ease)) < _quantile(truth)).astype(float)
            for _ in range(2)
        ]
        for truth in truths
    ]
    bar = accuracy_bar(target, looks=6)
    wrong = chosen = 0
    for _ in range(RESAMPLINGS):
        dev = generator.integers(0, len(ease), size)
        for rung in runs:
            best = max(rung, key=lambda right: right[dev].mean())
            right = int(best[dev].sum())
            # What `bound` gives for independent examples; it is compared with this above.
            if beta.ppf(1 - bar.confidence, right, size - right + 1) >= target:
                chosen += 1
                wrong += best.mean() < target
                break
    assert chosen > RESAMPLINGS / 4
    assert wrong <= MOST_WRONG


def _quantile(share: float) -> float:
    """Below which so large a share of 0.7 U + 0.3 V lies, both uniform."""
    generator = np.random.default_rng(1)
    draws = 0.7 * generator.random(200_000) + 0.3 * generator.random(200_000)
    return float(np.quantile(draws, share))


def test_time_decides_the_order_and_size_where_times_are_equal() -> None:
    assert cheapest_first([3.0, 1.0, 2.0], [1.0, 3.0, 2.0]) == [1, 2, 0]
    assert cheapest_first([1.02, 1.0, 1.04], [1.0, 3.0, 2.0]) == [0, 2, 1]
    assert cheapest_first([1.1, 1.0], [1.0, 3.0]) == [1, 0]
