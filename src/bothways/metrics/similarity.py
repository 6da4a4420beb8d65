"""Scores of numbers and vectors: Spearman, Pearson, cosine.

Over scipy and numpy. Scores of labels are in `classification.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.floating]


def spearman(truth: Numbers, predicted: Numbers) -> float:
    """Rank correlation, -1 to 1, ties sharing their mean rank; nan where one side is constant.

    Example:
        >>> round(spearman([1, 2, 3], [10, 20, 15]), 3)
        0.5
    """
    from scipy.stats import rankdata

    return pearson(rankdata(truth), rankdata(predicted))


def pearson(truth: Numbers, predicted: Numbers) -> float:
    """Linear correlation, -1 to 1; nan where one side is constant.

    In numpy, because scipy's own takes ten times as long where resampling asks for thousands.
    """
    a, b = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1.0, 1.0))


class Correlations:
    """Both correlations of any of some values, by index, repeats allowed: what resampling asks.

    Args:
        truth, predicted: as many numbers.

    Example:
        >>> found = Correlations([1, 2, 3], [10, 20, 15]).scores(np.arange(3))
        >>> round(found["spearman"], 3)
        0.5
    """

    def __init__(self, truth: Numbers, predicted: Numbers) -> None:
        self._values = [np.asarray(side, np.float64) for side in (truth, predicted)]
        self._places = [np.unique(side, return_inverse=True)[1] for side in self._values]

    def scores(self, some: NDArray[np.int64]) -> dict[str, float]:
        """spearman and pearson of the values with these indices."""
        ranks = [_mean_ranks(places[some]) for places in self._places]
        truth, predicted = (side[some] for side in self._values)
        return {"spearman": pearson(*ranks), "pearson": pearson(truth, predicted)}


def _mean_ranks(places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ranks of values that are given by their place among all; equal ones share their mean."""
    counts = np.bincount(places)
    means: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[places]


def cosine(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosine of each row of one matrix with the same row of another; 0 beside a zero vector.

    Args:
        first: (n, dimension), or one vector (dimension,).
        second: of the same shape.

    Example:
        >>> cosine(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])).round(3)
        array([0.707])
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    products = np.einsum("...d,...d->...", a, b)
    result: NDArray[np.float64] = np.where(norms > 0, products / np.where(norms > 0, norms, 1), 0.0)
    return result
