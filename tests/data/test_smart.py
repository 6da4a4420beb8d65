"""Documents and queries in SMART format, and relevance judgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.data.smart import read_qrels
from bothways.errors import DataError


def smart(folder: Path, content: str) -> list[Row]:
    path = folder / "a.qry"
    path.write_bytes(content.encode())
    return list(read_rows(path, format="smart"))


def qrels(folder: Path, content: str) -> list[tuple[str, ...]]:
    path = folder / "qrels"
    path.write_bytes(content.encode())
    return [tuple(row.cells.values()) for row in read_qrels(path)]


def test_records_with_fields_over_lines(tmp_path: Path) -> None:
    rows = smart(tmp_path, ".I 001\n.T\na title\n.W\nfirst\n\n.5 of it\n.I 004\n.W\n.N\nx\n")
    assert [dict(row.cells) for row in rows] == [
        {"id": "001", "number": "1", "title": "a title", "text": "first\n\n.5 of it"},
        {"id": "004", "number": "2", "text": "", "N": "x"},
    ]
    assert [row.line for row in rows] == [1, 8]


@pytest.mark.parametrize(
    ("content", "line"), [("text\n.I 1\n", 1), ("\n.W\ntext\n", 2), (".I 1\nx\n", 2)]
)
def test_text_before_a_field_is_an_error(tmp_path: Path, content: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"line {line}: .*before any field"):
        smart(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        "1 184 2 \n1 29 -1\r\n\n2   7   0.5",
        "1 0 184 2\n1 0 29 -1\n2 0 7 0.5\n",
        "query-id\tcorpus-id\tscore\n1\t184\t2\n1\t29\t-1\n2\t7\t0.5\n",
    ],
)
def test_judgements_of_three_and_four_columns(tmp_path: Path, content: str) -> None:
    assert qrels(tmp_path, content) == [("1", "184", "2"), ("1", "29", "-1"), ("2", "7", "0.5")]


def test_lines_that_are_no_judgements_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: '1 184 good'"):
        qrels(tmp_path, "1 184 good\n1 29 2\n")
    with pytest.raises(DataError, match=r"no judgements: 2\n  line 2: '1 5'\n  line 4: '1 5 good'"):
        qrels(tmp_path, "1 4 2\n1 5\n1 5 2\n1 5 good\n")


def test_a_file_without_judgements_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no judgements"):
        qrels(tmp_path, "query-id\tcorpus-id\tscore\n")
