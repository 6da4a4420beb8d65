"""A report as text: Markdown for report.md, tables for the terminal.

The page is in `page.py`; both say the same, in the same order, worst first.
"""

from __future__ import annotations

from bothways.evaluation.result import Report, Table
from bothways.report.cells import (
    cell,
    figure_table,
    ledger_table,
    numeric_columns,
    other_tables,
    score_table,
    with_intervals,
)
from bothways.report.sentences import sentences

# Rows of a table that a terminal shows; report.json has all.
ROWS_SHOWN = 20
# A wider table cannot be read there; it is on the page.
COLUMNS_SHOWN = 10


def render_markdown(report: Report) -> str:
    """The content of report.md."""
    parts = [
        f"# {report.model} on {report.data}",
        "\n".join(f"{number}. {text}" for number, text in enumerate(sentences(report), 1)),
        "## Scores",
        _markdown_table(score_table(report)) if report.metrics else "None.",
        "## Findings, worst first",
        "\n".join(f"- **{f.severity}**, {f.question}: {f.text}" for f in report.findings)
        or "None.",
    ]
    tables = [figure_table(figure, report) for figure in report.figures if figure.name != "scores"]
    for table in (*tables, *other_tables(report), ledger_table(report)):
        parts += [f"## {table.title}", _markdown_table(table)]
    parts += ["## Made with", ", ".join(f"{name} {v}" for name, v in report.versions.items())]
    return "\n\n".join(parts) + "\n"


def render_text(report: Report, *, width: int = 100, colour: bool = False) -> str:
    """The report for a terminal: five sentences, scores, findings and the tables that fit.

    Args:
        report: what was found.
        width: of the terminal in columns.
        colour: whether to write escape codes for colours and bold.
    """
    import io

    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False
    )
    for sentence in sentences(report):
        console.print(Text(sentence))
    tables = [table for table in (score_table(report), *report.tables) if table.rows]
    for table in tables:
        if len(table.columns) > COLUMNS_SHOWN:
            console.print()
            console.print(
                Text(f"{table.title}: {len(table.columns)} columns, in the report's files")
            )
            continue
        rest = len(table.rows) - ROWS_SHOWN
        more = f" (the first {ROWS_SHOWN} of {len(table.rows)})" if rest > 0 else ""
        console.print()
        console.print(Text(table.title + more, style="bold"))
        console.print(_rich_table(table))
    console.print()
    for finding in report.findings:
        style = {"alarm": "bold red", "note": "yellow", "fine": "green"}.get(
            finding.severity, "dim"
        )
        label = Text(f"{finding.severity}: {finding.question}. ", style=style)
        console.print(label.append(Text(finding.text, style="")))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _markdown_table(table: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        escaped = (text.replace("\\", "\\\\").replace("|", "\\|") for text in cells)
        return "| " + " | ".join(" ".join(text.split()) for text in escaped) + " |"

    right = numeric_columns(table)
    shown = with_intervals(table)
    rule = "|" + "|".join("---:" if name in right else "---" for name in shown.columns) + "|"
    rows = [line(tuple(map(cell, row))) for row in shown.rows]
    return "\n".join([line(shown.columns), rule, *rows])


def _rich_table(table: Table) -> object:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    right = numeric_columns(table)
    shown = with_intervals(table)
    for name in shown.columns:
        grid.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in shown.rows[:ROWS_SHOWN]:
        grid.add_row(*(Text(cell(value)) for value in row))
    return grid
