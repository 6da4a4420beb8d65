"""A report as one HTML page: no network, no script, readable on a phone, in print and by ear.

The markup and the colours are in `page.html.jinja`, the drawings in `figures.py`, the first
sentences in `sentences.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup

from bothways.evaluation.result import Finding, Report, Severity, Table
from bothways.report.cells import (
    cell,
    figure_table,
    ledger_table,
    numeric_columns,
    other_tables,
    score_table,
    with_intervals,
)
from bothways.report.figures import draw
from bothways.report.sentences import sentences, tally

# Beside the word, so that severity shows in shape as well as in colour.
SIGNS: dict[Severity, str] = {"alarm": "▲", "note": "●", "fine": "✓", "not asked": "○"}


@dataclass(frozen=True)
class PageTable:
    """A table ready for the template.

    Attributes:
        name, title: of the table.
        heads: heading and whether its column is set right.
        rows: cells as text, what follows in small, and whether it is set right.
    """

    name: str
    title: str
    heads: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[tuple[str, str, bool], ...], ...]


@dataclass(frozen=True)
class PageFigure:
    """A figure ready for the template.

    Attributes:
        name, title: of the figure.
        svg: drawn.
        table: its numbers.
    """

    name: str
    title: str
    svg: Markup
    table: PageTable


@dataclass(frozen=True)
class Shown:
    """What stands with the findings of a question.

    Attributes:
        question: its name.
        findings: worst first.
        figures, tables: that show what it found.
    """

    question: str
    findings: tuple[Finding, ...]
    figures: tuple[PageFigure, ...]
    tables: tuple[PageTable, ...]


def render_html(report: Report) -> str:
    """The whole page.

    Example:
        >>> page = render_html(Report("classify", "m", "d", {}))
        >>> page.startswith("<!doctype html>"), "http:" in page
        (True, False)
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bothways.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=True,
    )
    environment.filters |= {"flags": _flags, "breakable": _breakable}
    figures = [
        PageFigure(
            figure.name,
            figure.title,
            Markup(draw(figure)),  # drawn by ourselves from escaped text
            _page_table(figure_table(figure, report)),
        )
        for figure in report.figures
    ]
    tables = [_page_table(table) for table in (*other_tables(report), ledger_table(report))]
    shown = [
        Shown(
            question,
            tuple(finding for finding in report.findings if finding.question == question),
            tuple(figure for figure in figures if _belongs(figure.name, question)),
            tuple(table for table in tables if _belongs(table.name, question)),
        )
        for question in dict.fromkeys(finding.question for finding in report.findings)
    ]
    placed = {figure.name for one in shown for figure in one.figures}
    placed |= {table.name for one in shown for table in one.tables}
    return environment.get_template("page.html.jinja").render(
        report=report,
        sentences=sentences(report),
        tally=tally(report),
        signs=SIGNS,
        cell=cell,
        scores=_page_table(score_table(report)),
        questions=shown,
        figures=[figure for figure in figures if figure.name not in placed],
        tables=[table for table in tables if table.name not in placed],
    )


def _belongs(name: str, question: str) -> bool:
    """Whether a figure or table shows what a question found."""
    return name == question or name.startswith(f"{question}_")


def _page_table(table: Table) -> PageTable:
    right = numeric_columns(table)
    shown = with_intervals(table)
    flags = [name in right for name in shown.columns]
    return PageTable(
        table.name,
        table.title,
        tuple(zip(shown.columns, flags, strict=True)),
        tuple(
            tuple((*_split(cell(value)), flag) for value, flag in zip(row, flags, strict=True))
            for row in shown.rows
        ),
    )


def _flags(text: str) -> Markup:
    """A sentence with its command-line flags set as code, which no line break divides."""
    pieces = re.split(r"(?<!\w)(--[a-z][a-z-]*)", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else piece
        for number, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """A name that may be divided after an underscore."""
    return Markup("_<wbr>").join(text.split("_"))


def _split(text: str) -> tuple[str, str]:
    """A score and its interval, `0.812 [0.790, 0.834]`, apart; any other text whole."""
    value, bracket, interval = text.partition(" [")
    is_score = bracket and value.replace(".", "").replace("-", "").isdigit()
    return (value, bracket.strip() + interval) if is_score else (text, "")
