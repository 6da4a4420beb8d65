"""`bothways evaluate`: score a fine-tuned model on labelled data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bothways.cli.inputs import ColumnSettings, file_options, open_model, task_of
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings


@dataclass(frozen=True)
class Settings:
    """Score a model on labelled data, with 95 % intervals and beside its baselines.

    Attributes:
        model: folder of a fine-tuned model, or hub name.
        data: labelled data file.
        train: training file, for the baselines that learn from it.
        report: write report.json, report.md and report.html into this folder.
    """

    model: str
    data: Path
    train: Path | None = None
    report: Path | None = None
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Read, predict, judge."""
    from bothways.evaluation.evaluate import evaluate, summary
    from bothways.report.text import render_text
    from bothways.report.write import write_report

    model = open_model(settings.model, settings.common)
    task = task_of(model, settings.columns)
    options = file_options(settings.common, model)
    examples = task.read(options.rows(settings.data))
    train = None if settings.train is None else task.read(options.rows(settings.train))
    common = settings.common
    with counting("examples", len(examples)) as count:
        report = evaluate(
            model,
            examples,
            train=train,
            model_name=settings.model,
            data_name=str(settings.data),
            seed=common.seed,
            max_length=common.max_length,
            policy=common.policy,
            overlap=common.overlap,
            batch_tokens=common.batch_tokens,
            on_batch=count,
        )
    if settings.report is not None:
        write_report(report, settings.report)
    return Output(render_text(report), summary(report))
