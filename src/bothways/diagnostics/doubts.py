"""How surely labels are contradicted by their texts, and how many are wrong by that.

Two witnesses say which label a text has: the model, which has not seen the text, and a linear
discriminant of the frozen vectors that has seen all other texts with their labels, but not this
one. The less clear a text is, the more often the label that both prefer together is not the one
that was given; for texts that are perfectly clear that should never happen. Labels that are wrong
by accident do not become rarer there, so the share that remains is the share of wrong labels: the
lapses of a logistic curve. What is said about it is in `labels.py`.

Sources: confident learning asks the same of out-of-fold probabilities alone, Northcutt, Jiang and
Chuang 2021; lapses of a curve, Wichmann and Hill 2001; profile likelihood, Venzon and Moolgavkar
1988.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.intervals import Indices
from bothways.evaluation.result import Metric

Numbers = NDArray[np.float64]

# The least log-probability of a label, so that one witness cannot outvote the other for ever.
LEAST = -50.0
# Shares of wrong labels that are tried, and how much less likely one may be (half of the 95 %
# point of chi-squared with one degree of freedom).
SHARES = np.concatenate([[0.0], np.geomspace(0.001, 0.6, 80)])
LESS_LIKELY = 1.92
# Bounds of the curve: how fast contradictions get rarer, and how far the witnesses are too sure.
STEEPEST = 20.0
MOST_SHIFT = 6.0


@dataclass(frozen=True)
class Lapses:
    """How often clear texts are contradicted.

    Attributes:
        share: of labels that are wrong whatever the text says, with its interval.
        steepness, shift: of the curve for all others: sigmoid(shift - steepness * clearness).
    """

    share: Metric
    steepness: float
    shift: float

    def expected(self, clearness: Numbers) -> Numbers:
        """How often a label is contradicted, at each clearness."""
        return _curve(self.share.value, self.steepness, self.shift, clearness)


def out_of_fold(vectors: NDArray[np.floating], truth: Indices, folds: Indices) -> Numbers:
    """Log-probabilities of every label, each text by a discriminant of the other folds.

    Args:
        vectors: (examples, width).
        truth: (examples,) index of the given label; every index from 0 on occurs.
        folds: (examples,) of each.

    Returns:
        (examples, labels), at least LEAST each, which is what labels get that the other folds lack.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    spread = vectors.std(0)
    kept = vectors[:, spread > 0] / spread[spread > 0]
    found = np.full((len(truth), int(truth.max()) + 1), LEAST)
    for fold in np.unique(folds):
        known, new = folds != fold, folds == fold
        # One example of a label does not show how its texts vary.
        known &= np.isin(truth, np.flatnonzero(np.bincount(truth[known]) > 1))
        if len(np.unique(truth[known])) < 2 or not kept.shape[1]:
            continue
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        model.fit(kept[known], truth[known])
        with np.errstate(divide="ignore"):
            found[np.ix_(new, model.classes_)] = model.predict_log_proba(kept[new])
    floored: Numbers = np.maximum(found, LEAST)
    return floored


def clearness(log_probabilities: Numbers) -> tuple[Indices, Numbers]:
    """The label that is preferred, and by how much: its log-odds against all others together."""
    from scipy.special import logsumexp

    first = log_probabilities.argmax(1)
    others = log_probabilities.copy()
    others[np.arange(len(first)), first] = -np.inf
    return first, log_probabilities.max(1) - logsumexp(others, axis=1)


def lapses(clear: Numbers, contradicted: NDArray[np.bool_]) -> Lapses:
    """The share of labels that are contradicted however clear the text, with its 95 % interval.

    Args:
        clear: (examples,) log-odds of the preferred label.
        contradicted: (examples,) whether it is not the one that was given.

    Example:
        >>> clear = np.random.default_rng(0).uniform(0, 20, 2000)
        >>> wrong = np.random.default_rng(1).random(2000) < 1 / (1 + np.exp(clear))
        >>> wrong[::20] = True  # one label in twenty is wrong
        >>> found = lapses(clear, wrong).share
        >>> (found.low or 0) < 0.05 < (found.high or 0)
        True
    """
    wrong = contradicted.astype(np.float64)
    at = np.array([1.0, 0.0])
    losses, curves = np.empty(len(SHARES)), []
    for number, share in enumerate(SHARES.tolist()):
        losses[number], at = _fit(share, clear, wrong, at)
        curves.append(at)
    best = int(losses.argmin())
    steepness, shift = curves[best]
    low, high = _ends(losses - losses[best] - LESS_LIKELY)
    return Lapses(Metric(float(SHARES[best]), low, high), float(steepness), float(shift))


def _ends(above: Numbers) -> tuple[float, float]:
    """The least and the largest share that are likely enough, between the shares that were tried.

    Args:
        above: (shares,) how much too unlikely each is; negative is likely enough.
    """
    inside = np.flatnonzero(above <= 0)
    ends = []
    for at, beside in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
        end = SHARES[at]
        if 0 <= beside < len(SHARES):
            end += (SHARES[beside] - end) * above[at] / (above[at] - above[beside])
        ends.append(float(end))
    return ends[0], ends[1]


def _curve(share: float, steepness: float, shift: float, clear: Numbers) -> Numbers:
    from scipy.special import expit

    curve: Numbers = share + (1 - share) * expit(shift - steepness * clear)
    return curve


def _fit(share: float, clear: Numbers, wrong: Numbers, start: Numbers) -> tuple[float, Numbers]:
    """The negative log-likelihood at a share of wrong labels, and the likeliest curve there."""
    from scipy.optimize import minimize

    def loss(at: Numbers) -> tuple[float, Numbers]:
        both = np.clip(_curve(share, at[0], at[1], clear), 1e-12, 1 - 1e-12)
        plain = (both - share) / (1 - share)
        slope = (1 - share) * plain * (1 - plain) * ((1 - wrong) / (1 - both) - wrong / both)
        value = -(wrong * np.log(both) + (1 - wrong) * np.log(1 - both)).sum()
        return float(value), np.array([-(slope * clear).sum(), slope.sum()])

    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0, STEEPEST), (0, MOST_SHIFT)]
    )
    return float(found.fun), np.asarray(found.x, np.float64)
