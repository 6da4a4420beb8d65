r"""jsonl and parquet: every value as the text that was written, and nulls never silent."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from bothways.data.json_lines import split_object
from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.errors import DataError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def read(folder: Path, content: str) -> list[Row]:
    path = folder / "a.jsonl"
    path.write_bytes(content.encode())
    return list(read_rows(path))


def test_numbers_and_booleans_keep_their_spelling() -> None:
    source = '{"a": 1.50, "b": 1E5, "c": -0, "d": true, "e": "01", "f": [1.0, {"x": 2.50}]}'
    cells, nulls = split_object(source)
    assert cells == {
        "a": "1.50",
        "b": "1E5",
        "c": "-0",
        "d": "true",
        "e": "01",
        "f": '[1.0, {"x": 2.50}]',
    }
    assert nulls == []
    assert split_object(" { } ") == ({}, [])
    assert split_object('{"n": ' + "9" * 5000 + "}")[0]["n"] == "9" * 5000


@given(st.dictionaries(st.text(), JSON, max_size=5), st.sampled_from([None, 1]))
def test_cells_mean_what_json_means(value: dict[str, object], indent: int | None) -> None:
    cells, nulls = split_object(json.dumps(value, indent=indent))
    assert list(cells) == list(value)
    assert nulls == [key for key, inner in value.items() if inner is None]
    for key, inner in value.items():
        if isinstance(inner, str):
            assert cells[key] == inner
        elif inner is not None:
            assert json.loads(cells[key]) == inner


def test_null_is_empty_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": null, "label": "null"}\n{"text": "a", "label": null}\n' * 2)
    rows = read_rows(path)
    cells = [dict(row.cells) for row in rows]
    assert cells[:2] == [{"text": "", "label": "null"}, {"text": "a", "label": ""}]
    assert rows.nulls == {"text": 2, "label": 2}
    assert "null read as empty text: 2 in 'text', 2 in 'label'" in caplog.text
    assert len(caplog.records) == 1
    assert next(rows, None) is None
    assert len(caplog.records) == 1


def test_lines_are_counted_over_blank_ones(tmp_path: Path) -> None:
    rows = read(tmp_path, '{"a": "x"}\n\n  \r\n{"a": "y\\n"}\r\n{"a": "z"}')
    assert [(row.line, row.cells["a"]) for row in rows] == [(1, "x"), (4, "y\n"), (5, "z")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "'{' expected at character 1"),
        ("[1, 2]", "'{' expected at character 1"),
        ('"text"', "'{' expected at character 1"),
        ('{"a": 1', "',' expected at character 8"),
        ('{"a" 1}', "':' expected at character 6"),
        ('{"a": }', "Expecting value"),
        ("{1: 2}", "a key in quotes expected at character 2"),
        ('{"a": 1} {"b": 2}', "more after the object, at character 10"),
        ('{"a": 1, "a": 2}', "key 'a' stands twice"),
        ('{"a": "\t"}', "Invalid control character"),
        ('{"a": ' + "[" * 100_000, "recursion"),
    ],
)
def test_lines_that_are_no_object_are_all_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, f'{{"a": "fine"}}\n{line}\n{{"a": "fine"}}\n{line}\n')
    message = str(caught.value)
    assert "a.jsonl: lines that are not one JSON object of proper text: 2" in message
    assert "line 2: " in message
    assert "line 4: " in message
    assert said in message


@pytest.mark.parametrize(
    "line",
    [
        r'{"text": "a \ud83d b"}',
        r'{"text": "\uDE02"}',
        r'{"\ud800": "key"}',
        r'{"text": ["deep", {"x": "\udfff"}]}',
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl(.|\n)*line 2: half of a surrogate pair"):
        read(tmp_path, f'{{"text": "fine"}}\n{line}\n')


def test_whole_surrogate_pairs_and_written_backslashes_are_text(tmp_path: Path) -> None:
    rows = read(tmp_path, '{"text": "\\ud83d\\ude02"}\n{"text": "C:\\\\ud800"}\n')
    assert [row.cells["text"] for row in rows] == ["\U0001f602", "C:\\ud800"]


def test_parquet_values_are_text(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "text": ["NA", None, "01"],
            "whole": [1, 2, None],
            "real": pyarrow.array([1.5, 0.1, 3.25], pyarrow.float32()),
            "flag": [True, False, True],
            "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
            "money": [decimal.Decimal("1.50")] * 3,
            "day": [datetime.date(2024, 2, 29)] * 3,
            "spans": [[{"start": 1, "label": "é"}], [], None],
            "nothing": pyarrow.nulls(3),
        }
    )
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    rows = read_rows(path)
    first, second, third = rows
    assert dict(first.cells) == {
        "text": "NA",
        "whole": "1",
        "real": "1.5",
        "flag": "true",
        "kind": "x",
        "money": "1.50",
        "day": "2024-02-29",
        "spans": '[{"start": 1, "label": "é"}]',
        "nothing": "",
    }
    assert (second.cells["text"], second.cells["real"], second.cells["spans"]) == ("", "0.1", "[]")
    assert (third.line, third.cells["whole"], third.cells["spans"]) == (3, "", "")
    assert {key: count for key, count in rows.nulls.items() if count} == {
        "text": 1,
        "whole": 1,
        "spans": 1,
        "nothing": 3,
    }


def test_parquet_streams_over_batches_and_through_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [str(number) for number in range(9000)]
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=1000)
    rows = list(read_rows(path))
    assert [row.cells["text"] for row in rows] == texts
    assert rows[-1].line == 9000
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(list(read_rows(packed))) == 9000


def test_parquet_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    parquet.write_table(pyarrow.table({"text": ["a"]}), path)
    assert read_rows(path).format == "parquet"


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([b"\xff\xfe"]),
        pyarrow.array([{"bytes": b"\x00"}]),
        pyarrow.StringArray.from_buffers(
            1,
            pyarrow.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"),
            pyarrow.py_buffer(b"\xff"),
        ),
    ],
)
def test_parquet_columns_that_are_no_text_are_named(tmp_path: Path, column: pyarrow.Array) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a"], "image": column}), path)
    with pytest.raises(DataError, match=r"column 'image' of type .* is no text"):
        list(read_rows(path))


def test_damaged_parquet_and_doubled_names(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a"] * 100}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not valid parquet"):
        list(read_rows(path))
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names=["text", "text"])
    parquet.write_table(twice, path)
    with pytest.raises(DataError, match="same name: 'text'"):
        list(read_rows(path))


def test_an_empty_parquet_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), path)
    with pytest.raises(DataError, match="has no rows"):
        list(read_rows(path))
