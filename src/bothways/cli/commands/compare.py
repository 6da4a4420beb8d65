"""`bothways compare`: which of two models is better on the same data, and where."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from bothways.cli.inputs import (
    ColumnSettings,
    as_embedder,
    file_options,
    headed,
    open_model,
    task_of,
)
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError

if TYPE_CHECKING:
    from bothways.inference.model import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Judge two models on the same labelled data: is one shown to be better, and where?

    Attributes:
        models: folders or hub names of the two, for one task and the same labels.
        data: labelled file that neither has seen.
        output: folder for report.json, report.md and report.html; those in it are replaced.
        slices: metadata columns by which examples are told apart.
        task: embed compares the vectors of any two encoders.
        head: of several heads, the one to judge.
    """

    data: Path
    models: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    output: Path | None = None
    slices: tuple[str, ...] = ()
    task: Literal["embed"] | None = None
    head: str | None = None
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Predict with both, compare, and write what was found."""
    from bothways.diagnostics.compare import compare
    from bothways.report.text import render_text
    from bothways.report.write import write_report

    if len(settings.models) != 2:
        raise UsageError(
            f"compare takes two models, as in: bothways compare A B --data FILE; it got "
            f"{len(settings.models)}"
        )
    common = settings.common
    first, second = (_open(settings, name) for name in settings.models)
    cut = (common.max_length, common.policy, common.overlap)
    found = compare(
        first,
        second,
        settings.data,
        slices=settings.slices,
        files=file_options(common, first),
        names=_short(*settings.models),
        policies=(first.policy(*cut), second.policy(*cut)),
        seed=common.seed,
        batch_tokens=common.batch_tokens,
    )
    report = found.report()
    files = {} if settings.output is None else write_report(report, settings.output)
    if files:
        logger.info("the page: %s", files["html"])
    return Output(
        render_text(report),
        {
            **dataclasses.asdict(dataclasses.replace(found, disagreements=())),
            "models": list(settings.models),
            "count": found.whole.count,
            "findings": [dataclasses.asdict(finding) for finding in found.findings()],
            "files": {kind: str(path) for kind, path in files.items()},
        },
    )


def _short(first: str, second: str) -> tuple[str, str]:
    """What the models are called in tables: the ends of their paths, where these differ."""
    ends = Path(first).name, Path(second).name
    return ends if len(set(ends)) == 2 and all(ends) else (first, second)


def _open(settings: Settings, name: str) -> Model:
    """A model under the head and the task that were asked for."""
    model = headed(open_model(name, settings.common), settings.head)
    if settings.task == "embed":
        model = as_embedder(model)
    model.task = task_of(model, settings.columns)
    return model
