"""Finding the columns of a file: as told, by usual names, never by guessing."""

from __future__ import annotations

import pytest

from bothways.data.rows import Row
from bothways.errors import DataError
from bothways.tasks.columns import find_columns, refuse
from bothways.tasks.task import Columns


def rows(*names: str) -> list[Row]:
    return [Row(dict.fromkeys(names, "cell"), "data.csv", 2)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("text", "category"), Columns("text", None, "category")),
        (("Sentence", "LABEL"), Columns("Sentence", None, "LABEL")),
        (("index_id", "category", "text"), Columns("text", None, "category")),
        (("sentence1", "sentence2", "gold_label"), Columns("sentence1", "sentence2", "gold_label")),
        (("text", "text_pair", "label"), Columns("text", "text_pair", "label")),
        (("premise", "hypothesis", "label"), Columns("premise", "hypothesis", "label")),
        # "text" and "label" themselves win over other usual names.
        (("text", "comment", "label", "topic"), Columns("text", None, "label")),
    ],
)
def test_obvious_columns_are_found(names: tuple[str, ...], expected: Columns) -> None:
    assert find_columns(rows(*names), Columns(), labelled=True) == expected


@pytest.mark.parametrize("names", [("a", "b"), ("1", "2"), ("review", "comment", "label")])
def test_what_is_not_obvious_is_refused_with_the_columns_there_are(names: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="column of the text") as error:
        find_columns(rows(*names), Columns(), labelled=True)
    message = str(error.value)
    assert "--text" in message
    assert all(repr(name) in message for name in names)


def test_a_pair_beside_a_single_text_is_not_obvious() -> None:
    with pytest.raises(DataError, match="column of the text"):
        find_columns(rows("text", "premise", "hypothesis", "label"), Columns(), labelled=True)


def test_what_is_told_is_taken() -> None:
    given = Columns("b", "a", "c", "d")
    assert find_columns(rows("a", "b", "c", "d"), given, labelled=True) == given


def test_a_named_text_brings_no_pair_with_it() -> None:
    names = ("sentence1", "sentence2", "label")
    found = find_columns(rows(*names), Columns(text="sentence1"), labelled=True)
    assert found == Columns("sentence1", None, "label")


def test_a_column_serves_once() -> None:
    found = find_columns(rows("topic", "text", "target"), Columns(text="topic"), labelled=True)
    assert found.label == "target"
    found = find_columns(rows("text", "review", "label"), Columns(text_pair="text"), labelled=True)
    assert (found.text, found.text_pair) == ("review", "text")


def test_columns_that_are_not_there_are_named_together_with_the_nearest() -> None:
    given = Columns(text="txt", label="lable", group="document")
    with pytest.raises(DataError) as error:
        find_columns(rows("text", "label"), given, labelled=True)
    message = str(error.value)
    for part in ("data.csv", "--text 'txt'", "--label 'lable'", "--group 'document'"):
        assert part in message
    assert "did you mean 'text'?" in message
    assert "did you mean 'label'?" in message


def test_a_number_where_there_is_a_header_names_the_flag_for_files_without_one() -> None:
    with pytest.raises(DataError, match=r"--text '6'; it has: 'text', 'label' \(.*--no-header"):
        find_columns(rows("text", "label"), Columns(text="6"), labelled=True)


def test_where_the_first_line_may_be_data_the_flag_for_it_is_named() -> None:
    for names in (("I loved it", "pos"), ("good", "pos"), ("not good", "1")):
        with pytest.raises(DataError, match=r"is not obvious.*' \(if the first.*--no-header"):
            find_columns(rows(*names), Columns(), labelled=True)
    numbered = rows("1", "2")
    named = [Row({"a": "x", "b": "y"}, "data.jsonl", 1)]
    for given in (numbered, named):
        with pytest.raises(DataError, match="is not obvious") as error:
            find_columns(given, Columns(), labelled=True)
        assert "--no-header" not in str(error.value)


@pytest.mark.parametrize("given", [Columns("text", label="text"), Columns("a", "text", "text")])
def test_the_label_is_no_part_of_what_is_read(given: Columns) -> None:
    with pytest.raises(DataError, match="'text' is named both as text and as --label"):
        find_columns(rows("a", "text", "label"), given, labelled=True)


def test_no_label_is_looked_for_where_none_is_needed() -> None:
    found = find_columns(rows("text", "x"), Columns(label="label"), labelled=False)
    assert found == Columns("text", None, None)


def test_a_field_that_only_later_rows_have_counts() -> None:
    some = [Row({"text": "a"}, "a.jsonl", 1), Row({"text": "b", "label": "x"}, "a.jsonl", 2)]
    assert find_columns(some, Columns(), labelled=True).label == "label"


def test_all_rows_of_a_kind_are_one_error_with_ten_places() -> None:
    places = [f"a.csv, line {line}" for line in range(2, 15)]
    with pytest.raises(DataError) as error:
        refuse("rows without a label", places, "label them")
    message = str(error.value)
    assert message.startswith("rows without a label: 13\n  a.csv, line 2\n")
    assert "line 11\n  and 3 more\nlabel them" in message
