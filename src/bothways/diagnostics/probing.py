"""What frozen vectors hold: a linear probe, nearest neighbours, and how the vectors lie in space.

Numbers in, numbers out. Which vectors are asked about is in `pooling.py` and `domain.py`. What is
large is multiplied by torch, which keeps to the threads that it was given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from bothways.evaluation.intervals import Indices, Units

Vectors = NDArray[np.float32]
FOLDS = 10
NEIGHBOURS = 5
# Of each text, how many of the nearest are counted where hubs are looked for.
HUB_NEIGHBOURS = 10
# Of the ridge, as multiples of the mean variance that the vectors have in a direction.
STRENGTHS = (0.01, 0.1, 1.0, 10.0)


def folds_of(units: Units, generator: np.random.Generator) -> Indices:
    """(examples,) a fold for each, those of a unit in the same.

    Example:
        >>> folds_of(Units.of(4, ["a", "b", "a", "b"]), np.random.default_rng(0)).tolist()
        [1, 0, 1, 0]
    """
    fold = np.empty(len(units.order), np.int64)
    drawn = generator.permutation(len(units)) % FOLDS
    fold[units.order] = np.repeat(drawn, np.diff(units.starts))
    return fold


def probe(vectors: Vectors, targets: NDArray[np.floating], folds: Indices) -> Vectors:
    """Ridge regression of each fold's targets, learned from the other folds.

    In closed form: one model of all examples, from which each fold is taken out again. Dimensions
    are standardised, and the strength of STRENGTHS with the least held-out error is taken.

    Args:
        vectors: (examples, width).
        targets: (examples, outputs).
        folds: (examples,) of each.

    Returns:
        (examples, outputs) predictions.

    Source: Hastie, Tibshirani and Friedman 2009, section 7.10, for one example at a time.
    """
    count, width = vectors.shape
    x = torch.from_numpy(vectors - vectors.mean(0))
    spread = x.square().mean(0).sqrt()
    x = x / torch.where(spread > 0, spread, 1.0)
    y = torch.from_numpy(np.asarray(targets, np.float32))
    mean = y.mean(0)
    y = y - mean
    products = x.T @ x
    places = [torch.from_numpy(np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
    best, error = y, float("inf")
    for strength in STRENGTHS:
        ridged = products + strength * count * torch.eye(width)
        solved = torch.cholesky_solve(x.T, torch.linalg.cholesky(ridged))
        missed = y - x @ (solved @ y)
        for those in places:
            own = x[those] @ solved[:, those] + 1 / count
            missed[those] = torch.linalg.solve(torch.eye(len(those)) - own, missed[those])
        if missed.square().sum() < error:
            best, error = y - missed, float(missed.square().sum())
    predicted: Vectors = (best + mean).numpy()
    return predicted


def similarities(vectors: Vectors, others: Vectors | None = None) -> Vectors:
    """(vectors, others) cosines, of each other without others; 0 beside a vector of nothing."""
    one = F.normalize(torch.from_numpy(vectors))
    other = one if others is None else F.normalize(torch.from_numpy(others))
    cosines: Vectors = (one @ other.T).numpy()
    return cosines


def neighbour_votes(cosines: Vectors, targets: NDArray[np.floating], folds: Indices) -> Vectors:
    """The mean targets of the NEIGHBOURS nearest examples outside the fold of each.

    Args:
        cosines: (examples, examples).
        targets: (examples, outputs).
        folds: (examples,) of each.
    """
    outside = np.where(folds[:, None] == folds[None], -np.inf, cosines)
    votes: Vectors = targets[_nearest(outside, NEIGHBOURS)].mean(1).astype(np.float32)
    return votes


@dataclass(frozen=True)
class Geometry:
    """How vectors lie in space.

    Attributes:
        cosine: mean of any two, of isotropic vectors 0.
        hubness: skewness of how often each is among the nearest of others; around 0 without hubs.
        dimensions: that hold the variance, had each as much of it.
    """

    cosine: float
    hubness: float
    dimensions: float


def geometry(vectors: Vectors, cosines: Vectors) -> Geometry:
    """Isotropy, hubness and effective dimension.

    Args:
        vectors: (examples, width), of at least two examples.
        cosines: of the same; see `similarities`.

    Source: Ethayarajh 2019 (cosines of random pairs); Radovanović et al. 2010 (hubness); the
    participation ratio of the variances, as Gao et al. 2017 use it.
    """
    from scipy.stats import skew

    count = len(vectors)
    off = ~np.eye(count, dtype=np.bool_)
    nearest = _nearest(np.where(off, cosines, -np.inf), HUB_NEIGHBOURS)
    often = np.bincount(nearest.ravel(), minlength=count)
    centred = torch.from_numpy(vectors - vectors.mean(0)).double()
    covariance = centred.T @ centred
    total = float(covariance.trace()) ** 2
    return Geometry(
        cosine=float(cosines[off].mean()),
        hubness=float(skew(often)) if often.min() < often.max() else 0.0,
        dimensions=total / float(covariance.square().sum()) if total else 0.0,
    )


def _nearest(cosines: Vectors, count: int) -> Indices:
    """(examples, count) the largest of each row, in any order."""
    count = min(count, cosines.shape[1] - 1)
    nearest: Indices = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    return nearest
