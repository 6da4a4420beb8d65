"""What an evaluation of relations shows: its labels, and relations with directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bothways.evaluation.classification import classification_parts
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Table
from bothways.metrics.relations import Relations, relation_of
from bothways.tasks.classify import label_results
from bothways.tasks.marking import RelateExample
from bothways.tasks.relate import RelateTask, as_classified
from bothways.tasks.results import Result


def relating_parts(
    task: RelateTask,
    examples: Sequence[RelateExample],
    results: Sequence[Result],
    *,
    train: Sequence[RelateExample] | None = None,
    **options: Any,
) -> Parts:
    """The parts of the classification that this is, and a table of the relations.

    The bag of words does not know which words are the entities.
    """
    parts = classification_parts(
        task.classification,
        as_classified(examples),
        results,
        train=None if train is None else as_classified(train),
        **options,
    )
    table = _relation_table(task, examples, [each.label for each in label_results(results)])
    return dataclasses.replace(parts, tables=(table, *parts.tables))


def _relation_table(
    task: RelateTask, examples: Sequence[RelateExample], predicted: Sequence[str]
) -> Table:
    truth = [example.label or "" for example in examples]
    found = Relations(truth, predicted, task.labels)
    ours, theirs = (np.array([relation_of(x) for x in side]) for side in (truth, predicted))
    turned = np.array([a != b for a, b in zip(truth, predicted, strict=True)]) & (ours == theirs)
    f1 = found.f1()
    rows = []
    for number in np.argsort(f1, kind="stable").tolist():
        name = found.relations[number]
        inside = ours == name
        rows.append((name, int(inside.sum()), int((turned & inside).sum()), float(f1[number])))
    title = "Relations, both directions together, worst first (their mean F1 is the official score)"
    columns = ("relation", "examples", "right relation, wrong direction", "F1")
    return Table("relations", title, columns, tuple(rows))
