"""Tasks by name."""

from __future__ import annotations

import json

import pytest

from bothways.errors import CheckpointError, UsageError
from bothways.tasks.classify import ClassifyExample, ClassifyTask
from bothways.tasks.registry import TASKS, make_task, task_from_state
from bothways.tasks.task import Columns


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_registered_task_is_made_and_bears_its_name(name: str) -> None:
    assert make_task(name).name == name


def test_settings_reach_the_task() -> None:
    task = make_task("classify", pooling="mean", columns=Columns(text="body"))
    assert task == ClassifyTask(pooling="mean", columns=Columns(text="body"))


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no task 'clasify'; did you mean 'classify'"):
        make_task("clasify")


def test_unknown_settings_name_the_nearest() -> None:
    with pytest.raises(UsageError, match="'poling': did you mean 'pooling'"):
        make_task("classify", poling="mean")


def test_a_task_comes_back_from_its_state_as_json() -> None:
    examples = [
        ClassifyExample("one", "two", "NA"),
        ClassifyExample("three", "four", "01"),
        ClassifyExample("five", "six", "NA"),
    ]
    task = ClassifyTask(columns=Columns("a", "b", "c"), pooling="cls").fit(examples)
    again = task_from_state(json.loads(json.dumps(task.state())))
    assert again == task
    assert again.labels == ("01", "NA")


def test_a_state_without_a_name_or_with_an_unknown_one_is_refused() -> None:
    with pytest.raises(CheckpointError, match="has no name; it has: labels"):
        task_from_state({"labels": []})
    with pytest.raises(CheckpointError, match="unknown here: there is no task 'sing'"):
        task_from_state({"name": "sing"})


def test_another_problem_type_is_refused_not_guessed() -> None:
    """transformers#10232, #38219: multi-label models decoded with a softmax."""
    state = ClassifyTask(("a", "b")).state() | {"problem_type": "multi_label_classification"}
    with pytest.raises(CheckpointError, match="multi_label_classification"):
        task_from_state(state)
