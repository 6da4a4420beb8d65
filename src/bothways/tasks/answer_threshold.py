"""When to say that there is no answer: a threshold that is chosen on labelled questions.

What is compared with it is log(no_answer / probability of the best span), which is the difference
of their scores, so that it does not depend on how many other spans there are.

Source: Devlin et al. 2019, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 1e-300


def no_answer_odds(no_answer: float, probability: float) -> float:
    """How much likelier no answer is than the best span, as a logarithm.

    Example:
        >>> no_answer_odds(0.5, 0.5)
        0.0
    """
    return math.log(max(no_answer, _SMALLEST)) - math.log(max(probability, _SMALLEST))


def best_threshold(
    odds: Sequence[float], scores: NDArray[np.float64], has_answer: NDArray[np.bool_]
) -> float:
    """The threshold with the best mean score; of equally good ones the nearest to 0.

    A question whose odds are above the threshold is said to have no answer: its score is then 1
    where that is right and 0 where it is not.

    Args:
        odds: of each question.
        scores: of each question where its best span is the answer.
        has_answer: whether it has one.

    Example:
        >>> best_threshold([-2.0, 4.0], np.array([1.0, 0.0]), np.array([True, False]))
        0.0
    """
    order = np.argsort(odds, kind="stable")
    ordered = np.asarray(odds, dtype=np.float64)[order]
    # Cut after none, one, two ... of the questions: those before the cut are answered.
    answered = np.concatenate([[0.0], np.cumsum(scores[order])])
    rightly_not = np.concatenate([np.cumsum(~has_answer[order][::-1])[::-1], [0]])
    lows, highs = np.append(-np.inf, ordered), np.append(ordered, np.inf)
    # Questions of equal odds stand on one side: a cut between them is none.
    totals = np.where(lows < highs, answered + rightly_not, -np.inf)
    best = np.flatnonzero(totals >= totals.max() - 1e-9)
    return min((_within(lows[cut], highs[cut]) for cut in best), key=abs)


def _within(low: float, high: float) -> float:
    """0 where it lies from low up to below high, else the middle, or 1 beside the only end."""
    if low <= 0.0 < high:
        return 0.0
    if math.isinf(low):
        return float(high - 1.0)
    return float(low + 1.0 if math.isinf(high) else (low + high) / 2)
