"""`compare`: which of two models is better on the same labelled examples, and where.

A difference counts as shown where two things agree: its interval by the paired bootstrap lies
wholly on one side of 0, and a test says that equally good models would seldom differ so much. The
test is McNemar's for a share of right examples that stand alone, else a permutation test that
swaps the models' predictions within units. What is found, as numbers and words, is in
`compared.py`.

Source: Dror et al. 2018 on which test suits which metric; Koehn 2004 for the bootstrap.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bothways.data.options import FileOptions
from bothways.data.rows import Row
from bothways.diagnostics.compared import Compared, Disagreement, Side
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.pair import Pair
from bothways.diagnostics.slicing import find_slices
from bothways.errors import NotAsked, TaskError, UsageError, counted, nearest
from bothways.inference.abilities import trained_task
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.tasks.results import LabelSetResult, Result, ScoreResult, TagResult
from bothways.tasks.schemes import OUTSIDE
from bothways.tasks.tag_examples import TagExample
from bothways.tasks.task import Task
from bothways.tokenization.policy import CutPolicy

# Texts shown of each kind: the first model is right, the second is.
TEXTS_SHOWN = 10
CHARACTERS_SHOWN = 160
LABELS_SHOWN = 5


def compare(
    first: Model,
    second: Model,
    data: str | Path | Sequence[Any],
    *,
    slices: Sequence[str] = (),
    files: FileOptions | None = None,
    names: tuple[str, str] = ("the first model", "the second model"),
    data_name: str | None = None,
    policies: tuple[CutPolicy | None, CutPolicy | None] = (None, None),
    **others: Any,
) -> Compared:
    """Judge two models on the same examples.

    Args:
        first, second: with a trained head, for one task and one set of labels; they may differ
            in everything else.
        data: file of labelled examples that neither has seen, or examples of the task.
        slices: metadata columns of the file by which examples are told apart.
        files: how the file is read; None for UTF-8 and a format found by itself.
        names: of the models, for the report.
        data_name: the same of the data; None for the file's own.
        policies: how each cuts texts; None for what its folder says.
        others: of `Evidence`: seed, batch_tokens, resamples.

    Raises:
        TaskError: when the models do different things, or know different labels.
        UsageError: for a column that there is not.
        DataError: for what is wrong with the file.

    Example:
        >>> found = compare(load("old"), load("new"), "test.csv")  # doctest: +SKIP
        >>> print(found.findings()[0].text)  # doctest: +SKIP
        No difference shown between the first model and the second model: ...
    """
    start = time.perf_counter()
    task = same_task(first, second, names)
    rows: list[Row] = []
    if isinstance(data, str | Path):
        rows = list((files or FileOptions()).rows(data))
        known = list(rows[0].cells) if rows else []
        for column in slices:
            if column not in known:
                raise UsageError(f"{data} has no column {column!r}; {nearest(column, known)}")
        examples: Sequence[Any] = task.read(rows)
    else:
        examples = data
    told = {"rows": rows, "columns": slices}
    (evidence, one, side), (_, two, other) = (
        _predicted(model, examples, policy=policy, **(told if model is first else {}), **others)
        for model, policy in zip((first, second), policies, strict=True)
    )
    pair = Pair(evidence, one, two)
    scores = pair.metrics()
    metrics, more_metrics, gains = (scores[which] for which in ("first", "second", "gain"))
    found = find_slices(evidence)
    return Compared(
        sides=(
            Side(names[0], *side, metrics, one.ledger),
            Side(names[1], *other, more_metrics, two.ledger),
        ),
        task=task.name,
        data=data_name or (str(data) if isinstance(data, str | Path) else "data"),
        metric=task.main_metric,
        test=pair.test,
        whole=pair.whole(),
        slices=pair.of_slices(found.slices),
        gains=gains,
        disagreements=tuple(_disagreements(pair)),
        too_small=len(found.small),
        seconds=time.perf_counter() - start,
    )


def same_task(first: Model, second: Model, names: tuple[str, str]) -> Task[Any]:
    """The task of the first model, which the second has too.

    Args:
        first, second: to be compared.
        names: of them.

    Raises:
        TaskError: when the models do different things, or know different labels.
        UntrainedHeadError: when the weights of a head are random.
    """
    task, other = (trained_task(model.parts, model.task)[0] for model in (first, second))
    if task.name != other.name:
        raise TaskError(
            f"{names[0]} is for the task {task.name}, {names[1]} for {other.name}; only models of "
            "one task can be compared"
        )
    different = [
        f"only {name} knows {counted(len(extra), 'label')}: {', '.join(extra[:LABELS_SHOWN])}"
        for name, extra in (
            (names[0], sorted(set(task.labels) - set(other.labels))),
            (names[1], sorted(set(other.labels) - set(task.labels))),
        )
        if extra
    ]
    if different:
        raise TaskError(
            f"the models do not know the same labels, so their scores do not compare: "
            f"{'; '.join(different)}. Train both on the same labels"
        )
    return task


def _predicted(
    model: Model, examples: Sequence[Any], **options: Any
) -> tuple[Evidence, Results, tuple[int, float]]:
    """Evidence on all examples, predictions, and what they cost: numbers held, and seconds."""
    evidence = Evidence.of(model, examples, most=None, **options)
    start = time.perf_counter()
    results = evidence.predict(examples)
    modules = [model.encoder, *([] if model.parts.reader is None else [model.parts.reader])]
    sizes = {id(each): each.numel() for module in modules for each in module.parameters()}
    return evidence, results, (sum(sizes.values()), time.perf_counter() - start)


def _disagreements(pair: Pair) -> Iterator[Disagreement]:
    """Examples on which one model does better; none where single ones have no score."""
    try:
        gaps = pair.credits[1] - pair.credits[0]
    except NotAsked:
        return
    order = np.argsort(gaps, kind="stable")
    lost = [index for index in order.tolist() if gaps[index] < 0][:TEXTS_SHOWN]
    won = [index for index in order[::-1].tolist() if gaps[index] > 0][:TEXTS_SHOWN]
    for index in (*lost, *won):
        example = pair.evidence.examples[index]
        texts = " / ".join(text for text in (example.text, example.pair) if text is not None)
        yield Disagreement(
            example.place,
            texts if len(texts) <= CHARACTERS_SHOWN else f"{texts[:CHARACTERS_SHOWN]}...",
            _expected(example),
            (_said(pair.first[index]), _said(pair.second[index])),
            float(gaps[index]),
        )


def _expected(example: Any) -> str:
    """What is right, as text."""
    if isinstance(example, TagExample):
        found = zip(example.words, example.tags or (), strict=True)
        return ", ".join(f"{word} ({tag})" for word, tag in found if tag != OUTSIDE)
    label = getattr(example, "label", None)
    if isinstance(label, int) and hasattr(example, "choices"):
        return str(example.choices[label])
    if label is not None:
        return f"{label:.3f}" if isinstance(label, float) else str(label)
    several = getattr(example, "labels", None) or getattr(example, "answers", None) or ()
    return ", ".join(getattr(each, "text", each) for each in several)


def _said(result: Result) -> str:
    """What a model said, as text."""
    if isinstance(result, LabelSetResult):
        return ", ".join(result.labels)
    if isinstance(result, TagResult):
        return ", ".join(f"{span.text} ({span.label})" for span in result.spans)
    if isinstance(result, ScoreResult):
        return f"{result.score:.3f}"
    for name in ("label", "choice", "text"):
        if hasattr(result, name):
            return str(getattr(result, name))
    return str(result)
