"""How good a model can look on labels that are partly wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bothways.ladder.ceiling import ceiling, contested, contradictory, store, stored
from bothways.ladder.deciding import Bar
from bothways.tasks.classify import ClassifyExample, ClassifyTask

COUNT, WRONG = 600, 0.2
# Of the share of wrong labels, on so many examples: two standard deviations.
MARGIN = 0.035


def examples(labels: NDArray[np.int64]) -> list[ClassifyExample]:
    return [
        ClassifyExample(f"text {n}", label=("bad", "good")[each]) for n, each in enumerate(labels)
    ]


def planted(wrong: float, skill: float) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
    """Labels, some turned over, and two models that know so much of the truth."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, COUNT)
    labels = np.where(generator.random(COUNT) < wrong, 1 - truth, truth)
    models = []
    for _ in range(2):
        sure = np.where(generator.random(COUNT) < skill, 0.85, generator.uniform(0.2, 0.6, COUNT))
        models.append(np.where(np.arange(2) == truth[:, None], sure[:, None], 1 - sure[:, None]))
    return labels, models


def bar(target: float) -> Bar:
    return Bar("accuracy", target, 1, 1)


def test_the_ceiling_of_wrong_labels_is_found_and_said() -> None:
    labels, models = planted(WRONG, skill=0.95)
    task = ClassifyTask(labels=("bad", "good"))
    found, other = ceiling(task, examples(labels), models, bar(0.95))
    assert found.score.value == pytest.approx(1 - WRONG, abs=MARGIN)
    assert (other >= 0).sum() == found.contested
    told = found.finding(bar(0.95))
    assert told.severity == "alarm"
    assert "lies beyond" in told.text


def test_right_labels_have_no_ceiling_worth_a_word() -> None:
    labels, models = planted(0.0, skill=0.95)
    task = ClassifyTask(labels=("bad", "good"))
    found, _ = ceiling(task, examples(labels), models, bar(0.95))
    assert found.score.value > 0.98
    assert found.finding(bar(0.95)).severity == "fine"


def test_what_one_model_alone_contradicts_is_not_contested() -> None:
    labels = np.array([0, 0, 1, 1])
    sure = np.array([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9]])
    calm = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    assert contested(labels, [sure]).tolist() == [-1, 1, -1, -1]
    assert contested(labels, [sure, calm]).tolist() == [-1, -1, -1, -1]
    assert contested(labels, [sure, sure]).tolist() == [-1, 1, -1, -1]


def test_texts_with_different_labels_are_counted() -> None:
    rows = [("a", "good"), ("a", "bad"), ("b", "good"), ("b", "good"), ("c", "bad")]
    assert contradictory([ClassifyExample(text, label=label) for text, label in rows]) == 1


def test_probabilities_survive_the_disk(tmp_path: Path) -> None:
    given = np.array([[0.25, 0.75]])
    store(tmp_path / "p.npy", given)
    found = stored(tmp_path / "p.npy")
    assert found is not None
    assert found.tolist() == given.tolist()
    assert stored(tmp_path / "nothing.npy") is None
