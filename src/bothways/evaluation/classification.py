"""What an evaluation of single labels shows beside its scores: per label, and what is confused.

Baselines, tables and figures as values; `evaluate.py` puts them into the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.baselines import bag_of_words
from bothways.evaluation.findings import baselines_not_asked, errors_finding
from bothways.evaluation.intervals import RESAMPLES, Units, intervals, of_perfect_share
from bothways.evaluation.linear import majority
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Figure, Metric, Series, Table
from bothways.metrics.classification import Confusion, label_scores
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_results
from bothways.tasks.results import LabelResult, Result
from bothways.tasks.texts import Texts, is_empty

# More labels than this make a matrix that nobody can read; the commonest mistakes are listed.
MATRIX_LABELS = 20
MISTAKES_SHOWN = 20
LABELS_DRAWN = 30


def trivial_results(
    task: ClassifyTask,
    examples: Sequence[ClassifyExample],
    train: Sequence[ClassifyExample] | None,
) -> dict[str, list[LabelResult]]:
    """Predictions of each baseline that can be asked: from stored counts, or training texts."""
    counts: Mapping[str, int] = task.label_counts
    found: dict[str, list[LabelResult]] = {}
    if train is not None:
        task.check(train)
        labels = [example.label or "" for example in train]
        counts = Counter(labels)
        found["bag_of_words"] = bag_of_words(train, labels, examples, task.labels)
    if counts:
        found["majority"] = majority(counts, task.labels, len(examples))
    return found


def classification_parts(
    task: ClassifyTask,
    examples: Sequence[ClassifyExample],
    results: Sequence[Result],
    *,
    train: Sequence[ClassifyExample] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """Baselines, scores of each label, the confusion matrix, the commonest mistakes, in words too.

    Args:
        task: with its labels.
        examples: labelled.
        results: as many.
        train: training examples, for the baselines that need them.
        resamples: for the interval of each label's F1.
        seed: of the resampling.
    """
    task.check(examples)
    rivals = trivial_results(task, examples, train)
    truth = [example.label or "" for example in examples]
    predicted = [result.label for result in label_results(results)]
    confusion = Confusion(truth, predicted, task.labels)
    units = Units.of(len(examples), task.units(examples))

    def f1(some: NDArray[np.int64]) -> dict[str, float]:
        return dict(zip(task.labels, confusion.label_f1(some).tolist(), strict=True))

    support = Counter(truth)
    by_label = {
        label: of_perfect_share(found, max(support[label], 1))
        for label, found in intervals(f1, units, resamples=resamples, seed=seed).items()
    }
    counts = confusion.counts()
    mistakes = _mistakes(task.labels, counts)
    finding = errors_finding(
        by_label,
        support,
        mistakes[0] if mistakes else None,
    )
    tables = [_label_table(task, truth, predicted, by_label)]
    figures = [label_figure(by_label, truth)]
    if len(task.labels) <= MATRIX_LABELS:
        tables.append(_matrix_table(task.labels, counts))
        figures.append(_matrix_figure(task.labels, counts))
    if mistakes:
        rows = tuple((*each, each[2] / truth.count(each[0])) for each in mistakes)
        columns = ("true label", "predicted", "count", "share of the true label")
        tables.append(Table("mistakes", "The commonest mistakes", columns, rows))
    findings = (finding,) if train is not None else (finding, baselines_not_asked())
    return Parts(rivals, findings, (*tables, data_table(examples)), tuple(figures))


def _label_table(
    task: ClassifyTask,
    truth: Sequence[str],
    predicted: Sequence[str],
    by_label: Mapping[str, Metric],
) -> Table:
    rows = [
        (
            score.label,
            score.support,
            score.precision,
            score.recall,
            score.f1,
            by_label[score.label].low,
            by_label[score.label].high,
        )
        for score in sorted(
            label_scores(truth, predicted, task.labels),
            # Labels that do not occur say nothing about the model: they come last.
            key=lambda score: (score.support == 0, score.f1),
        )
    ]
    columns = ("label", "examples", "precision", "recall", "F1", "F1 low", "F1 high")
    return Table("labels", "Scores of each label, worst first", columns, tuple(rows))


def data_table(examples: Sequence[Texts]) -> Table:
    """How much was judged."""
    lengths = [len(example.text) + len(example.pair or "") for example in examples]
    rows = (
        ("examples", len(examples)),
        ("empty texts", sum(map(is_empty, examples))),
        ("characters in all", sum(lengths)),
        ("characters of the longest", max(lengths, default=0)),
    )
    return Table("examples", "What was judged", ("", "count"), rows)


def _mistakes(labels: Sequence[str], counts: NDArray[np.int64]) -> list[tuple[str, str, int]]:
    """True label, predicted label and how often, the commonest first."""
    wrong = counts - np.diag(np.diagonal(counts))
    cells = np.argsort(-wrong, axis=None, kind="stable")[:MISTAKES_SHOWN]
    order = [divmod(int(cell), len(labels)) for cell in cells]
    return [
        (labels[true], labels[said], int(wrong[true, said]))
        for true, said in order
        if wrong[true, said]
    ]


def _matrix_table(labels: Sequence[str], counts: NDArray[np.int64]) -> Table:
    rows = [(label, *row) for label, row in zip(labels, counts.tolist(), strict=True)]
    title = "Confusion matrix (a row a true label, a column a predicted one)"
    return Table("confusion", title, ("true label", *labels), tuple(rows))


def _matrix_figure(labels: Sequence[str], counts: NDArray[np.int64]) -> Figure:
    series = [
        Series(label, tuple(labels), tuple(map(float, row)))
        for label, row in zip(labels, counts.tolist(), strict=True)
    ]
    return Figure(
        "confusion",
        "What is taken for what (number of examples)",
        "heat",
        "predicted label",
        "true label",
        tuple(series),
    )


def label_figure(by_label: Mapping[str, Metric], truth: Iterable[str]) -> Figure:
    """F1 of each label that occurs, worst first."""
    true = set(truth)
    occurring = [label for label in by_label if label in true]
    shown = sorted(occurring, key=lambda label: by_label[label].value)[:LABELS_DRAWN]
    rest = f", the worst {LABELS_DRAWN} of {len(occurring)}" if len(occurring) > len(shown) else ""
    title = f"F1 of each label{rest}, with its 95 % interval"
    series = Series.of_metrics("F1", {label: by_label[label] for label in shown})
    return Figure("labels", title, "bar", "F1", "label", (series,))
