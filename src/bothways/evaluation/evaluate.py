"""Judge a model on labelled data: scores with intervals, beside what it should beat.

`evaluate` predicts and judges; `judge` takes predictions that exist, a model's or anyone's. The
parts that only one kind of task has are in files of their own (`classification.py`); pages and
files are made in `report/`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bothways.data.options import FileOptions
from bothways.errors import DataError, TaskError
from bothways.evaluation.findings import baseline_finding, truncation_finding
from bothways.evaluation.intervals import RESAMPLES, Indices, Units, intervals, of_perfect_share
from bothways.evaluation.parts import parts_of
from bothways.evaluation.result import Figure, Metric, Report, Series, Table
from bothways.inference.results import Results
from bothways.tasks.task import Scorer, Task
from bothways.tokenization.encoding import Policy

VERSIONED = ("bothways", "torch", "tokenizers", "numpy", "scikit-learn", "scipy")


class Predictor(Protocol):
    """What is judged: `Model`, or anything with a task and predictions."""

    @property
    def task(self) -> Task[Any] | None:
        """What it predicts."""
        ...

    def predict(
        self,
        examples: Iterable[Any],
        *,
        max_length: int | None = None,
        policy: Policy | None = None,
        overlap: int | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Results:
        """One result an example, in input order, with a ledger."""
        ...


def evaluate(
    model: Predictor,
    data: str | Path | Sequence[Any],
    *,
    train: str | Path | Sequence[Any] | None = None,
    files: FileOptions | None = None,
    model_name: str = "model",
    data_name: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Any,
) -> Report:
    """Predict labelled examples and judge the predictions.

    Args:
        model: with a task and a trained head.
        data: labelled examples, as the task's `read` gives them, or a file of them.
        train: training examples or file, for the baselines that need them.
        files: how files are read; None for UTF-8 and a format found by itself.
        model_name, data_name: for the report; a file's own name where it is not said.
        resamples: of the bootstrap.
        seed: of the resampling.
        options: for `model.predict`: max_length, policy, overlap, batch_tokens,
            on_batch.

    Raises:
        TaskError: when the model has no task.
        DataError: when there is nothing to judge, or a label that the model does not have.

    Example:
        >>> report = evaluate(model, "test.csv", train="train.csv")  # doctest: +SKIP
        >>> print(report.metrics["accuracy"])  # doctest: +SKIP
        0.831 [0.808, 0.853]
    """
    task = model.task
    if task is None:
        heads = ", ".join(getattr(model, "heads", ()))
        hint = f"it has several heads: {heads}; judge one, of `Model.heads`" if heads else ""
        raise TaskError(
            f"the model has no task, so there is nothing to judge; {hint or 'fine-tune it first'}"
        )
    start = time.perf_counter()
    examples = _read(task, data, files)
    results = model.predict(examples, **options)
    report = judge(
        task,
        examples,
        results,
        train=None if train is None else _read(task, train, files),
        model_name=model_name,
        data_name=data_name or (str(data) if isinstance(data, str | Path) else "data"),
        resamples=resamples,
        seed=seed,
    )
    return replace(report, seconds=time.perf_counter() - start)


def _read(
    task: Task[Any], data: str | Path | Sequence[Any], files: FileOptions | None
) -> Sequence[Any]:
    """Examples as they are, or those of a file."""
    if not isinstance(data, str | Path):
        return data
    return task.read((files or FileOptions()).rows(data))


def judge(
    task: Task[Any],
    examples: Sequence[Any],
    results: Results,
    *,
    train: Sequence[Any] | None = None,
    model_name: str = "model",
    data_name: str = "data",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Report:
    """Judge predictions that exist: scores, intervals, baselines, tables, figures, findings.

    Args:
        task: what was predicted.
        examples: labelled.
        results: one an example, in the same order, with their ledger.
        train: training examples, for the baselines that need them.
        model_name, data_name: for the report.
        resamples: of the bootstrap.
        seed: of the resampling; the same draws serve the model and its baselines.
    """
    if not examples:
        raise DataError("there are no examples to judge; expected at least one")
    start = time.perf_counter()
    units = Units.of(len(examples), task.units(examples))
    parts = parts_of(task, examples, results, train=train, resamples=resamples, seed=seed)
    findings = [truncation_finding(results.ledger), *parts.findings]
    rivals = {name: task.scorer(given, examples) for name, given in parts.rivals.items()}
    figures = parts.figures
    main, direction = task.main_metric, task.metric_directions[task.main_metric]
    score = task.scorer(results, examples)

    def all_scores(some: Indices) -> dict[tuple[str, str], float]:
        own = score(some)
        found = {("", metric): value for metric, value in own.items()}
        for rival, rival_score in rivals.items():
            theirs = rival_score(some)
            found |= {(rival, metric): value for metric, value in theirs.items()}
            found["gain over", rival] = direction * (own[main] - theirs[main])
        return found

    # One set of draws serves the model, its baselines and their differences.
    scored = {
        (owner, name): metric
        if task.metric_directions.get(name) == -1
        else of_perfect_share(metric, len(units))
        for (owner, name), metric in intervals(
            all_scores, units, resamples=resamples, seed=seed
        ).items()
    }
    metrics = _part(scored, "")
    baselines = {name: _part(scored, name) for name in rivals}
    if rivals:
        gains = _part(scored, "gain over")
        values = {name: scores[main] for name, scores in baselines.items()}
        findings.insert(0, baseline_finding(main, metrics[main], values, gains, len(units)))
        figures = (_baseline_figure(main, metrics[main], values), *figures)
    return Report(
        task=task.name,
        model=model_name,
        data=data_name,
        metrics=metrics,
        baselines=baselines,
        findings=tuple(findings),
        figures=figures,
        tables=(*parts.tables, *_cut_tables(score, results)),
        ledger=results.ledger,
        versions=versions(),
        count=len(examples),
        seconds=time.perf_counter() - start,
    )


def _cut_tables(score: Scorer, results: Results) -> tuple[Table, ...]:
    """How texts that were cut fare beside those that were read whole; nothing where none was."""
    cut = np.asarray(results.tokens_cut, dtype=np.int64) > 0
    if not cut.any():
        return ()
    groups = {"read whole": np.flatnonzero(~cut), "cut": np.flatnonzero(cut)}
    scores = {name: score(some) for name, some in groups.items() if len(some)}
    names = tuple(scores["cut"])
    rows: tuple[tuple[str | float | int | None, ...], ...] = tuple(
        (name, len(groups[name]), *found.values()) for name, found in scores.items()
    )
    return (Table("cut", "Texts that were cut", ("texts", "count", *names), rows),)


def summary(report: Report) -> dict[str, Any]:
    """The object that `evaluate --json` prints."""
    whole = report.as_dict()
    names = ("task", "model", "data", "count", "metrics", "ledger", "seconds")
    return {name: whole[name] for name in names}


def versions() -> dict[str, str]:
    """Versions of this library, of Python and of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _part(scored: Mapping[tuple[str, str], Metric], owner: str) -> dict[str, Metric]:
    """The metrics of one owner of all that were scored together."""
    return {name: metric for (whose, name), metric in scored.items() if whose == owner}


def _baseline_figure(metric: str, value: Metric, baselines: Mapping[str, Metric]) -> Figure:
    """The main metric beside the baselines'."""
    bars = {name.replace("_", " "): other for name, other in baselines.items()}
    series = Series.of_metrics(metric, {"this model": value, **bars})
    title = f"{metric} beside what should be beaten, with 95 % intervals"
    return Figure("baselines", title, "bar", metric, "", (series,))
