"""Scores of labels: accuracy, F1, the confusion matrix, the log loss.

Thin names over scikit-learn, and `Confusion`, the same scores from counts of (truth, prediction)
pairs, which is what a bootstrap can afford to call thousands of times. Scores of numbers and
vectors are in `similarity.py`; intervals are in `evaluation/intervals.py`.

A label's F1 counts in the macro mean when the label occurs, in the truth or in the predictions,
as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Labels = Sequence[str] | Sequence[int] | NDArray[np.int64]

# Probabilities below it count as it, so that a certain mistake costs much and not infinitely much.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class LabelScore:
    """How well one label is found.

    Attributes:
        label: its name.
        precision: share of its predictions that are right.
        recall: share of its examples that are found.
        f1: their harmonic mean.
        support: its examples.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def accuracy(truth: Labels, predicted: Labels) -> float:
    """Share of predictions that are right.

    Example:
        >>> accuracy(["a", "b", "b"], ["a", "b", "a"])
        0.6666666666666666
    """
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predicted))


def f1_macro(truth: Labels, predicted: Labels) -> float:
    """Mean of the labels' F1, each label counting the same."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, predicted, average="macro", zero_division=0))


def f1_micro(truth: Labels, predicted: Labels) -> float:
    """F1 of all decisions together; with one label a text it equals accuracy."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, predicted, average="micro", zero_division=0))


def label_scores(
    truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of each label, in the order given; 0 where there is nothing."""
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(
        truth, predicted, labels=list(labels), zero_division=0
    )
    return tuple(
        LabelScore(label, float(precision), float(recall), float(f1), int(support))
        for label, precision, recall, f1, support in zip(labels, *columns, strict=True)
    )


def confusion_matrix(
    truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
) -> NDArray[np.int64]:
    """Counts, (labels, labels): a row a true label, a column a predicted one."""
    from sklearn.metrics import confusion_matrix as matrix

    counts: NDArray[np.int64] = matrix(truth, predicted, labels=list(labels)).astype(np.int64)
    return counts


def log_losses(probabilities: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-entropy of each example, in nats, from the probability its true label was given."""
    given = np.asarray(probabilities, dtype=np.float64)
    losses: NDArray[np.float64] = -np.log(np.clip(given, SMALLEST_PROBABILITY, 1.0))
    return losses


class Confusion:
    """Pairs of true and predicted labels, ready to be counted over any subset of examples.

    Gives scikit-learn's numbers at a fraction of its time.

    Args:
        truth: true labels.
        predicted: as many predicted ones.
        labels: names of all that may occur.

    Example:
        >>> Confusion(["a", "b", "b"], ["a", "b", "a"], ["a", "b"]).scores()["accuracy"]
        0.6666666666666666
    """

    def __init__(
        self, truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
    ) -> None:
        self.size = len(labels)
        index = {label: number for number, label in enumerate(labels)}
        self._codes = np.array(
            [index[a] * self.size + index[b] for a, b in zip(truth, predicted, strict=True)],
            dtype=np.int64,
        )

    def counts(self, examples: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The confusion matrix of some examples, by index, repeats allowed; None for all."""
        codes = self._codes if examples is None else self._codes[examples]
        return np.bincount(codes, minlength=self.size**2).reshape(self.size, self.size)

    def scores(self, examples: NDArray[np.int64] | None = None) -> dict[str, float]:
        """accuracy, f1_macro and f1_micro of some examples, by index; None for all."""
        counts = self.counts(examples)
        f1, occurs = _f1(counts)
        share = float(np.trace(counts) / counts.sum())
        return {"accuracy": share, "f1_macro": float(f1[occurs].mean()), "f1_micro": share}

    def label_f1(self, examples: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """F1 of each label, (labels,); 0 where the label occurs nowhere."""
        return _f1(self.counts(examples))[0]


def _f1(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """F1 of each label of a confusion matrix, and which labels occur."""
    seen = counts.sum(0) + counts.sum(1)
    f1: NDArray[np.float64] = 2 * np.diagonal(counts) / np.maximum(seen, 1)
    return f1, seen > 0
