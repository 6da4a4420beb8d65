"""Options of files: given, stored, and one over the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.config import CommonSettings
from bothways.data.options import FileOptions
from bothways.errors import UsageError

options = st.builds(
    FileOptions,
    format=st.sampled_from([None, "auto", "csv", "tsv"]),
    encoding=st.sampled_from([None, "latin-1"]),
    header=st.sampled_from([None, True, False]),
    quoting=st.sampled_from([None, True, False]),
)


@given(options, options)
def test_what_is_said_overrules_what_is_stored(said: FileOptions, stored: FileOptions) -> None:
    both = said.over(stored)
    for name, value in said.state().items():
        assert getattr(both, name) == (getattr(stored, name) if value is None else value)


@given(options)
def test_options_come_back_from_json(some: FileOptions) -> None:
    state = json.loads(json.dumps({**some.state(), "a later option": 3}))
    assert FileOptions.from_state(state) == some


def test_files_are_read_as_the_options_say(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_bytes('"caf\xe9"\t1\n"x\t2\n'.encode("latin-1"))
    given = FileOptions(format="tsv", encoding="latin-1", header=False, quoting=False)
    assert [dict(row.cells) for row in given.rows(file)] == [
        {"1": '"café"', "2": "1"},
        {"1": '"x', "2": "2"},
    ]


def test_auto_takes_back_a_stored_format(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"text": "a, b"}\n', encoding="utf-8")
    stored = FileOptions(format="tsv", header=False)
    unset = FileOptions.of(CommonSettings()).over(stored)
    assert [dict(row.cells) for row in unset.rows(file)] == [{"1": '{"text": "a, b"}'}]
    auto = FileOptions.of(CommonSettings(format="auto", header=True)).over(stored)
    assert [dict(row.cells) for row in auto.rows(file)] == [{"text": "a, b"}]


def test_nothing_said_is_utf8_with_a_header_and_quotes(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text('text,label\n"é, è",1\n', encoding="utf-8")
    (row,) = FileOptions().rows(file)
    assert dict(row.cells) == {"text": "é, è", "label": "1"}


def test_a_stored_format_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("text\na\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no format 'cvs'; did you mean 'csv'"):
        FileOptions.from_state({"format": "cvs"}).rows(tmp_path / "data.csv")
