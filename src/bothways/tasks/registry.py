"""The tasks by name, and how to make one: new, or again from what a model folder stores.

A task's module is imported when the task is first asked for. What a task is, is in `task.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bothways.errors import CheckpointError, UsageError, nearest
from bothways.tasks.task import Task

# Name of `--task` -> module and class.
TASKS: dict[str, tuple[str, str]] = {
    "answer": ("bothways.tasks.answer", "AnswerTask"),
    "classify": ("bothways.tasks.classify", "ClassifyTask"),
    "multi-label": ("bothways.tasks.multi_label", "MultiLabelTask"),
    "embed": ("bothways.tasks.embed", "EmbedTask"),
    "tag": ("bothways.tasks.tag", "TagTask"),
    "multiple-choice": ("bothways.tasks.choice", "ChoiceTask"),
    "rerank": ("bothways.tasks.rerank", "RerankTask"),
    "relate": ("bothways.tasks.relate", "RelateTask"),
    "regress": ("bothways.tasks.regress", "RegressTask"),
}


def make_task(name: str, **settings: Any) -> Task[Any]:
    """A new task, before it has seen training examples.

    Args:
        name: one of `TASKS`.
        settings: fields of the task, such as `columns` and `pooling`.

    Raises:
        UsageError: for an unknown name or setting.

    Example:
        >>> make_task("classify", pooling="mean").name
        'classify'
    """
    kind = _task_class(name)
    known = [field.name for field in fields(kind)]
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        hints = "; ".join(f"{setting!r}: {nearest(setting, known)}" for setting in unknown)
        raise UsageError(f"the task {name!r} has no such setting: {hints}")
    task: Task[Any] = kind(**settings)
    return task


def task_from_state(state: Mapping[str, Any]) -> Task[Any]:
    """The task that `bothways.json` describes.

    Raises:
        CheckpointError: when it names no task, or one that is not built here.
    """
    if "name" not in state:
        raise CheckpointError(
            f"the stored task has no name; it has: {', '.join(sorted(state)) or 'nothing'}. "
            "The model folder was written by something else or is damaged"
        )
    try:
        kind = _task_class(str(state["name"]))
    except UsageError as error:
        raise CheckpointError(f"the model folder asks for a task unknown here: {error}") from error
    task: Task[Any] = kind.from_state(state)
    return task


def _task_class(name: str) -> Any:
    if name not in TASKS:
        raise UsageError(f"there is no task {name!r}; {nearest(name, TASKS)}")
    module, kind = TASKS[name]
    return getattr(importlib.import_module(module), kind)
