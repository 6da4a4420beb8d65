"""Markdown, the terminal, and the numbers as readers see them."""

from __future__ import annotations

import re

import pytest

from bothways.evaluation.result import Figure, Series, Table
from bothways.report.cells import (
    cell,
    figure_table,
    ledger_table,
    numeric_columns,
    score_table,
    with_intervals,
)
from bothways.report.sentences import sentences
from bothways.report.text import ROWS_SHOWN, render_markdown, render_text
from tests.report.reports import AWKWARD, EMPTY, FIGURES, REPORT, TABLES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "0.123"),
        (1.0, "1.000"),
        (0.0, "0.000"),
        (224.0, "224"),
        (12345, "12,345"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        ("", "–"),
        ("tail", "tail"),
    ],
)
def test_numbers_as_readers_see_them(value: str | float | None, shown: str) -> None:
    assert cell(value) == shown


def test_scores_stand_beside_the_baselines() -> None:
    table = score_table(REPORT)
    assert table.columns == ("metric", "this model", "bag of words", "majority")
    assert table.rows == (
        ("accuracy", "0.800 [0.750, 0.850]", "0.700 [0.600, 0.800]", "–"),
        ("loss", "–", "–", "–"),
    )


def test_the_ends_of_an_interval_go_into_one_column() -> None:
    shown = with_intervals(TABLES[0])
    assert shown.columns == ("text", "count", "F1")
    assert [row[2] for row in shown.rows] == ["0.500 [0.250, 0.750]", "1.000", "–"]
    assert with_intervals(TABLES[1]).columns == TABLES[1].columns
    assert numeric_columns(TABLES[0]) == {"count", "F1", "F1 low", "F1 high"}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_every_figure_has_all_its_numbers_in_a_table(figure: Figure) -> None:
    table = figure_table(figure, REPORT)
    assert len(table.rows) == sum(len(series.y) for series in figure.series)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    for series in figure.series:
        for x, y in zip(series.x, series.y, strict=True):
            assert any(x in row and y in row for row in table.rows)


def test_one_series_needs_no_column_for_its_name() -> None:
    assert figure_table(FIGURES[1], REPORT).columns[:2] == ("slice", "accuracy")
    assert figure_table(FIGURES[0], REPORT).columns[:3] == ("series", "noise", "accuracy")
    assert figure_table(FIGURES[6], REPORT).columns[:3] == ("true", "predicted", "value")


def test_a_table_of_the_same_name_serves_a_figure() -> None:
    figure = Figure("worst", "x", "bar", "", "", (Series("a", ("b",), (1.0,)),))
    assert figure_table(figure, REPORT) is TABLES[0]


def test_the_ledger_is_told_in_words() -> None:
    rows = ledger_table(REPORT).rows
    assert ("texts that were cut", 2) in rows
    assert ("end that was cut", "tail") in rows


def test_markdown_says_all_that_the_report_holds() -> None:
    text = render_markdown(REPORT)
    for number, sentence in enumerate(sentences(REPORT), 1):
        assert f"{number}. {sentence}" in text
    for finding in REPORT.findings:
        assert f"- **{finding.severity}**, {finding.question}: {finding.text}" in text
    for title in ("Accuracy under noise", "The most confident mistakes", "Many rows"):
        assert f"## {title}\n" in text
    assert "| accuracy | 0.800 [0.750, 0.850] | 0.700 [0.600, 0.800] | – |" in text
    assert "| 39 | 1,521 |" in text
    assert "bothways 0.1.0" in text


def test_cells_do_not_break_a_markdown_table() -> None:
    lines = render_markdown(REPORT).splitlines()
    for line in (line for line in lines if line.startswith("|")):
        assert line.endswith("|")
    (row,) = [line for line in lines if "quoted" in line and "1,234" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert any("a text with two lines" in line for line in lines)


def test_the_terminal_gets_sentences_tables_and_findings() -> None:
    text = render_text(REPORT, width=120)
    flat = " ".join(text.split())
    for sentence in sentences(REPORT):
        assert " ".join(sentence.split()) in flat
    assert "alarm: artifacts. A shortcut exists" in text
    assert AWKWARD in flat
    assert max(map(len, text.splitlines())) <= 120
    assert "\x1b" not in text
    assert "\x1b" in render_text(REPORT, colour=True)


def test_the_terminal_shows_the_first_rows_of_a_long_table_and_says_so() -> None:
    text = render_text(REPORT)
    assert f"Many rows (the first {ROWS_SHOWN} of 40)" in text
    assert "361" in text
    assert "400" not in text


def test_a_narrow_terminal_loses_nothing() -> None:
    text = render_text(REPORT, width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert "0.850]" in text


def test_an_empty_report_is_text_too() -> None:
    assert "Nothing was scored" in render_markdown(EMPTY)
    assert "Nothing was scored" in render_text(EMPTY)


def test_a_metric_without_a_value_is_a_dash() -> None:
    assert "nan" not in render_markdown(REPORT).split()
    assert "nan" not in render_text(REPORT).split()


def test_tables_without_rows_are_only_headings() -> None:
    table = Table("none", "Nothing", ("a", "b"), ())
    assert with_intervals(table).rows == ()
    assert numeric_columns(table) == set()
