"""Baseline: whether the model is better than what needs no model, and by how much.

What is fair to beat: the most frequent answer, and simple models of the same training texts; each
task has its own (`evaluation/`). What should not work alone is another question, `artifacts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked
from bothways.evaluation.result import Figure, Finding, Metric, Table, interval_columns


@dataclass(frozen=True)
class Baseline:
    """The model beside its baselines.

    Attributes:
        told: what follows, in words and numbers.
        metric: name of the main metric.
        value: the model's.
        rivals: of each baseline.
        gains: of the model over each, paired; positive is better.
        drawn: all of them as bars.
    """

    told: tuple[Finding, ...]
    metric: str
    value: Metric
    rivals: Mapping[str, Metric]
    gains: Mapping[str, Metric]
    drawn: tuple[Figure, ...]

    def findings(self) -> tuple[Finding, ...]:
        """The gain over the hardest baseline, and which could not be asked."""
        return self.told

    def figures(self) -> tuple[Figure, ...]:
        """The main metric of all."""
        return self.drawn

    def tables(self) -> tuple[Table, ...]:
        """The main metric of all, and the gains."""
        rows: list[tuple[str | float | None, ...]] = [
            ("this model", *self.value.cells, None, None, None)
        ]
        for name, metric in self.rivals.items():
            rows.append((name.replace("_", " "), *metric.cells, *self.gains[name].cells))
        columns = ("", *interval_columns(self.metric), *interval_columns("gain of the model"))
        return (Table("baseline", "The model beside its baselines", columns, tuple(rows)),)


def baseline(evidence: Evidence) -> Baseline:
    """Compare the model with the baselines of its task.

    Args:
        evidence: to ask.

    Raises:
        NotAsked: where the task has none that can be computed.
    """
    report, metric = evidence.report, evidence.task.main_metric
    if not report.baselines:
        raise NotAsked("There is nothing simple to compare with; it may need --train.")
    told = tuple(finding for finding in report.findings if finding.question == "baseline")
    numbers = next(f.numbers for f in told if "hardest" in f.numbers)

    def gain(name: str) -> Metric:
        ends = (numbers[f"gain_over_{name}{end}"] for end in ("", "_low", "_high"))
        return Metric(*ends)  # type: ignore[arg-type]

    return Baseline(
        told=told,
        metric=metric,
        value=report.metrics[metric],
        rivals={name: scores[metric] for name, scores in report.baselines.items()},
        gains={name: gain(name) for name in report.baselines},
        drawn=tuple(
            replace(figure, name="baseline")
            for figure in report.figures
            if figure.name == "baselines"
        ),
    )
