"""SQuAD: one row a question, grouped by paragraph, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.data.squad import SQUAD_COLUMNS
from bothways.errors import DataError

DOCUMENT: dict[str, Any] = {
    "version": "v2.0",
    "data": [
        {
            "title": "Cats",
            "paragraphs": [
                {
                    "context": "Cats purr – é.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "What do cats do?",
                            "answers": [{"text": "purr", "answer_start": 5}],
                        },
                        {"id": "ü2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                },
                {"context": "Dogs bark.", "qas": [{"id": "q3", "question": "And dogs?"}]},
            ],
        },
        {"paragraphs": [{"context": "No title.", "qas": [{"id": "q4", "question": "Title?"}]}]},
    ],
}


def read(folder: Path, content: str) -> list[Row]:
    path = folder / "a.json"
    path.write_bytes(content.encode())
    return list(read_rows(path, format="squad"))


@pytest.mark.parametrize("ascii_only", [True, False])
def test_questions_with_their_contexts(tmp_path: Path, ascii_only: bool) -> None:
    rows = read(tmp_path, json.dumps(DOCUMENT, indent=1, ensure_ascii=ascii_only))
    assert [row.cells["id"] for row in rows] == ["q1", "ü2", "q3", "q4"]
    assert [row.cells["paragraph"] for row in rows] == ["1", "1", "2", "3"]
    assert [row.cells["title"] for row in rows] == ["Cats", "Cats", "Cats", ""]
    assert [row.cells["is_impossible"] for row in rows] == ["false", "true", "false", "false"]
    assert rows[1].cells["context"] == "Cats purr – é."
    assert json.loads(rows[0].cells["answers"]) == [{"text": "purr", "answer_start": 5}]
    assert [rows[1].cells["answers"], rows[2].cells["answers"]] == ["[]", "[]"]
    assert all(tuple(row.cells) == SQUAD_COLUMNS for row in rows)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_lines_are_those_of_the_ids(tmp_path: Path, ascii_only: bool) -> None:
    source = json.dumps(DOCUMENT, indent=1, ensure_ascii=ascii_only)
    lines = source.split("\n")
    for row in read(tmp_path, source):
        spelt = json.dumps(row.cells["id"], ensure_ascii=ascii_only)
        assert f'"id": {spelt}' in lines[row.line - 1]
    assert {row.line for row in read(tmp_path, json.dumps(DOCUMENT))} == {1}


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.json, line 2: not valid JSON"):
        read(tmp_path, '{"data":\n oops}')
    with pytest.raises(DataError, match="line 1: not valid JSON: maximum recursion"):
        read(tmp_path, "[" * 100_000)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "the file has no list 'data'"),
        ("[]", "the file has no list 'data'"),
        ('{"data": [1]}', r"data\[0\] has no list 'paragraphs'"),
        ('{"data": [{"paragraphs": [{}]}]}', r"paragraphs\[0\] has no text 'context'"),
        (
            '{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": 1}]}]}]}',
            r"data\[0\]\.paragraphs\[0\]\.qas\[0\] has no text 'id'",
        ),
    ],
)
def test_what_the_format_lacks_is_named(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, content)


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    source = json.dumps(DOCUMENT).replace("Dogs bark", r"Dogs \ud800 bark")
    with pytest.raises(DataError, match="half of a surrogate pair"):
        read(tmp_path, source)
