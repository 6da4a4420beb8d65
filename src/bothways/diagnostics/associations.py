"""Associations: which words go with which labels in the training texts, and how closely.

The measure is pointwise mutual information, in bits: by how many doublings a word makes a label
more frequent. It is smoothed towards 0 by texts that have the word and the usual shares of labels,
because rare words go with some label by chance.

Source: Church and Hanks 1990; of labels, Gururangan et al. 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.cues import features, tokens
from bothways.evaluation.result import Table
from bothways.tasks.texts import Texts

SMOOTHING = 10
LISTED_OF_LABEL = 3
LISTED = 60


@dataclass(frozen=True)
class Association:
    """A word and a label.

    Attributes:
        label, word: what goes together; of a pair, `second: not` is a word of the second text.
        texts: training texts that have the word.
        with_label: of these, texts of the label.
        information: pointwise mutual information in bits, smoothed.
    """

    label: str
    word: str
    texts: int
    with_label: int
    information: float


def associations(
    train: Sequence[Texts], targets: NDArray[np.float64], labels: Sequence[str]
) -> tuple[Association, ...]:
    """The words that tell most about each label, those that tell most first.

    What a word tells of a label is its information, times the texts that have both.

    Args:
        train: training texts.
        targets: (texts, labels) 1 where a text has a label, else 0.
        labels: their names.

    Example:
        >>> rows = [ClassifyExample("ah !")] * 9 + [ClassifyExample("ah")] * 9
        >>> found = associations(rows, np.eye(2)[[0] * 9 + [1] * 9], ["glad", "sad"])
        >>> found[0].label, found[0].word, found[0].with_label
        ('glad', '!', 9)
    """
    made = features(tokens, train)
    if made is None:
        return ()
    share: Any = np.maximum(targets.mean(0), 1e-9)
    texts = np.asarray(made.known.sum(0)).ravel()
    both = np.asarray(made.known.T @ targets)
    information = np.log2((both + SMOOTHING * share) / ((texts + SMOOTHING)[:, None] * share))
    told = both * information
    found = []
    for column, label in enumerate(labels):
        for word in np.argsort(-told[:, column], kind="stable")[:LISTED_OF_LABEL].tolist():
            if information[word, column] > 0:
                each = Association(
                    label,
                    made.names[word],
                    int(texts[word]),
                    int(both[word, column]),
                    float(information[word, column]),
                )
                found.append((float(told[word, column]), each))
    found.sort(key=lambda pair: -pair[0])
    return tuple(each for _, each in found[:LISTED])


def association_table(name: str, found: Sequence[Association]) -> Table:
    """Of the same, with a name."""
    rows = tuple(
        (each.label, each.word, each.texts, each.with_label, each.information) for each in found
    )
    columns = ("label", "word", "training texts with it", "of these, of the label", "bits")
    return Table(name, "Words that go with labels in the training texts", columns, rows)
