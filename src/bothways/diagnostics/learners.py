"""What a linear model on any features would predict, for each kind of task that has one.

Features are rows of a matrix: one an example, or one a choice where examples have choices. Which
features are asked about is in `cues.py` and `baseline.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.choosing import results_of_scores
from bothways.evaluation.linear import (
    INVERSE_REGULARISATION,
    linear_labels,
    linear_numbers,
    linear_shares,
)
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.marking import RelateExample
from bothways.tasks.multi_label import MultiLabelTask
from bothways.tasks.regress import numbers_of
from bothways.tasks.results import Result, ScoreResult
from bothways.tasks.task import Task
from bothways.tasks.texts import Texts

Fit = Callable[[Task[Any], Sequence[Any], Any, Sequence[Any], Any, float], Sequence[Result]]


@dataclass(frozen=True)
class Learner:
    """How simple models see a kind of task.

    Attributes:
        rows: the texts that features are made of.
        targets: (rows, outputs) what is to be told of each row, as numbers.
        fit: task, training examples, their features, examples, their features and the inverse of
            the regularisation to results.
        outputs: names of the targets' columns; None for the labels of the task.
    """

    rows: Callable[[Sequence[Any]], Sequence[Texts]]
    targets: Callable[[Task[Any], Sequence[Any]], NDArray[np.float64]]
    fit: Fit
    outputs: tuple[str, ...] | None = None

    def results(
        self,
        task: Task[Any],
        train: Sequence[Any],
        known: Any,
        examples: Sequence[Any],
        new: Any,
        *,
        strength: float = INVERSE_REGULARISATION,
    ) -> Sequence[Result]:
        """One result an example.

        Args:
            task: fitted.
            train: training examples.
            known: (rows of these, features).
            examples: to predict.
            new: (rows of these, features).
            strength: inverse of the regularisation.
        """
        return self.fit(task, train, known, examples, new, strength)

    def uninformed(
        self, task: Task[Any], train: Sequence[Any], examples: Sequence[Any]
    ) -> Sequence[Result]:
        """What is best said without looking: the shares, or the mean, of the training examples."""
        known, new = (np.zeros((len(self.rows(given)), 1)) for given in (train, examples))
        return self.results(task, train, known, examples, new)


def learner(task: Task[Any]) -> Learner | None:
    """Of a task; None where a linear model cannot do it."""
    return LEARNERS.get(task.name)


def _as_they_are(examples: Sequence[Any]) -> Sequence[Texts]:
    return examples


def _without_entities(examples: Sequence[RelateExample]) -> Sequence[Texts]:
    return [ClassifyExample(example.text) for example in examples]


def _choices(examples: Sequence[Any]) -> Sequence[Texts]:
    return [ClassifyExample(*pair) for example in examples for pair in example.pairs]


def _labels(task: Task[Any], examples: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([[label == e.label for label in task.labels] for e in examples], np.float64)


def _label_sets(task: Task[Any], examples: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([[label in e.labels for label in task.labels] for e in examples], np.float64)


def _numbers(task: Task[Any], examples: Sequence[Any]) -> NDArray[np.float64]:
    del task
    return numbers_of(examples).reshape(-1, 1)


def _right(task: Task[Any], examples: Sequence[Any]) -> NDArray[np.float64]:
    del task
    right = [index == e.label for e in examples for index in range(len(e.choices))]
    return np.array(right, np.float64).reshape(-1, 1)


def _fit_labels(
    task: Task[Any], train: Sequence[Any], known: Any, _: Sequence[Any], new: Any, strength: float
) -> Sequence[Result]:
    return linear_labels(known, [e.label for e in train], new, task.labels, strength=strength)


def _fit_label_sets(
    task: Task[Any], train: Sequence[Any], known: Any, _: Sequence[Any], new: Any, strength: float
) -> Sequence[Result]:
    plain = MultiLabelTask(labels=task.labels)
    truth = [set(example.labels) for example in train]
    shares = linear_shares(known, truth, new, task.labels, strength=strength)
    return [plain.result(row) for row in shares]


def _fit_numbers(
    task: Task[Any], train: Sequence[Any], known: Any, _: Sequence[Any], new: Any, strength: float
) -> Sequence[Result]:
    del task, strength
    return [ScoreResult(score) for score in linear_numbers(known, numbers_of(train), new).tolist()]


def _fit_choices(
    task: Task[Any],
    train: Sequence[Any],
    known: Any,
    examples: Sequence[Any],
    new: Any,
    strength: float,
) -> Sequence[Result]:
    right = [str(int(target)) for target in _right(task, train)[:, 0]]
    found = linear_labels(known, right, new, ("0", "1"), strength=strength)
    shares = np.clip([each.probabilities["1"] for each in found], 1e-9, 1 - 1e-9)
    return results_of_scores(examples, np.log(shares) - np.log1p(-shares))


LEARNERS: Mapping[str, Learner] = {
    "classify": Learner(_as_they_are, _labels, _fit_labels),
    "relate": Learner(_without_entities, _labels, _fit_labels),
    "multi-label": Learner(_as_they_are, _label_sets, _fit_label_sets),
    "regress": Learner(_as_they_are, _numbers, _fit_numbers, ("the number",)),
    "multiple-choice": Learner(_choices, _right, _fit_choices, ("right",)),
}
