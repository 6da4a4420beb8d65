"""The values that judging produces: numbers with intervals, findings, figures, tables, a report.

Everything that is printed, written to report.json or drawn on the page is one of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bothways.tokenization.encoding import Ledger

Severity = Literal["alarm", "note", "fine", "not asked"]
SEVERITIES: tuple[Severity, ...] = ("alarm", "note", "fine", "not asked")


@dataclass(frozen=True)
class Metric:
    """A number with its 95 % interval.

    Attributes:
        value: the estimate.
        low, high: ends of the interval; None where there is none.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """`0.812 [0.790, 0.834]`."""
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def cells(self) -> tuple[float, float | None, float | None]:
        """Value and ends, for a table with `interval_columns`."""
        return self.value, self.low, self.high


@dataclass(frozen=True)
class Finding:
    """An answer to one question about a model.

    Attributes:
        question: one of the names in INTERFACES (truncation, artifacts, baseline, ...).
        severity: how bad it is.
        text: one or two plain sentences.
        numbers: the figures behind the text.
    """

    question: str
    severity: Severity
    text: str
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Rows and columns, with a title.

    Attributes:
        name: a word, unique in its report.
        title: what it shows.
        columns: headings.
        rows: cells, as many as headings.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]


def interval_columns(name: str) -> tuple[str, str, str]:
    """Headings of a number with its interval, which reports show as one column."""
    return name, f"{name} low", f"{name} high"


@dataclass(frozen=True)
class Series:
    """One line or one set of bars of a figure.

    Attributes:
        label: its name in the legend.
        x, y: as many values each; x may be names.
        low, high: ends of intervals about y, or None.
    """

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    @classmethod
    def of_metrics(cls, label: str, metrics: Mapping[str, Metric]) -> Series:
        """Named metrics with their intervals; one without an interval has one of no width."""
        found = metrics.values()
        return cls(
            label,
            tuple(metrics),
            tuple(metric.value for metric in found),
            tuple(metric.value if metric.low is None else metric.low for metric in found),
            tuple(metric.value if metric.high is None else metric.high for metric in found),
        )


@dataclass(frozen=True)
class Figure:
    """A plot as data; `report/` draws it.

    Attributes:
        name: a word, unique in its report.
        title: what it shows.
        kind: how to draw it; of a text, each series is one, x its words, y a number for each.
        x_label, y_label: of the axes, with units; bars lie, so x has their values, y their names.
        series: what is drawn.
        level: a name and a value that is drawn across, or None.
    """

    name: str
    title: str
    kind: Literal["bar", "line", "scatter", "heat", "text"]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    level: tuple[str, float] | None = None


@dataclass(frozen=True)
class Report:
    """Everything found out about a model on some data.

    Attributes:
        task, model, data: names.
        metrics: scores of the model.
        baselines: scores of what it should beat, by baseline, then metric.
        findings: worst first.
        figures, tables: to look at.
        ledger: what was cut and lost.
        versions: of this library and what it computes with.
        count: examples judged.
        population: examples there were, where those judged may be a sample of them; else 0.
        seconds: time taken.
    """

    task: str
    model: str
    data: str
    metrics: dict[str, Metric]
    baselines: dict[str, dict[str, Metric]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    versions: dict[str, str] = field(default_factory=dict)
    count: int = 0
    population: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        ordered = sorted(self.findings, key=lambda finding: SEVERITIES.index(finding.severity))
        object.__setattr__(self, "findings", tuple(ordered))

    def as_dict(self) -> dict[str, Any]:
        """The content of report.json."""
        return dataclasses.asdict(self)
