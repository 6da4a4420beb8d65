"""Numbers as readers see them, the same on the page, in Markdown and on the terminal.

Also the tables that every form shows: scores beside baselines, the ledger, and the numbers of a
figure.
"""

from __future__ import annotations

import math

from bothways.evaluation.result import Figure, Metric, Report, Table

LEDGER_WORDS = {
    "texts": "texts read",
    "texts_cut": "texts that were cut",
    "tokens": "tokens before cutting",
    "tokens_cut": "tokens cut",
    "end": "end that was cut",
    "windows": "windows made of long texts",
    "special_in_text": "special tokens typed in texts",
    "dropped_characters": "characters that became nothing",
    "targets_cut": "what was to be found, in no window whole",
}


Cell = str | float | int | None

# What three decimals would show as nothing and is more than an error of rounding: a learning rate.
SMALL = (1e-9, 5e-4)


def cell(value: Cell) -> str:
    """A value as text: three decimals, small ones in two digits, a dash for nothing.

    Example:
        >>> cell(0.12345), cell(5e-5), cell(12000), cell(None)
        ('0.123', '5e-05', '12,000', '–')
    """
    if value is None or isinstance(value, str):
        return value or "–"
    if SMALL[0] < abs(value) < SMALL[1]:
        return f"{value:.2g}"
    if isinstance(value, float) and not (value.is_integer() and abs(value) > 1):
        return "–" if math.isnan(value) else f"{value:.3f}"
    return f"{value:,.0f}"


def score_table(report: Report) -> Table:
    """Each metric of the model beside the baselines', with intervals."""
    others = tuple(name.replace("_", " ") for name in report.baselines)
    rows = tuple(
        (
            name,
            metric_cell(metric),
            *(metric_cell(scores.get(name)) for scores in report.baselines.values()),
        )
        for name, metric in report.metrics.items()
    )
    title = "Scores, with 95 % intervals in brackets"
    return Table("scores", title, ("metric", "this model", *others), rows)


def ledger_table(report: Report) -> Table:
    """What was read and what was lost."""
    ledger = report.ledger.as_dict()
    rows = tuple((words, ledger[name]) for name, words in LEDGER_WORDS.items())
    return Table("ledger", "What was read, and what was lost", ("", "count"), rows)


def figure_table(figure: Figure, report: Report) -> Table:
    """The numbers of a figure: the report's table of the same name, else one from its series."""
    for table in report.tables:
        if table.name == figure.name:
            return table
    across, up = figure.x_label or "x", figure.y_label or "y"
    # Whose names stand where: a bar's on the upright axis, a heat map's series there too.
    leading = {
        "bar": ("series", figure.y_label or "name", across),
        "heat": (up, across, "value"),
    }.get(figure.kind, ("series", across, up))
    columns = (*leading, f"{leading[2]} low", f"{leading[2]} high")
    skip = 0 if len(figure.series) > 1 or figure.kind == "heat" else 1
    rows = []
    for series in figure.series:
        nothing = (None,) * len(series.y)
        ends = (series.low or nothing, series.high or nothing)
        for x, y, low, high in zip(series.x, series.y, *ends, strict=True):
            rows.append((series.label, x, y, low, high)[skip:])
    return Table(figure.name, figure.title, columns[skip:], tuple(rows))


def with_intervals(table: Table) -> Table:
    """The table for readers: `F1`, `F1 low` and `F1 high` as one column, all cells as text."""
    places = {name: index for index, name in enumerate(table.columns)}
    ends = {
        index: (places[f"{name} low"], places[f"{name} high"])
        for name, index in places.items()
        if f"{name} low" in places and f"{name} high" in places
    }
    hidden = {place for pair in ends.values() for place in pair}
    kept = [index for index in range(len(table.columns)) if index not in hidden]
    rows = tuple(
        tuple(
            _interval_cell(row[index], row[ends[index][0]], row[ends[index][1]])
            if index in ends
            else cell(row[index])
            for index in kept
        )
        for row in table.rows
    )
    columns = tuple(table.columns[index] for index in kept)
    return Table(table.name, table.title, columns, rows)


def numeric_columns(table: Table) -> set[str]:
    """Names of the columns that are set to the right."""
    return {
        name
        for index, name in enumerate(table.columns)
        if table.rows and all(not isinstance(row[index], str) for row in table.rows)
    }


def other_tables(report: Report) -> list[Table]:
    """The tables that stand beside no figure."""
    drawn = {figure.name for figure in report.figures}
    return [table for table in report.tables if table.name not in drawn]


def metric_cell(metric: Metric | None) -> str:
    """A metric as text; a dash for none."""
    return "–" if metric is None or math.isnan(metric.value) else str(metric)


def _interval_cell(value: Cell, low: Cell, high: Cell) -> str:
    if low is None or high is None or low == high:
        return cell(value)
    return f"{cell(value)} [{cell(low)}, {cell(high)}]"
