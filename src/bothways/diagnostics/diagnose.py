"""`diagnose`: all questions asked of a model on labelled data, as one report, worst news first.

What a question is, is in `questions.py`; what it is asked of, in `evidence.py`. Pages and files
are made in `report/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothways.data.options import FileOptions
from bothways.diagnostics.alone import Retrain
from bothways.diagnostics.evidence import SAMPLE, Evidence
from bothways.diagnostics.questions import QUESTIONS, Answer, question
from bothways.diagnostics.settings import DiagnoseSettings
from bothways.errors import NotAsked, UsageError, nearest
from bothways.evaluation.result import Finding, Report
from bothways.inference.abilities import trained_task
from bothways.inference.model import Model


@dataclass(frozen=True)
class Asked:
    """A question is about to be asked.

    Attributes:
        question: its name.
        about: what it asks.
        number, count: the how manyth it is of how many.
    """

    question: str
    about: str
    number: int
    count: int


@dataclass(frozen=True)
class Answered:
    """A question was asked.

    Attributes:
        question: its name.
        findings: the answer in words.
        seconds: it took.
    """

    question: str
    findings: tuple[Finding, ...]
    seconds: float


def diagnose(
    model: Model,
    data: str | Path,
    *,
    train: str | Path | None = None,
    settings: DiagnoseSettings | None = None,
    files: FileOptions | None = None,
    on_event: Callable[[Asked | Answered], None] | None = None,
    retrain: Retrain | None = None,
    **others: Any,
) -> Report:
    """Ask every question that can be asked.

    Args:
        model: with a task and a trained head.
        data: file of labelled examples that the model has not seen.
        train: file of its training examples; without it some questions are not asked.
        settings: what is asked, and of how much.
        files: how files are read; None for UTF-8 and a format found by itself.
        on_event: told before and after each question.
        retrain: fine-tunes on parts of the input; `training.retraining` makes one.
        others: of `Evidence`: policy, seed, batch_tokens, resamples, names.

    Raises:
        UsageError: for a question or a column that there is not.
        DataError: for what is wrong with the files.
        TaskError: when the model has no task.

    Example:
        >>> report = diagnose(model, "test.csv", train="train.csv")  # doctest: +SKIP
        >>> report.findings[0].question  # doctest: +SKIP
        'truncation'
    """
    settings = settings or DiagnoseSettings()
    settings.check()
    task, _ = trained_task(model.parts, model.task)
    files = files or FileOptions()
    rows = list(files.rows(data))
    names = list(rows[0].cells) if rows else []
    for column in settings.slices:
        if column not in names:
            raise UsageError(f"{data} has no column {column!r}; {nearest(column, names)}")
    evidence = Evidence.of(
        model,
        task.read(rows),
        rows=rows,
        columns=settings.slices,
        most=None if settings.all else SAMPLE,
        train_examples=None if train is None else task.read(files.rows(train)),
        **{"names": (model.parts.folder or "model", str(data)), **others},
    )
    return ask(evidence, settings, on_event=on_event, retrain=retrain)


def ask(
    evidence: Evidence,
    settings: DiagnoseSettings | None = None,
    *,
    on_event: Callable[[Asked | Answered], None] | None = None,
    retrain: Retrain | None = None,
) -> Report:
    """The same of evidence that exists.

    Args:
        evidence: to ask.
        settings: what is asked; the sample is the evidence's.
        on_event: told before and after each question.
        retrain: fine-tunes on parts of the input; None to leave that out.
    """
    start = time.perf_counter()
    settings = settings or DiagnoseSettings()
    settings.check()
    if settings.retrain and retrain is None:
        raise UsageError(
            "retrain is set, and no function that trains is given; hand in what "
            "bothways.training.retraining.retraining(folder) returns"
        )
    tell = on_event or _ignore
    answers: list[Answer] = []
    findings: list[Finding] = []
    options = settings.options() | {"artifacts": {"retrain": retrain}}
    names = [name for name in QUESTIONS if not settings.only or name in settings.only]
    for number, name in enumerate(names, 1):
        tell(Asked(name, QUESTIONS[name], number, len(names)))
        began = time.perf_counter()
        try:
            answer = question(name)(evidence, **options.get(name, {}))
            found = answer.findings()
            answers.append(answer)
        except NotAsked as reason:
            found = (Finding(name, "not asked", str(reason)),)
        findings += found
        tell(Answered(name, found, time.perf_counter() - began))
    report = evidence.report
    return replace(
        report,
        population=evidence.population,
        findings=tuple(findings),
        figures=tuple(figure for answer in answers for figure in answer.figures()),
        tables=(
            *(table for answer in answers for table in answer.tables()),
            *(table for table in report.tables if table.name == "examples"),
        ),
        seconds=time.perf_counter() - start,
    )


def _ignore(event: Asked | Answered) -> None:
    del event
