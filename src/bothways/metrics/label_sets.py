"""Scores of sets of labels: F1, average precision, exact sets, and thresholds that suit.

Everything counts weighted examples, so that a bootstrap can ask thousands of times. Single labels
are in `classification.py`.

Dimension letters: n examples, C labels.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bothways.metrics.classification import SMALLEST_PROBABILITY

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


class LabelSets:
    """True and predicted sets, and the probability of each label, (n, C) each.

    A label's F1 counts in the macro mean when it occurs, in the truth or in the predictions; its
    average precision when it occurs in the truth.

    Args:
        truth: whether each example has each label.
        predicted: whether that was said.
        probabilities: of each label.

    Example:
        >>> some = np.array([[1, 0], [1, 1]], dtype=bool)
        >>> LabelSets(some, some, some.astype(float)).scores()["f1_micro"]
        1.0
    """

    def __init__(self, truth: Flags, predicted: Flags, probabilities: Floats) -> None:
        self.truth, self.predicted, self.probabilities = truth, predicted, probabilities
        # (3, n, C): right, said, true; sums of these are all that F1 needs.
        self._counted = np.stack([truth & predicted, predicted, truth]).astype(np.float64)
        self.exact = (truth == predicted).all(1)
        chosen = np.where(truth, probabilities, 1.0 - probabilities)
        self._losses = -np.log(np.clip(chosen, SMALLEST_PROBABILITY, 1.0)).mean(1)

    @cached_property
    def _ranking(self) -> tuple[NDArray[np.int64], ...]:
        """Examples of each label by falling probability, and where each true one stands.

        Returns:
            order (n, C); for each true pair its label, its example, and the last place of the
            examples that share its probability.
        """
        order = np.argsort(-self.probabilities, axis=0, kind="stable")
        labels, examples, ends = [], [], []
        for label in range(self.truth.shape[1]):
            ranked = -self.probabilities[order[:, label], label]
            places = np.flatnonzero(self.truth[order[:, label], label])
            labels.append(np.full(len(places), label))
            examples.append(order[places, label])
            ends.append(np.searchsorted(ranked, ranked[places], side="right") - 1)
        joined = [np.concatenate(part).astype(np.int64) for part in (labels, examples, ends)]
        return (order, *joined)

    def scores(self, examples: NDArray[np.int64] | None = None) -> dict[str, float]:
        """average_precision, f1_micro, f1_macro, accuracy and loss of some examples, by index.

        Args:
            examples: repeats allowed; None for all.
        """
        weights = self._weights(examples)
        counts = np.einsum("knc,n->kc", self._counted, weights, optimize=True)
        right, said, true = counts.sum(1)
        f1, occurs = _f1(counts)
        precision = self._average_precision(weights)
        known = precision[~np.isnan(precision)]
        total = weights.sum()
        return {
            "average_precision": float(known.mean()) if len(known) else 0.0,
            "f1_micro": float(2 * right / (said + true)) if said + true else 0.0,
            "f1_macro": float(f1[occurs].mean()) if occurs.any() else 0.0,
            "accuracy": float(self.exact @ weights / total),
            "loss": float(self._losses @ weights / total),
        }

    def label_f1(self, examples: NDArray[np.int64] | None = None) -> Floats:
        """F1 of each label, (C,); 0 where it occurs nowhere."""
        weights = self._weights(examples)
        return _f1(np.einsum("knc,n->kc", self._counted, weights, optimize=True))[0]

    def label_average_precision(self) -> Floats:
        """Average precision of each label, (C,); nan where none is true."""
        return self._average_precision(np.ones(len(self.truth)))

    def counts(self) -> NDArray[np.int64]:
        """For each label how often it was right, said and true, (3, C)."""
        counts: NDArray[np.int64] = self._counted.sum(1).astype(np.int64)
        return counts

    def _weights(self, examples: NDArray[np.int64] | None) -> Floats:
        if examples is None:
            return np.ones(len(self.truth))
        return np.bincount(examples, minlength=len(self.truth)).astype(np.float64)

    def _average_precision(self, weights: Floats) -> Floats:
        """Precision at the rank of each true example, examples of one probability together."""
        order, labels, members, ends = self._ranking
        found = np.zeros_like(order, dtype=np.float64)
        ranked = weights[order]  # (n, C)
        np.cumsum(ranked, axis=0, out=ranked)
        true = np.take_along_axis(self.truth, order, 0) * weights[order]
        np.cumsum(true, axis=0, out=found)
        below = ranked[ends, labels]
        gains = weights[members] * found[ends, labels] / np.where(below > 0, below, 1.0)
        size = self.truth.shape[1]
        sums = np.bincount(labels, gains, minlength=size)
        positives = np.bincount(labels, weights[members], minlength=size)
        precision: Floats = np.full(size, np.nan)
        np.divide(sums, positives, out=precision, where=positives > 0)
        return precision


def best_threshold(probabilities: Floats, truth: Flags, *, default: float = 0.5) -> float:
    """The probability from which a label should be said, for the best F1 on these examples.

    Half-way between two neighbours that it tells apart; of equally good ones that nearest to the
    default.

    Args:
        probabilities: of the label, (n,).
        truth: whether each example has it.
        default: where no example has it.

    Example:
        >>> best_threshold(np.array([0.1, 0.2, 0.4]), np.array([False, True, True]))
        0.15000000000000002
    """
    if not truth.any():
        return default
    order = np.argsort(-probabilities, kind="stable")
    ranked, right = probabilities[order], np.cumsum(truth[order])
    said = np.arange(1, len(ranked) + 1)
    # A threshold lies below a place whose next is less probable; below the last one too.
    after = np.append(ranked[1:], -1.0)
    places = np.flatnonzero(ranked > after)
    f1 = 2 * right[places] / (said[places] + truth.sum())
    middles = (ranked[places] + after[places].clip(min=0.0)) / 2
    best = np.flatnonzero(f1 == f1.max())
    # Where the default lies between the same two neighbours, it is as good.
    inside = (after[places] < default) & (default <= ranked[places])
    if inside[best].any():
        return default
    return float(middles[best[np.argmin(np.abs(middles[best] - default))]])


def _f1(counts: Floats) -> tuple[Floats, Flags]:
    """F1 of each label from (right, said, true), and which labels occur."""
    right, said, true = counts
    seen = said + true
    f1: Floats = 2 * right / np.where(seen > 0, seen, 1.0)
    return f1, seen > 0
