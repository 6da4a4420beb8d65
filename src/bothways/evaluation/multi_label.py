"""What an evaluation of sets of labels shows beside its scores: each label on its own.

Baselines, tables and figures as values; `evaluate.py` puts them into the report. Single labels are
in `classification.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.errors import agreeing, counted
from bothways.evaluation.baselines import bag_of_words_shares
from bothways.evaluation.classification import data_table, label_figure
from bothways.evaluation.findings import baselines_not_asked, errors_finding
from bothways.evaluation.intervals import RESAMPLES, Units, intervals, of_perfect_share
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Metric, Table
from bothways.metrics.label_sets import LabelSets
from bothways.tasks.label_sets import MultiLabelExample
from bothways.tasks.multi_label import UNTUNED, MultiLabelTask
from bothways.tasks.results import LabelSetResult, Result


def trivial_results(
    task: MultiLabelTask,
    examples: Sequence[MultiLabelExample],
    train: Sequence[MultiLabelExample] | None,
) -> dict[str, list[LabelSetResult]]:
    """Predictions of each baseline that can be asked.

    The majority says the labels that at least half of the training texts have, else the commonest
    one; the bag of words asks about each label on its own, from 0.5.
    """
    if train is None:
        return {}
    task.check(train)
    plain = MultiLabelTask(labels=task.labels)
    counts = Counter(label for example in train for label in example.labels or ())
    shares = np.array([counts[label] / len(train) for label in task.labels])
    often = shares >= min(UNTUNED, shares.max())
    said = tuple(label for label, is_said in zip(task.labels, often, strict=True) if is_said)
    majority = LabelSetResult(said, dict(zip(task.labels, shares.tolist(), strict=True)))
    known = [set(example.labels or ()) for example in train]
    words = bag_of_words_shares(train, known, examples, task.labels)
    return {
        "bag_of_words": [plain.result(row) for row in words],
        "majority": [majority] * len(examples),
    }


def multi_label_parts(
    task: MultiLabelTask,
    examples: Sequence[MultiLabelExample],
    results: Sequence[Result],
    *,
    train: Sequence[MultiLabelExample] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """Baselines and the scores of each label, in words too; arguments as of `parts_of`."""
    sets = task.sets(results, examples)
    units = Units.of(len(examples), task.units(examples))

    def f1(some: NDArray[np.int64]) -> dict[str, float]:
        return dict(zip(task.labels, sets.label_f1(some).tolist(), strict=True))

    support = Counter(label for example in examples for label in example.labels or ())
    by_label = {
        label: of_perfect_share(found, max(support[label], 1))
        for label, found in intervals(f1, units, resamples=resamples, seed=seed).items()
    }
    finding = errors_finding(by_label, support, None, told=_told(task, sets))
    tables = (
        _label_table(task, sets, by_label),
        _size_table(sets),
        data_table(examples),
    )
    findings = (finding,) if train is not None else (finding, baselines_not_asked())
    figures = (label_figure(by_label, support),)
    return Parts(trivial_results(task, examples, train), findings, tables, figures)


def _told(task: MultiLabelTask, sets: LabelSets) -> str:
    """What goes wrong most, in words; nothing where nothing does."""
    right, said, true = sets.counts()
    if sets.exact.all():
        return ""
    missed, added = true - right, said - right
    most, worst = int(missed.argmax()), int(added.argmax())
    wrong = int((~sets.exact).sum())
    return (
        f"{wrong:,} of {counted(len(sets.exact), 'set')} {agreeing(wrong, 'are')} not exactly "
        f"right, {task.labels[most]!r} is missed most ({counted(int(missed[most]), 'time')}) and "
        f"{task.labels[worst]!r} said wrongly most ({counted(int(added[worst]), 'time')})"
    )


def _label_table(task: MultiLabelTask, sets: LabelSets, by_label: Mapping[str, Metric]) -> Table:
    counts, precisions = sets.counts(), sets.label_average_precision()
    thresholds = task.thresholds or (UNTUNED,) * len(task.labels)
    rows: list[tuple[str | float | int | None, ...]] = []
    for number, label in enumerate(task.labels):
        right, said, true = map(int, counts[:, number])
        f1 = by_label[label]
        rows.append(
            (
                label,
                true,
                right / said if said else 0.0,
                right / true if true else 0.0,
                f1.value,
                f1.low,
                f1.high,
                float(precisions[number]) if true else None,
                thresholds[number],
            )
        )
    # Labels that do not occur say nothing about the model: they come last.
    rows.sort(key=lambda row: (row[1] == 0, row[4]))
    columns = ("label", "examples", "precision", "recall", "F1", "F1 low", "F1 high")
    title = "Scores of each label, worst first, and the probability from which it is said"
    return Table("labels", title, (*columns, "average precision", "threshold"), tuple(rows))


def _size_table(sets: LabelSets) -> Table:
    """How many labels texts have, and how many are said."""
    true, said = sets.truth.sum(1), sets.predicted.sum(1)
    rows = tuple(
        (size, int((true == size).sum()), int((said == size).sum()))
        for size in range(int(max(true.max(), said.max())) + 1)
    )
    return Table("sizes", "How many labels a text has", ("labels", "true", "predicted"), rows)
