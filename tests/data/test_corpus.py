"""Documents of raw files: where they end, what is left out, what is refused."""

from __future__ import annotations

import gzip
import importlib.util
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from bothways.data.corpus import Boundary, Corpus, stream_rows
from bothways.errors import DataError, MissingExtraError

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str | bytes, name: str = "a.txt") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


BLOCKS = "\n\none\ntwo\r\n \t\nthree\n\n\n\nfour\n\n"


@pytest.mark.parametrize(
    ("text", "boundary", "expected"),
    [
        (BLOCKS, "blank-line", ["one\ntwo", "three", "four"]),
        (BLOCKS, "line", ["one", "two", "three", "four"]),
        (BLOCKS, "file", [BLOCKS.replace("\r", "")[:-1]]),
        ("one\ntwo\n", "blank-line", ["one", "two"]),
        # A blank line at an end parts nothing: the lines are the documents.
        ("\n\none\ntwo\n\n", "blank-line", ["one", "two"]),
        ("\ufeffone", "blank-line", ["one"]),
        ("a\x0cb\u2028c\rd\n\ne", "blank-line", ["a\x0cb\u2028c\rd", "e"]),
        ("\n \n", "blank-line", []),
        ("\n \n", "file", []),
    ],
)
def test_documents_of_a_text_file(
    write: Write,
    text: str,
    boundary: Boundary,
    expected: list[str],
) -> None:
    assert list(Corpus((write(text),), document=boundary)) == expected


def test_each_file_decides_alone_and_the_order_is_that_of_the_inputs(
    write: Write,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines, blocks = write("x\ny\n"), write("a\nb\n\nc", "b.txt")
    caplog.set_level(logging.INFO, "bothways")
    corpus = Corpus((blocks, lines))
    assert list(corpus) == ["a\nb", "c", "x", "y"]
    assert list(corpus) == list(corpus)
    assert list(corpus.located())[-1] == (lines, "y")
    assert f"{lines} has no blank line" in caplog.text
    assert f"{blocks} has" not in caplog.text


def test_rows_are_documents(write: Write) -> None:
    rows = [{"text": "one\n\ntwo", "id": 1}, {"text": " "}, {"text": "three"}]
    jsonl = write("\n".join(map(json.dumps, rows)), "a.jsonl")
    table = pa.table({"body": ["four", None, "five"]})
    path = str(Path(jsonl).with_name("b.parquet"))
    parquet.write_table(table, path)
    packed = write(gzip.compress(b"text,n\nsix,1\n"), "c.csv.gz")
    # The only column needs no name.
    assert list(Corpus((jsonl, path, packed))) == ["one\n\ntwo", "three", "four", "five", "six"]
    assert list(Corpus((packed,), text="n")) == ["1"]


def test_a_missing_column_is_named(write: Write) -> None:
    path = write('{"content": "a", "title": "b"}\n', "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: there is no column 'text'.*content"):
        list(Corpus((path,)))


def test_packed_text_and_other_encodings_are_read(write: Write) -> None:
    packed = write(gzip.compress("é\n\nè".encode("latin-1")), "a.txt.gz")
    assert list(Corpus((packed,), encoding="latin-1")) == ["é", "è"]
    with pytest.raises(DataError, match=r"a\.txt\.gz: lines that are not utf-8"):
        list(Corpus((packed,)))


def test_empty_files_are_passed_over_and_said(
    write: Write,
    caplog: pytest.LogCaptureFixture,
) -> None:
    empty = write("", "empty.txt")
    assert list(Corpus((empty, write("a")))) == ["a"]
    assert "empty.txt is empty" in caplog.text


def test_all_missing_files_are_named() -> None:
    with pytest.raises(DataError, match=r"x\.txt, y\.jsonl, data/z\.txt"):
        Corpus(("x.txt", "y.jsonl", "data/z.txt"))
    with pytest.raises(DataError, match="none were given"):
        Corpus(())


def test_a_hub_name_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # what an import sees that is not installed
    with pytest.raises(MissingExtraError, match=r"bothways\[datasets\]"):
        next(iter(Corpus(("owner/name:en:test",))))


@pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="the extra 'datasets' is not installed"
)
def test_rows_of_a_data_set_are_streamed(write: Write, tmp_path: Path) -> None:
    write('{"text": "one", "n": 1}\n{"text": "two", "n": 2}\n', "train.jsonl")
    rows = list(stream_rows(str(tmp_path)))
    assert [row.cells for row in rows] == [{"text": "one"}, {"text": "two"}]
    with pytest.raises(DataError, match="neither a file here nor a data set"):
        list(stream_rows(str(tmp_path), split="nothing"))


@given(st.lists(st.lists(st.text("ab .", min_size=1).filter(str.strip), min_size=1), min_size=2))
def test_blocks_of_any_text_come_back(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[list[str]]
) -> None:
    texts = ["\n".join(block) for block in blocks]
    path = tmp_path_factory.mktemp("any") / "a.txt"
    path.write_text("\n\n".join(texts), encoding="utf-8")
    assert list(Corpus((str(path),))) == texts


def test_real_files_have_their_documents(real_data: Path) -> None:
    folder = real_data / "rawtext"
    glosses = list(Corpus((str(folder / "wordnet_glosses.txt"),)))
    assert len(glosses) == 117_659
    speeches = (str(folder / "us_speeches_pd.txt"),)
    blocks, lines = (list(Corpus(speeches, document=d)) for d in ("blank-line", "line"))
    assert 2000 < len(blocks) < len(lines)
    assert "".join(blocks).replace("\n", "") == "".join(lines)
