"""csv, tsv and `label text` lines: cells stay as they are, lines are right, nothing is lost."""

from __future__ import annotations

import csv
import io
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.errors import DataError


def read(
    folder: Path,
    content: str | bytes,
    name: str = "a.csv",
    *,
    header: bool = True,
    quoting: bool = True,
) -> list[Row]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_rows(path, header=header, quoting=quoting))


def values(rows: list[Row]) -> list[list[str]]:
    return [list(row.cells.values()) for row in rows]


def test_cells_are_never_interpreted(tmp_path: Path) -> None:
    odd = ["NA", "None", "null", "nan", "01", "1.0", "1e3", "true", "", " ", "-", "N/A"]
    content = "text,label\n" + "".join(f"{value},x\n" for value in odd)
    assert [row.cells["text"] for row in read(tmp_path, content)] == odd


def test_quotes_commas_and_line_ends_inside_a_cell(tmp_path: Path) -> None:
    content = 'text,label\n"a, ""b""\nsecond\n\nfourth",1\nplain,2\n"x",3\n'
    rows = read(tmp_path, content)
    assert values(rows) == [['a, "b"\nsecond\n\nfourth', "1"], ["plain", "2"], ["x", "3"]]
    assert [row.line for row in rows] == [2, 6, 7]
    assert rows[1].place == f"{tmp_path / 'a.csv'}, line 6"


def test_windows_line_ends_keep_out_of_cells_but_stay_inside_quotes(tmp_path: Path) -> None:
    rows = read(tmp_path, 'text,label\r\na,1\r\n"b\r\nc",2\r\n')
    assert values(rows) == [["a", "1"], ["b\r\nc", "2"]]
    assert [row.line for row in rows] == [2, 3]


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=2),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([("a.csv", ","), ("a.tsv", "\t")]),
)
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]], kind: tuple[str, str]
) -> None:
    name, delimiter = kind
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([["text", "label"], *table])
    rows = read(tmp_path_factory.mktemp("csv"), buffer.getvalue(), name)
    assert values(rows) == table


def test_a_nul_stays_for_the_tokenizer_to_count(tmp_path: Path) -> None:
    assert values(read(tmp_path, b"text,label\na\x00b,1\n\x00,2\n")) == [["a\0b", "1"], ["\0", "2"]]


def test_a_cell_of_a_million_characters(tmp_path: Path) -> None:
    text = "word " * 200_000
    assert read(tmp_path, f'text,label\n"{text}",1\n')[0].cells["text"] == text


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert list(read(tmp_path, b"\xef\xbb\xbftext,label\na,1\n")[0].cells) == ["text", "label"]


def test_without_header_columns_are_numbers(tmp_path: Path) -> None:
    rows = read(tmp_path, "a,1\nb,2\n", header=False)
    assert [dict(row.cells) for row in rows] == [{"1": "a", "2": "1"}, {"1": "b", "2": "2"}]
    assert [row.line for row in rows] == [1, 2]


def test_names_lose_spaces_and_unnamed_columns_get_their_number(tmp_path: Path) -> None:
    assert list(read(tmp_path, ", text ,label\n0,a,1\n")[0].cells) == ["1", "text", "label"]


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1: columns with the same name: 'a'.*--no-header"):
        read(tmp_path, "a,b,a\n1,2,3\n")


@pytest.mark.parametrize("header", [True, False])
def test_all_ragged_rows_are_named_in_one_error(tmp_path: Path, header: bool) -> None:
    content = "text,label\na,1\nb, c,2\nd,3\ne\n" + "f,4,5\n" * 12
    with pytest.raises(DataError) as caught:
        read(tmp_path, content, header=header)
    message = str(caught.value)
    assert "rows that do not have 2 cells: 14" in message
    assert "line 3: 3, starting with 'b'" in message
    assert "line 5: 1, starting with 'e'" in message
    assert "and 4 more" in message
    assert "put cells that hold a comma in quotes" in message


def test_no_row_is_handed_out_after_a_ragged_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,1\nb\nc,1\n")
    rows = read_rows(path)
    assert next(rows).cells["text"] == "a"
    with pytest.raises(DataError, match="line 3"):
        next(rows)


def test_extra_columns_are_allowed_where_neither_header_nor_quoting_says_otherwise(
    tmp_path: Path,
) -> None:
    rows = read(tmp_path, "a\tb\nc\td\te\n", "a.tsv", header=False, quoting=False)
    assert values(rows) == [["a", "b"], ["c", "d", "e"]]
    with pytest.raises(DataError, match="line 2: 3"):
        read(tmp_path, "a\tb\nc\td\te\n", "a.tsv", quoting=False)


def test_blank_lines_are_skipped_but_are_empty_texts_in_a_single_column(tmp_path: Path) -> None:
    assert values(read(tmp_path, "a,b\n\n1,2\n  \n\n3,4\n\n")) == [["1", "2"], ["3", "4"]]
    assert values(read(tmp_path, "text\none\n\ntwo\n")) == [["one"], [""], ["two"]]
    plain = read(tmp_path, "one\n\ntwo\n", "a.tsv", header=False, quoting=False)
    assert values(plain) == [["one"], [""], ["two"]]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('a,b\n1,2\n"x" y,2\n', 3),
        ('a,b\n1,2\n\n"open,2\nmore,3\n', 4),
        ("a,b\n1,2\nx\ry,2\n", 3),
    ],
)
def test_quotes_that_do_not_fit_name_the_record(tmp_path: Path, content: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"line {line}: the quotes do not fit.*--no-quoting"):
        read(tmp_path, content)


def test_without_quoting_a_quote_is_a_character(tmp_path: Path) -> None:
    rows = read(tmp_path, 'a\tb\n"x" y\t"\n"\tz\n', "a.tsv", quoting=False)
    assert values(rows) == [['"x" y', '"'], ['"', "z"]]


def test_a_quote_that_swallowed_lines_of_a_tsv_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    swallowed = 'text\tlabel\n"foo\t0\nbar"\t1\n'
    assert values(read(tmp_path, swallowed, "a.tsv")) == [["foo\t0\nbar", "1"]]
    assert "line 2: a quoted cell goes over several lines" in caplog.text
    assert "--no-quoting" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read(tmp_path, 'text\tlabel\n"foo\nbar"\t1\n', "a.tsv")
    assert not caplog.records


@pytest.mark.parametrize("content", ["text,label\n", "text,label", "\n\n", "\ufeff"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match=r"a\.csv has no rows"):
        read(tmp_path, content)


def test_label_text_splits_once_and_keeps_the_rest(tmp_path: Path) -> None:
    rows = read(tmp_path, "0 a  b \n1\tc\n\n01   d\te\r\n2 \n3 \u00a0f\n", "a.all")
    assert [(row.cells["label"], row.cells["text"]) for row in rows] == [
        ("0", "a  b "),
        ("1", "c"),
        ("01", "d\te"),
        ("2", ""),
        ("3", "\u00a0f"),
    ]
    assert [row.line for row in rows] == [1, 2, 4, 5, 6]


def test_label_text_columns_may_be_numbers(tmp_path: Path) -> None:
    assert dict(read(tmp_path, "0 a\n1 b\n", "a.all", header=False)[0].cells) == {
        "1": "0",
        "2": "a",
    }


def test_each_line_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('1 "a", b\t\n\ntext\n', encoding="utf-8")
    rows = list(read_rows(path, format="lines"))
    assert [(row.cells["text"], row.line) for row in rows] == [
        ('1 "a", b\t', 1),
        ("", 2),
        ("text", 3),
    ]
    assert [list(row.cells) for row in read_rows(path, format="lines", header=False)] == [["1"]] * 3


def test_label_text_names_lines_of_one_word(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 a\nword\n1 b\nother\n")
    with pytest.raises(DataError, match=r"no text after it: 2\n  line 2: 'word'\n  line 4"):
        list(read_rows(path, format="label-text"))
