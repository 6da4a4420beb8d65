"""Scores of numbers and vectors: Spearman, Pearson, cosine.

Thin names over scipy and numpy. Scores of labels are in `classification.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.floating]


def spearman(truth: Numbers, predicted: Numbers) -> float:
    """Rank correlation, -1 to 1, ties sharing their mean rank; nan where one side is constant.

    Example:
        >>> round(spearman([1, 2, 3], [10, 20, 15]), 3)
        0.5
    """
    from scipy.stats import spearmanr

    return _correlation(spearmanr, truth, predicted)


def pearson(truth: Numbers, predicted: Numbers) -> float:
    """Linear correlation, -1 to 1; nan where one side is constant."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, truth, predicted)


def _correlation(method: Callable[..., Any], truth: Numbers, predicted: Numbers) -> float:
    """A scipy correlation; nan, without a warning, for a constant side or a single value."""
    from scipy.stats import ConstantInputWarning, NearConstantInputWarning

    if len(truth) < 2:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return float(method(truth, predicted).statistic)


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
