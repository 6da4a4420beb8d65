"""The official score of SemEval-2010 task 8: macro F1 of the relations, directions counted.

Labels are `Relation(e1,e2)`, `Relation(e2,e1)`, or without a direction; "Other" is no relation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

OTHER = "Other"

_DIRECTION = re.compile(r"\((e1,e2|e2,e1)\)$")


def relation_of(label: str) -> str:
    """A label without its direction.

    Example:
        >>> relation_of("Cause-Effect(e2,e1)")
        'Cause-Effect'
    """
    return _DIRECTION.sub("", label)


class Relations:
    """Scores of any of some examples, by index, repeats allowed.

    For each relation but Other: an example is right when relation and direction are; precision is
    right ones among all predictions of the relation in either direction, recall among all true
    ones. The score is the mean of their F1; a relation with no right prediction has 0.

    Args:
        truth, predicted: a label an example.
        labels: all there are; the mean is over their relations, whether they occur or not.

    Source: the "(9+1)-way evaluation taking directionality into account", Hendrickx et al. 2010.

    Example:
        >>> truth = ["A(e1,e2)", "A(e1,e2)", "Other"]
        >>> found = Relations(truth, ["A(e1,e2)", "A(e2,e1)", "A(e1,e2)"], sorted(set(truth)))
        >>> round(found.score(), 2)  # precision 1/3, recall 1/2
        0.4
    """

    def __init__(
        self, truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
    ) -> None:
        names = sorted({relation_of(label) for label in labels} - {OTHER})
        # The place after the last relation takes all that is none.
        index = {name: number for number, name in enumerate(names)}
        self.relations = tuple(names)
        self._truth, self._predicted = (
            np.array([index.get(relation_of(label), len(names)) for label in side], dtype=np.int64)
            for side in (truth, predicted)
        )
        self._right = np.array(list(truth), dtype=object) == np.array(list(predicted), dtype=object)

    def f1(self, some: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """F1 of each relation, (relations,)."""
        chosen = np.arange(len(self._truth)) if some is None else some
        truth, predicted, right = self._truth[chosen], self._predicted[chosen], self._right[chosen]
        width = len(self.relations) + 1
        hits = np.bincount(truth[right], minlength=width)
        total = np.bincount(truth, minlength=width) + np.bincount(predicted, minlength=width)
        found: NDArray[np.float64] = 2 * hits / np.maximum(total, 1)
        return found[:-1]

    def score(self, some: NDArray[np.int64] | None = None) -> float:
        """The mean F1; nan where no label is a relation."""
        return float(self.f1(some).mean()) if self.relations else float("nan")
