"""What clears the target, in which order candidates are tried, and which cannot win: pure rules.

A rung is cleared when the lower bound of its score on dev is at the target or above. The bound is
one-sided and holds for everything that was looked at on dev together: every candidate, with every
run of it, after every epoch (Bonferroni). So a choice among many is wrong no more often than a
choice of one would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from bothways.evaluation.intervals import CONFIDENCE, RESAMPLES, Indices, Units, of_many
from bothways.evaluation.result import Metric

# Metrics that grow with quality but are no share of anything.
NO_SHARES = ("spearman", "pearson")
# Latencies that differ by less are equal, and size decides: time is never measured exactly.
EQUAL_TIMES = 1.05


@dataclass(frozen=True)
class Bar:
    """What is good enough.

    Attributes:
        metric: what is compared.
        target: its value.
        direction: 1 where more is better, -1 where less is.
        looks: models that are looked at on dev, or may be.
    """

    metric: str
    target: float
    direction: int
    looks: int

    @property
    def confidence(self) -> float:
        """Of the bound of each look, so that all hold together with 95 %."""
        return of_many(self.looks, CONFIDENCE)

    def reached_by(self, value: float) -> bool:
        """Whether a score, or its bound, is good enough."""
        return (value - self.target) * self.direction >= 0


def bound(score: Callable[[Indices], float], units: Units, bar: Bar, *, seed: int = 0) -> Metric:
    """A score with the one-sided bound that it clears a bar by; the other end is its own.

    A share has the exact bound of Clopper and Pearson for as many independent examples as its
    bootstrap variance amounts to; of other scores it is a quantile of the bootstrap.

    Args:
        score: of some examples, by index.
        units: what is drawn.
        bar: direction and confidence.
        seed: of the draws.

    Returns:
        The score, with `low` and `high` the bounds of either side, each of the bar's confidence.

    Source: Korn and Graubard 1998, for the effective number of examples.

    Example:
        >>> right = np.repeat([1.0, 0.0], [90, 10])
        >>> bar = Bar("accuracy", 0.8, 1, looks=1)
        >>> found = bound(lambda some: right[some].mean(), Units.of(100), bar)
        >>> bar.reached_by(found.low)
        True
    """
    value, tail = float(score(units.order)), 1 - bar.confidence
    generator = np.random.default_rng(seed)
    count = RESAMPLES if len(units) > 1 else 0
    drawn = np.array([score(units.draw(generator)) for _ in range(count)], dtype=np.float64)
    drawn = drawn[np.isfinite(drawn)]
    if bar.direction == 1 and 0.0 <= value <= 1.0 and bar.metric not in NO_SHARES:
        return Metric(value, *_share_bounds(value, drawn, len(units), tail))
    if not len(drawn):
        return Metric(value, -np.inf, np.inf)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Metric(value, float(low), float(high))


def _share_bounds(value: float, drawn: np.ndarray, units: int, tail: float) -> tuple[float, float]:
    variance = float(drawn.var()) if len(drawn) else 0.0
    effective = float(units)
    if variance > 0.0 and 0.0 < value < 1.0:
        effective = min(value * (1 - value) / variance, effective)
    right = value * effective
    low = float(beta.ppf(tail, right, effective - right + 1)) if right > 0 else 0.0
    high = float(beta.ppf(1 - tail, right + 1, effective - right)) if right < effective else 1.0
    return low, high


def first_cleared(bounds: Sequence[float | None], bar: Bar) -> int | None:
    """Place of the first rung whose bound is good enough; None where none is.

    Args:
        bounds: of each rung, cheapest first; None where it was not tried.
        bar: what is good enough.
    """
    return next(
        (
            place
            for place, value in enumerate(bounds)
            if value is not None and bar.reached_by(value)
        ),
        None,
    )


def cheapest_first(times: Sequence[float], sizes: Sequence[float]) -> list[int]:
    """Places of candidates by cost: by time, and by size where times are as good as equal.

    Args:
        times: of a text, any unit.
        sizes: on the disk, any unit.

    Example:
        >>> cheapest_first([10.0, 2.0, 10.2], [300.0, 50.0, 200.0])
        [1, 2, 0]
    """
    by_time = sorted(range(len(times)), key=lambda place: (times[place], sizes[place]))
    groups: list[list[int]] = []
    for place in by_time:
        if groups and times[place] <= EQUAL_TIMES * times[groups[-1][0]]:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [place for group in groups for place in sorted(group, key=lambda each: sizes[each])]
