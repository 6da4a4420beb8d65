"""The tables and plots of a choice: every candidate with its cost, what it reached, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bothways.evaluation.result import Figure, Series, Table, interval_columns
from bothways.ladder.costs import Cost
from bothways.ladder.deciding import Bar
from bothways.ladder.entries import Entry

# Name of the plot -> what lies across, and its unit.
ACROSS: dict[str, tuple[str, Callable[[Cost], float | None]]] = {
    "latency": ("milliseconds a text", lambda cost: cost.latency_ms),
    "memory": ("memory at work (MB)", lambda cost: cost.memory_mb),
    "size": ("weights (MB)", lambda cost: cost.size_mb),
}


def ladder_tables(entries: Sequence[Entry], bar: Bar) -> tuple[Table, ...]:
    """The candidates with costs and scores, with the reasons, and with the evidence."""
    columns = (
        "candidate",
        "outcome",
        *interval_columns(bar.metric),
        "ms a text",
        "memory (MB)",
        "size (MB)",
        "training (s)",
    )
    titles = {
        "ladder": f"The candidates, cheapest first; {bar.metric} on what chooses, in bounds that "
        "hold for all looks together",
        "reasons": "Why each ended where it did",
        "evidence": "Cheap evidence, from frozen states of what is learned from",
    }
    reasons = tuple((entry.name, entry.outcome, entry.why) for entry in entries)
    tables = [
        Table("ladder", titles["ladder"], columns, tuple(map(_row, entries))),
        Table("reasons", titles["reasons"], ("candidate", "outcome", "why"), reasons),
    ]
    asked = [entry for entry in entries if entry.evidence is not None]
    if asked:
        rows = tuple(
            (entry.name, entry.evidence.probe, entry.evidence.neighbours, entry.evidence.logme)
            for entry in asked
            if entry.evidence is not None
        )
        heads = ("candidate", "linear probe", "nearest neighbours", "LogME")
        tables.append(Table("evidence", titles["evidence"], heads, rows))
    return tuple(tables)


def _row(entry: Entry) -> tuple[str | float | None, ...]:
    cost, rung = entry.cost, entry.rung
    return (
        entry.name,
        entry.outcome,
        *((None, None, None) if rung is None else rung.score.cells),
        None if cost is None else round(cost.latency_ms, 2),
        None if cost is None or cost.memory_mb is None else round(cost.memory_mb, 1),
        None if cost is None else round(cost.size_mb, 1),
        None if rung is None else round(entry.seconds, 1),
    )


def pareto_figures(entries: Sequence[Entry], bar: Bar) -> tuple[Figure, ...]:
    """The score of those that were tried over each cost, with the target across."""
    figures = []
    tried = [
        (entry, entry.cost)
        for entry in entries
        if entry.rung is not None and entry.cost is not None
    ]
    for name, (label, across) in ACROSS.items():
        series = tuple(
            _point(entry, place) for entry, cost in tried if (place := across(cost)) is not None
        )
        if series:
            title = f"{bar.metric} by {label}, in bounds that hold for all looks together"
            level = (f"target {bar.target:g}", bar.target)
            figures.append(Figure(name, title, "scatter", label, bar.metric, series, level))
    return tuple(figures)


def _point(entry: Entry, across: float) -> Series:
    assert entry.rung is not None
    score = entry.rung.score
    low, high = (score.value if end is None else end for end in (score.low, score.high))
    return Series(entry.name, (across,), (score.value,), (low,), (high,))
