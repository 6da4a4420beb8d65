"""95 % intervals by the percentile bootstrap, alone and for the difference of two models.

What is drawn again and again is a unit: an example, or a group of examples that belong together
(sentences of one document, questions on one paragraph), because examples of a group err together
and count for less than as many independent ones. A score is a function of example indices, so
that any metric can be resampled. Which metrics a task has is its own matter (`tasks/`).

Source: Efron and Tibshirani 1993, chapter 13; for paired differences Koehn 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.result import Metric

Indices = NDArray[np.int64]
Name = TypeVar("Name", bound=Hashable)

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Units:
    """What a bootstrap draws.

    Attributes:
        order: indices of the examples, those of a unit one after another.
        starts: (units + 1,) where each unit begins in `order`, and the end of the last.
    """

    order: Indices
    starts: Indices

    @classmethod
    def of(cls, count: int, groups: Sequence[Hashable] | None = None) -> Units:
        """Every example a unit, or every group of examples.

        Args:
            count: number of examples.
            groups: for each example the group it belongs to; None for no groups.

        Example:
            >>> len(Units.of(4, ["first", "second", "first", "first"]))
            2
        """
        if groups is None:
            return cls(np.arange(count), np.arange(count + 1))
        if len(groups) != count:
            raise ValueError(f"{len(groups)} groups for {count} examples; expected one each")
        members: dict[Hashable, list[int]] = {}
        for example, group in enumerate(groups):
            members.setdefault(group, []).append(example)
        sizes = [len(examples) for examples in members.values()]
        order = [example for examples in members.values() for example in examples]
        return cls(np.array(order, dtype=np.int64), np.array([0, *sizes]).cumsum())

    def __len__(self) -> int:
        """Number of units."""
        return len(self.starts) - 1

    def draw(self, generator: np.random.Generator) -> Indices:
        """Examples of as many units as there are, drawn with replacement."""
        units = generator.integers(0, len(self), len(self))
        if len(self) == len(self.order):
            alone: Indices = self.order[units]
            return alone
        begins = self.starts[units]
        sizes = self.starts[units + 1] - begins
        # Position within a unit: a running count minus where the unit began in it.
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        picked: Indices = self.order[np.repeat(begins, sizes) + inside]
        return picked


def intervals(
    scores: Callable[[Indices], Mapping[Name, float]],
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[Name, Metric]:
    """Each score on all examples, with its interval.

    Where no resample differs (a perfect score, a single unit), the bootstrap shows nothing, so
    there is no interval; see `of_perfect_share`.

    Args:
        scores: score by name of some examples, by index, repeats allowed.
        units: what to draw.
        resamples: how often.
        seed: of the draws; the same seed draws the same examples for every model.
        confidence: of the intervals; more where many are looked at, see `of_many`.

    Example:
        >>> right = np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 1])
        >>> found = intervals(lambda some: {"accuracy": right[some].mean()}, Units.of(10))
        >>> str(found["accuracy"])
        '0.700 [0.400, 1.000]'
    """
    if not len(units):
        raise ValueError("no examples, so there is nothing to score")
    full = scores(units.order)
    generator = np.random.default_rng(seed)
    drawn: dict[Name, list[float]] = {name: [] for name in full}
    for _ in range(resamples if len(units) > 1 else 0):
        for name, value in scores(units.draw(generator)).items():
            drawn[name].append(value)
    return {name: _metric(value, drawn[name], confidence) for name, value in full.items()}


def interval(
    score: Callable[[Indices], float],
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Metric:
    """One score with its interval; see `intervals`."""
    return intervals(
        lambda some: {"": score(some)},
        units,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    )[""]


def paired_difference(
    first: Callable[[Indices], float],
    second: Callable[[Indices], float],
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Metric:
    """First minus second, both on the same draws.

    An interval wholly above 0 shows that the first is better on data like this.

    Args:
        first, second: a score of two models on the same examples.
        units: what to draw.
        resamples: how often.
        seed: of the draws.
        confidence: of the interval.
    """
    return interval(
        lambda some: first(some) - second(some),
        units,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    )


def intervals_together(
    scores: Callable[[Indices], NDArray[np.float64]],
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> list[Metric]:
    """Several scores with intervals that all hold at once, however many are looked at.

    Each is as many standard errors wide as the resamples' farthest score is away from its own
    estimate. Where scores go up and down together that is less than `of_many` asks for, and it
    needs no resamples far out in the tail of each.

    Args:
        scores: (count,) scores of some examples, by index, repeats allowed; nan where one is
            not defined.
        units: what to draw.
        resamples: how often.
        seed: of the draws.
        confidence: that no interval misses.

    Source: Westfall and Young 1993, section 2.6; Romano and Wolf 2005.

    Example:
        >>> numbers = np.random.default_rng(0).normal(size=(100, 2))
        >>> one, both = (
        ...     intervals_together(lambda some: numbers[some, :count].mean(0), Units.of(100))
        ...     for count in (1, 2)
        ... )
        >>> (both[0].high or 0) > (one[0].high or 0)
        True
    """
    full = scores(units.order)
    generator = np.random.default_rng(seed)
    if len(units) < 2 or not len(full):
        return [Metric(float(value)) for value in full]
    drawn = np.array([scores(units.draw(generator)) for _ in range(resamples)])
    # Where no resample differs there is no error to measure by, and no interval.
    varies = (np.isfinite(drawn).sum(0) > 1) & np.isfinite(full)
    errors = np.full(len(full), np.nan)
    errors[varies] = np.nanstd(drawn[:, varies], axis=0)
    errors[errors == 0] = np.nan
    away = np.abs(drawn - full) / errors
    away = away[np.isfinite(away).any(1)]
    if not len(away):
        return [Metric(float(value)) for value in full]
    width = float(np.quantile(np.nanmax(away, axis=1), confidence))
    return [
        Metric(float(value), float(value - width * error), float(value + width * error))
        if np.isfinite(error)
        else Metric(float(value))
        for value, error in zip(full, errors, strict=True)
    ]


def of_many(count: int, confidence: float = CONFIDENCE) -> float:
    """The confidence of each of several intervals that are all to hold together (Bonferroni).

    Example:
        >>> round(of_many(5), 3)
        0.99
    """
    return 1 - (1 - confidence) / max(count, 1)


def of_perfect_share(metric: Metric, units: int) -> Metric:
    """A share of exactly 1 with the exact interval of all of all; any other metric as it is.

    The bootstrap cannot see beyond a perfect score, and three right of three is not certainty.

    Args:
        metric: an accuracy or an F1.
        units: what it rests on.

    Source: Clopper and Pearson 1934.

    Example:
        >>> str(of_perfect_share(Metric(1.0), 20))
        '1.000 [0.832, 1.000]'
    """
    if metric.value != 1.0 or metric.low is not None:
        return metric
    return Metric(1.0, ((1 - CONFIDENCE) / 2) ** (1 / units), 1.0)


def _metric(value: float, drawn: Sequence[float], confidence: float) -> Metric:
    """The estimate and the percentiles of its resamples."""
    kept = np.asarray(drawn, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    if not len(kept) or kept.min() == kept.max():
        return Metric(float(value))
    tail = (1 - confidence) / 2
    low, high = np.quantile(kept, [tail, 1 - tail])
    return Metric(float(value), float(low), float(high))
