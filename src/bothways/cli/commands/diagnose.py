"""`bothways diagnose`: what a score hides, as report.json, report.md and report.html."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bothways.cli.inputs import ColumnSettings, file_options, open_model, task_of
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.diagnostics.settings import DiagnoseSettings
from bothways.errors import UsageError

if TYPE_CHECKING:
    from bothways.diagnostics.diagnose import Answered, Asked

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Ask what a score hides: cut and shattered texts, shortcuts, weak slices and more.

    Attributes:
        model: folder of a fine-tuned model, or hub name.
        data: labelled file that the model has not seen.
        output: folder for report.json, report.md and report.html; those in it are replaced.
        train: training file; without it some questions are not asked.
    """

    model: str
    data: Path
    output: Path
    train: Path | None = None
    asked: DiagnoseSettings = field(default_factory=DiagnoseSettings)
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Ask, write, sum up."""
    from bothways.diagnostics.calibrating import calibrate
    from bothways.diagnostics.diagnose import diagnose
    from bothways.report.text import render_text
    from bothways.report.write import write_report
    from bothways.training.retraining import retraining

    common = settings.common
    settings.asked.check()
    if settings.asked.calibrate and not Path(settings.model).is_dir():
        raise UsageError(
            f"--calibrate stores the temperature in the model's folder, and {settings.model} is "
            "none; save the model into one first"
        )
    model = open_model(settings.model, common)
    model.task = task_of(model, settings.columns)
    report = diagnose(
        model,
        settings.data,
        train=settings.train,
        settings=settings.asked,
        files=file_options(common, model),
        on_event=_tell,
        retrain=retraining(Path(settings.model), device=common.device, threads=common.threads)
        if settings.asked.retrain
        else None,
        names=(settings.model, str(settings.data)),
        policy=model.policy(common.max_length, common.policy, common.overlap),
        seed=common.seed,
        batch_tokens=common.batch_tokens,
    )
    files = write_report(report, settings.output)
    logger.info("the page: %s", files["html"])
    stored = calibrate(model, report) if settings.asked.calibrate else None
    if stored is not None:
        logger.info("%s keeps the temperature %.3f; predict uses it", settings.model, stored)
    found = report.as_dict()
    names = ("task", "model", "data", "count", "population", "metrics", "findings", "ledger")
    shown = {name: found[name] for name in names}
    return Output(
        render_text(dataclasses.replace(report, tables=())),
        {
            **shown,
            **({} if stored is None else {"temperature": stored}),
            "files": {kind: str(path) for kind, path in files.items()},
            "seconds": report.seconds,
        },
    )


def _tell(event: Asked | Answered) -> None:
    """A line when a question begins, and one when it is answered."""
    from bothways.diagnostics.diagnose import Asked

    if isinstance(event, Asked):
        logger.info("%d/%d %s: %s", event.number, event.count, event.question, event.about)
    else:
        worst = event.findings[0].severity if event.findings else "fine"
        logger.info("    %s, %.1f s", worst, event.seconds)
