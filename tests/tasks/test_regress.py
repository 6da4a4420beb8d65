"""Regression: numbers of cells, scaling, the head's units after training, scores."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from bothways.checkpoints.parts import adapt
from bothways.data.collate import Source, collate
from bothways.data.rows import Row
from bothways.errors import DataError, UsageError
from bothways.model.layout import Batch
from bothways.tasks.regress import RegressExample, RegressTask, scores_of
from bothways.tasks.results import ScoreResult
from bothways.tasks.task import Columns, Task
from tests.tasks.tiny import encoding, tiny_parts


def rows(*labels: str, column: str = "score") -> list[Row]:
    return [Row({"text": f"t{n}", column: label}, "a.csv", n + 2) for n, label in enumerate(labels)]


def labelled(*labels: float) -> list[RegressExample]:
    return [RegressExample(f"text {n}", label=label) for n, label in enumerate(labels)]


def scores(*values: float) -> list[ScoreResult]:
    return [ScoreResult(value) for value in values]


def batch(task: RegressTask, examples: list[RegressExample], *owners: int) -> Batch:
    """One sequence an owner; an owner that comes again has windows."""
    sources = [
        Source(owner, owners[:place].count(owner), encoding()) for place, owner in enumerate(owners)
    ]
    return collate(sources, task.targets(examples, sources))


def test_it_is_a_task() -> None:
    task: Task[RegressExample] = RegressTask()
    assert task.metric_directions[task.main_metric] == 1
    assert task.metric_directions["mae"] == -1


@pytest.mark.parametrize("column", ["score", "Rating", "label"])
def test_numbers_come_from_the_obvious_column(column: str) -> None:
    examples = RegressTask().read(rows("3", "-0.5", "1e2", column=column))
    assert [example.label for example in examples] == [3.0, -0.5, 100.0]
    assert examples[0] == RegressExample("t0", None, 3.0, "a.csv, line 2")


def test_cells_without_a_number_are_one_error_with_their_lines() -> None:
    with pytest.raises(DataError, match=r"no number: 5\n") as error:
        RegressTask().read(rows("1", "three", "nan", "inf", "1,5", "1_0"))
    for part in ("line 3: 'three'", "line 4: 'nan'", "line 6: '1,5'", "line 7: '1_0'"):
        assert part in str(error.value)


def test_numbers_outside_the_scale_are_one_error_with_their_lines() -> None:
    task = RegressTask(rating_scale=(0, 5))
    assert len(task.read(rows("0", "5"))) == 2
    with pytest.raises(DataError, match=r"outside the rating scale: 2\n  a.csv, line 3: 5.1"):
        task.read(rows("0", "5.1", "-1"))


@pytest.mark.parametrize("scale", [(1.0,), (5.0, 0.0), (1.0, 2.0, 3.0), (0.0, math.inf)])
def test_a_scale_has_a_least_and_a_greatest_number(scale: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="the rating scale is"):
        RegressTask(rating_scale=scale)


@pytest.mark.parametrize(("labels", "message"), [((), "no training"), ((2.0, 2.0), "label 2; ")])
def test_there_must_be_something_to_learn(labels: tuple[float, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        RegressTask().fit(labelled(*labels))


def test_targets_are_standardised_and_predictions_are_not() -> None:
    examples = labelled(10, 20, 30, 40)
    task = RegressTask().fit(examples)
    assert [task.mean, task.deviation] == pytest.approx([25, math.sqrt(125)])
    made = batch(task, examples, 0, 3)
    assert made.targets["label"].tolist() == pytest.approx([-15 / 125**0.5, 15 / 125**0.5])
    decoded = task.decode(torch.tensor([[0.0], [1.0]]), made)
    assert scores_of(decoded).tolist() == pytest.approx([25.0, 25 + 125**0.5])


def test_the_loss_is_of_texts_and_windows_share_their_mean() -> None:
    examples = labelled(0, 2)
    task = RegressTask().fit(examples)  # mean 1, deviation 1: targets -1 and 1
    made = batch(task, examples, 0, 1, 1)
    logits = torch.tensor([[-1.0], [2.0], [4.0]])
    loss, count = task.loss(logits, made)
    assert (float(loss), count) == ((3 - 1) ** 2, 2)
    assert task.decode(logits, made) == scores(0.0, 4.0)


def test_after_training_the_head_speaks_the_callers_units() -> None:
    examples = labelled(10, 20, 60)
    task = RegressTask().fit(examples)
    parts = tiny_parts()
    parts = adapt(parts, task.head(parts.config, ()), problem_type="regression")
    made = batch(task, examples, 0, 1, 2)
    assert parts.head is not None
    before = task.decode(parts.head(parts.encoder(made), made), made)
    finished = task.finish(parts.trained())
    assert finished.head is not None
    stored = RegressTask.from_state(task.state())
    after = stored.decode(finished.head(finished.encoder(made), made), made)
    assert scores_of(after).tolist() == pytest.approx(scores_of(before).tolist(), abs=1e-4)


def test_the_state_makes_the_task_again() -> None:
    task = RegressTask(Columns("a", "b", "c"), rating_scale=(1, 5)).fit(
        [RegressExample("x", "y", 1.0), RegressExample("x", "z", 4.0)]
    )
    again = RegressTask.from_state(task.state())
    assert again.scaled
    assert again.state() == task.state()
    assert again.pairs is True


def test_scores_by_hand() -> None:
    task = RegressTask()
    found = task.metrics(scores(10, 30, 20, 1000), labelled(1, 2, 3, 4))
    assert found["spearman"] == pytest.approx(0.8)  # 1 - 6 * 2 / (4 * 15)
    assert found["mae"] == pytest.approx((9 + 28 + 17 + 996) / 4)
    some = task.scorer(scores(1, 2, 9), labelled(1, 2, 3))(np.array([0, 1, 1]))
    assert some == pytest.approx({"spearman": 1.0, "pearson": 1.0, "mae": 0.0})


def test_predictions_that_are_all_the_same_correlate_with_nothing() -> None:
    found = RegressTask().metrics(scores(2, 2, 2), labelled(1, 2, 3))
    assert found == {"spearman": 0.0, "pearson": 0.0, "mae": pytest.approx(2 / 3)}


def test_examples_without_a_number_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="without a number: 1\n  b.csv, line 3"):
        RegressTask().metrics(
            scores(1, 2), [*labelled(1), RegressExample("x", place="b.csv, line 3")]
        )


def test_groups_are_resampled_together() -> None:
    assert RegressTask().units(labelled(1, 2)) is None
    grouped = [RegressExample("a", group="g"), RegressExample("b"), RegressExample("c", group="g")]
    assert RegressTask().units(grouped) == [("group", "g"), ("alone", 1), ("group", "g")]


def test_real_similarities(real_data: Path) -> None:
    from bothways.data.readers import read_rows

    file = real_data / "stsb" / "sts-dev.csv"
    task = RegressTask(Columns("6", "7", "5"), rating_scale=(0, 5))
    examples = task.read(read_rows(file, header=False, quoting=False))
    assert len(examples) == 1500
    assert examples[1] == RegressExample(
        "A young child is riding a horse.", "A child is riding a horse.", 4.75, f"{file}, line 2"
    )
