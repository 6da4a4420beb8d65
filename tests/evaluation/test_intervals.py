"""Bootstrap intervals: their coverage, their units, their speed."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from bothways.evaluation.intervals import (
    Units,
    interval,
    intervals,
    of_many,
    of_perfect_share,
    paired_difference,
)
from bothways.evaluation.result import Metric
from bothways.metrics.classification import Confusion

Array = NDArray[np.float64]

# Of simulated samples, each with its interval. The percentile interval of a mean of 100 covers
# 94.5 % or so; the bounds are three deviations of a share of 300 about that.
SAMPLES, COVERAGE = 300, (0.90, 0.98)
# Fewer than usual, which is enough here.
RESAMPLES = 300


def covers(metric: Metric, value: float) -> bool:
    assert metric.low is not None
    assert metric.high is not None
    return metric.low <= value <= metric.high


def mean_of(values: Array, some: NDArray[np.int64]) -> float:
    return float(values[some].mean())


def mean_interval(values: Array, units: Units, seed: int = 0) -> Metric:
    return interval(partial(mean_of, values), units, resamples=RESAMPLES, seed=seed)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    covered = [
        covers(mean_interval((generator.random(100) < 0.8).astype(float), Units.of(100)), 0.8)
        for _ in range(SAMPLES)
    ]
    assert COVERAGE[0] < np.mean(covered) < COVERAGE[1]


def test_drawing_groups_covers_where_drawing_examples_does_not() -> None:
    """Examples of one document err together: the unit must be the document."""
    generator = np.random.default_rng(2)
    groups = np.repeat(np.arange(60), 5)
    by_group, by_example = [], []
    for _ in range(SAMPLES):
        # Each document is wholly right or wholly wrong.
        values = (generator.random(60) < 0.7).astype(float)[groups]
        by_group.append(covers(mean_interval(values, Units.of(300, groups.tolist())), 0.7))
        by_example.append(covers(mean_interval(values, Units.of(300)), 0.7))
    assert np.mean(by_group) > COVERAGE[0]
    assert np.mean(by_example) < 0.75


def test_a_paired_difference_sees_what_two_intervals_do_not() -> None:
    generator = np.random.default_rng(3)
    first = (generator.random(400) < 0.7).astype(float)
    # The second is right wherever the first is, and on 12 more.
    second = first.copy()
    second[np.flatnonzero(first == 0)[:12]] = 1
    units = Units.of(400)
    one, other = mean_interval(first, units), mean_interval(second, units)
    assert one.high is not None
    assert other.low is not None
    assert one.high > other.low
    gain = paired_difference(partial(mean_of, second), partial(mean_of, first), units)
    assert gain.value == pytest.approx(0.03)
    assert gain.low is not None
    assert gain.low > 0


def test_the_difference_of_equals_covers_zero() -> None:
    generator = np.random.default_rng(4)
    first, second = generator.random((2, SAMPLES, 100)) < 0.5
    units = Units.of(100)
    covered = []
    for one, other in zip(first.astype(float), second.astype(float), strict=True):
        difference = paired_difference(
            partial(mean_of, one), partial(mean_of, other), units, resamples=RESAMPLES
        )
        covered.append(covers(difference, 0.0))
    assert COVERAGE[0] < np.mean(covered) < COVERAGE[1]


def test_intervals_of_many_hold_together() -> None:
    generator = np.random.default_rng(3)
    units, sure, wrong = Units.of(60), of_many(5), 0
    for seed in range(100):
        values = generator.normal(size=(5, 60))
        means = [partial(mean_of, row) for row in values]
        nothing = partial(mean_of, np.zeros(60))
        found = [
            paired_difference(mean, nothing, units, resamples=600, seed=seed, confidence=sure)
            for mean in means
        ]
        wrong += not all(covers(metric, 0.0) for metric in found)
    assert wrong <= 12


def test_a_draw_takes_whole_groups_with_all_their_examples() -> None:
    groups = ["b", "a", "b", "c", "b", "a"]
    units = Units.of(6, groups)
    assert len(units) == 3
    members = {0: {0, 2, 4}, 1: {1, 5}, 2: {3}}
    generator = np.random.default_rng(5)
    sizes = set()
    for _ in range(50):
        drawn = units.draw(generator).tolist()
        sizes.add(len(drawn))
        for member in members.values():
            assert len({drawn.count(example) for example in member}) == 1
        assert sum(drawn.count(min(member)) for member in members.values()) == 3
    # Draws differ in size, as groups do.
    assert {3, 9} <= sizes


def test_every_unit_is_drawn_equally_often() -> None:
    units = Units.of(10)
    generator = np.random.default_rng(6)
    counts = np.bincount(np.concatenate([units.draw(generator) for _ in range(2000)]))
    # 2,000 expected of each, deviation 42.
    assert np.abs(counts - 2000).max() < 5 * 42


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = np.random.default_rng(7).random(50)
    first, again = mean_interval(values, Units.of(50)), mean_interval(values, Units.of(50))
    assert first == again
    assert mean_interval(values, Units.of(50), seed=1) != first


def test_several_scores_share_their_draws() -> None:
    values = np.random.default_rng(8).random(50)
    found = intervals(
        lambda some: {"mean": float(values[some].mean()), "double": 2 * float(values[some].mean())},
        Units.of(50),
        resamples=RESAMPLES,
    )
    assert found["double"].low == 2 * (found["mean"].low or 0)
    assert found["mean"] == mean_interval(values, Units.of(50))


def test_no_interval_where_the_bootstrap_shows_nothing() -> None:
    ones = np.ones(20)
    assert mean_interval(ones, Units.of(20)) == Metric(1.0)
    assert mean_interval(np.array([0.5]), Units.of(1)) == Metric(0.5)


def test_a_perfect_share_has_its_exact_interval() -> None:
    metric = of_perfect_share(Metric(1.0), 20)
    # 20 of 20 right: 0.025 ** (1 / 20), as in tables of Clopper and Pearson.
    assert metric.low == pytest.approx(0.8316, abs=1e-4)
    assert metric.high == 1.0
    for other in (Metric(0.9, 0.8, 1.0), Metric(0.0), Metric(1.0, 0.9, 1.0)):
        assert of_perfect_share(other, 20) == other


def test_resamples_without_a_value_are_left_out() -> None:
    values = np.array([1.0, 2.0, 3.0])

    def odd(some: NDArray[np.int64]) -> float:
        return float("nan") if 0 in some else float(values[some].mean())

    found = interval(odd, Units.of(3), resamples=100)
    assert np.isnan(found.value)
    assert found.low is not None
    assert found.low >= 2


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="no examples"):
        mean_interval(np.empty(0), Units.of(0))
    with pytest.raises(ValueError, match="2 groups for 3 examples"):
        Units.of(3, ["a", "b"])


def test_two_thousand_resamples_of_three_thousand_examples_take_under_two_seconds() -> None:
    generator = np.random.default_rng(9)
    labels = [str(number) for number in range(77)]
    confusion = Confusion(
        generator.choice(labels, 3000).tolist(), generator.choice(labels, 3000).tolist(), labels
    )
    start = time.process_time()
    intervals(confusion.scores, Units.of(3000), resamples=2000)
    assert time.process_time() - start < 2
