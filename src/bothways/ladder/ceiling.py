"""How good any model can look on labels that are partly wrong.

A label is contested where every model that was tried says another one with confidence: more of it
than it gives that other label on average where it is the given one. If all contested labels are
wrong, a model that is always right reaches no more than the ceiling. Weak models contest hard
examples too, so the ceiling may be too low; it is an estimate, from labels that chose.

Source: Northcutt, Jiang and Chuang 2021, the confident joint, of several models that agree.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.errors import counted
from bothways.evaluation.intervals import Units, interval
from bothways.evaluation.result import Finding, Metric
from bothways.files import write_bytes
from bothways.ladder.deciding import Bar
from bothways.tasks.classify import label_result
from bothways.tasks.results import LabelResult, Result
from bothways.tasks.task import Task

Probabilities = NDArray[np.float64]
SHOWN = 20


@dataclass(frozen=True)
class Ceiling:
    """What a model that is always right would reach.

    Attributes:
        metric: of the target.
        score: with its 95 % interval.
        contested: examples whose labels every model contradicts.
        examples: that were looked at.
        contradictory: texts of the whole data that stand there with different labels.
    """

    metric: str
    score: Metric
    contested: int
    examples: int
    contradictory: int

    def finding(self, bar: Bar) -> Finding:
        """Whether the target lies beyond it."""
        end = self.score.high if self.score.high is not None else self.score.value
        beyond = not bar.reached_by(end)
        told = (
            f"Every model tried contradicts {self.contested} of {self.examples:,} labels of what "
            "chooses, with confidence. Were all of these wrong, a model that is always right would "
            f"reach {self.metric} {self.score}"
        )
        told += (
            f": the target of {bar.target:g} lies beyond what these labels can show. Read them, "
            "and correct them or lower the target."
            if beyond
            else f", and the target of {bar.target:g} is not beyond that."
        )
        if self.contradictory:
            stand = "stands" if self.contradictory == 1 else "stand"
            told += (
                f" {counted(self.contradictory, 'text')} {stand} in the data with different labels."
            )
        numbers: dict[str, float | int | str | None] = {
            "ceiling": self.score.value,
            "contested": self.contested,
        }
        return Finding("ceiling", "alarm" if beyond else "fine", told, numbers)


def contested(labels: NDArray[np.int64], found: Sequence[Probabilities]) -> NDArray[np.int64]:
    """For each example the other label that all models agree on, or -1.

    Args:
        labels: (examples,) as given.
        found: of each model, (examples, labels) probabilities.

    Example:
        >>> sure = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.2, 0.8]])
        >>> contested(np.array([0, 1, 1, 1]), [sure]).tolist()
        [-1, 0, -1, -1]
    """
    agreed: NDArray[np.int64] | None = None
    for probabilities in found:
        usual = np.array(
            [
                probabilities[labels == label, label].mean() if (labels == label).any() else 2.0
                for label in range(probabilities.shape[1])
            ]
        )
        sure = np.where(probabilities >= usual, probabilities, 0.0)
        other = np.where(sure.any(1), sure.argmax(1), -1)
        other = np.where(other == labels, -1, other)
        agreed = other if agreed is None else np.where(agreed == other, agreed, -1)
    return np.full(len(labels), -1) if agreed is None else agreed


def ceiling(
    task: Task[Any],
    examples: Sequence[Any],
    found: Sequence[Probabilities],
    bar: Bar,
    *,
    everything: Sequence[Any] = (),
    seed: int = 0,
) -> tuple[Ceiling, NDArray[np.int64]]:
    """The estimate, and the label that each example's own is contested by, or -1.

    Args:
        task: with one label an example.
        examples: labelled, that the models have not learned from.
        found: what each model says of them.
        bar: names the metric.
        everything: all examples, among which the same text may have different labels.
        seed: of the resampling.
    """
    index = {label: number for number, label in enumerate(task.labels)}
    labels = np.array([index[example.label] for example in examples])
    other = contested(labels, found)
    truth = np.where(other < 0, labels, other)
    right: list[Result] = [label_result(task.labels, np.eye(len(index))[each]) for each in truth]
    scorer, units = task.scorer(right, examples), Units.of(len(examples), task.units(examples))
    score = interval(lambda some: scorer(some)[bar.metric], units, seed=seed)
    number = int((other >= 0).sum())
    return Ceiling(bar.metric, score, number, len(examples), contradictory(everything)), other


def contradictory(examples: Sequence[Any]) -> int:
    """How many texts stand among examples with different labels."""
    labels: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for example in examples:
        labels[example.text, example.pair].add(str(example.label))
    return sum(len(found) > 1 for found in labels.values())


def probabilities_of(results: Sequence[Result], labels: Sequence[str]) -> Probabilities | None:
    """(examples, labels) of a model's predictions; None where they are not of one label each."""
    rows = [
        [result.probabilities[label] for label in labels]
        for result in results
        if isinstance(result, LabelResult)
    ]
    return np.array(rows) if rows and len(rows) == len(results) else None


def store(path: Path, probabilities: Probabilities) -> None:
    """Write probabilities in half precision, which is enough to contest labels by."""
    out = io.BytesIO()
    np.save(out, probabilities.astype(np.float16))
    write_bytes(path, out.getvalue())


def stored(path: Path) -> Probabilities | None:
    """What `store` wrote; None where it wrote nothing."""
    if not path.exists():
        return None
    found: Probabilities = np.load(path, allow_pickle=False).astype(np.float64)
    return found
