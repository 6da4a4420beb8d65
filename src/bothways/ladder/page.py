"""The page of a choice: every candidate with its cost, what it reached, and why it ended there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from bothways.evaluation.result import Finding, Report, Table
from bothways.ladder.deciding import Bar
from bothways.ladder.entries import Entry

if TYPE_CHECKING:
    from bothways.ladder.choose import ChooseResult


def ladder_report(result: ChooseResult, bar: Bar) -> Report:
    """The report of the model that is saved, with what led to it in front."""
    report = result.report
    return dataclasses.replace(
        report,
        findings=(choice_finding(result, bar), *report.findings),
        tables=(ladder_table(result, bar), *report.tables),
    )


def choice_finding(result: ChooseResult, bar: Bar) -> Finding:
    """What was chosen and what it cost, in words."""
    spent = (
        f"{clock(result.spent_seconds)} were spent; fine-tuning all would have taken about "
        f"{clock(result.all_seconds)}."
    )
    goal = f"{bar.metric} {'>=' if bar.direction == 1 else '<='} {bar.target:g}"
    tested = result.report.metrics[bar.metric]
    best = next(entry for entry in result.entries if entry.source == result.best)
    if result.chosen is None:
        text = (
            f"No candidate is shown to reach {goal}. The best, {result.best}, has {best.why} on "
            f"what chooses, and {tested} on what nothing was chosen by. {spent}"
        )
        return Finding("choice", "alarm", text)
    text = (
        f"{result.chosen} is the cheapest that reaches {goal}: {best.why} on what chooses "
        f"(holds for all {bar.looks} looks together with 95 %), and {tested} on what nothing was "
        f"chosen by. {spent}"
    )
    return Finding("choice", "fine" if result.target_met else "alarm", text)


def ladder_table(result: ChooseResult, bar: Bar) -> Table:
    """A row a candidate, cheapest first."""
    columns = (
        "candidate",
        "outcome",
        bar.metric,
        f"{bar.metric} low",
        f"{bar.metric} high",
        "ms a text",
        "memory (MB)",
        "size (MB)",
        "seconds",
        "why",
    )
    rows = tuple(_row(entry) for entry in result.entries)
    return Table("ladder", "The candidates, cheapest first", columns, rows)


def _row(entry: Entry) -> tuple[str | float | None, ...]:
    cost, rung = entry.cost, entry.rung
    return (
        entry.source,
        entry.outcome,
        *((None, None, None) if rung is None else rung.score.cells),
        None if cost is None else round(cost.latency_ms, 2),
        None if cost is None or cost.memory_mb is None else round(cost.memory_mb, 1),
        None if cost is None else round(cost.size_mb, 1),
        round(entry.seconds, 1) if rung is not None else None,
        entry.why,
    )


def clock(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
