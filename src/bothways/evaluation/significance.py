"""Tests of whether two models differ on the same examples, or chance alone may explain it.

Each gives a two-sided p-value: how often two equally good models would differ by as much. How large
a difference is, with its interval, is `intervals.paired_difference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.intervals import RESAMPLES, Indices, Units

# Differences of less than this are one and the same, summed in another order.
ROUNDING = 1e-9


def mcnemar(only_first: int, only_second: int) -> float:
    """Whether one model is right more often, by McNemar's exact test.

    Examples that both get right, or both wrong, tell nothing; of the others each model would win
    half if they were equally good. The examples must be independent of each other.

    Args:
        only_first: examples that only the first model gets right.
        only_second: those that only the second does.

    Source: McNemar 1947, in its exact form.

    Example:
        >>> mcnemar(1, 6)
        0.125
    """
    from scipy.stats import binomtest

    differing = only_first + only_second
    return float(binomtest(only_first, differing).pvalue) if differing else 1.0


def swapped_sums(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """Whether two sums over the same units differ, by swapping the models within units at random.

    Args:
        first, second: (units,) what each unit adds to the score of each model.
        resamples: how often.
        seed: of the swaps.

    Source: Fisher 1935; for scores of texts Noreen 1989.
    """
    gaps = first - second
    sides = np.random.default_rng(seed).choice((-1.0, 1.0), (resamples, len(gaps)))
    return _share_as_large(sides @ gaps, gaps.sum())


def swapped_scores(
    score: Callable[[Indices], float],
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """The same for any score, such as an F1 or a correlation, which no sum makes up.

    Args:
        score: of predictions by index: those of the first model as the examples are numbered,
            those of the second, of n examples, from n on.
        units: of the n examples; a unit is swapped whole.
        resamples: how often.
        seed: of the swaps.
    """
    count = len(units.order)
    unit_of = np.repeat(np.arange(len(units)), np.diff(units.starts))
    generator = np.random.default_rng(seed)

    def gap(swapped: NDArray[np.bool_]) -> float:
        moved = count * swapped[unit_of]
        return score(units.order + moved) - score(units.order + count - moved)

    drawn = [gap(generator.random(len(units)) < 1 / 2) for _ in range(resamples)]
    return _share_as_large(np.array(drawn), gap(np.zeros(len(units), dtype=np.bool_)))


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for having looked at all of them.

    Source: Holm 1979.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values))
    largest = 0.0
    for rank, place in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        found[place] = largest
    corrected: list[float] = found.tolist()
    return corrected


def _share_as_large(drawn: NDArray[np.float64], seen: float) -> float:
    """Share of the differences that are as large as the one that was seen, which counts as one."""
    as_large = np.abs(drawn) >= abs(seen) - ROUNDING
    return float((1 + as_large.sum()) / (1 + len(drawn)))
