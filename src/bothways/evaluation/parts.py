"""What the evaluation of one kind of task adds to the scores: rivals, findings, tables, figures.

A task that is not in `PARTS` is judged by its metrics alone. Each function stands in the file of
its kind and is imported when a task of that kind is judged.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bothways.evaluation.intervals import RESAMPLES
from bothways.evaluation.result import Figure, Finding, Table
from bothways.tasks.results import Result
from bothways.tasks.task import Task

# Name of a task -> module and function with the signature of `parts_of`.
PARTS: dict[str, tuple[str, str]] = {
    "answer": ("bothways.evaluation.answering", "answering_parts"),
    "classify": ("bothways.evaluation.classification", "classification_parts"),
    "multi-label": ("bothways.evaluation.multi_label", "multi_label_parts"),
    "embed": ("bothways.evaluation.embedding", "embedding_parts"),
    "retrieval": ("bothways.evaluation.retrieval", "retrieval_parts"),
    "tag": ("bothways.evaluation.tagging", "tagging_parts"),
    "multiple-choice": ("bothways.evaluation.choosing", "choosing_parts"),
    "rerank": ("bothways.evaluation.reranking", "reranking_parts"),
    "relate": ("bothways.evaluation.relating", "relating_parts"),
    "regress": ("bothways.evaluation.regression", "regression_parts"),
}


@dataclass(frozen=True)
class Parts:
    """Additions to a report.

    Attributes:
        rivals: predictions of each trivial baseline, one an example, which get the same metrics.
        findings: what was found, in words.
        tables, figures: to look at.
    """

    rivals: Mapping[str, Sequence[Result]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


def parts_of(
    task: Task[Any],
    examples: Sequence[Any],
    results: Sequence[Result],
    *,
    train: Sequence[Any] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """What this kind of task adds; nothing where it is not listed.

    Args:
        task: what was predicted.
        examples: labelled.
        results: one an example, in the same order.
        train: training examples, for the baselines that need them.
        resamples: of intervals in tables and figures.
        seed: of the resampling.
    """
    if task.name not in PARTS:
        return Parts()
    module, name = PARTS[task.name]
    function = getattr(importlib.import_module(module), name)
    made: Parts = function(task, examples, results, train=train, resamples=resamples, seed=seed)
    return made
