"""The format of a file, from its name and first lines, and the error where it cannot be told."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest

from bothways.data.detection import ENDINGS, FORMATS, Format, detect_format
from bothways.errors import DataError

SQUAD = '{"version": "1.1", "data": [{"title": "t", "paragraphs": []}]}'
CONLLU = "# sent_id = 1\n1-2\tdon't" + "\t_" * 8 + "\n1\tdo" + "\t_" * 8 + "\n"


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(("ending", "expected"), ENDINGS.items())
def test_the_ending_decides(tmp_path: Path, ending: str, expected: Format) -> None:
    assert detect_format(write(tmp_path, f"data{ending}", "any thing\n")) == expected
    assert detect_format(write(tmp_path, f"DATA{ending.upper()}", "any thing\n")) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "text,label\na\tb,1\n", "csv"),
        ("a.csv", "text,label\n", "csv"),
        ("a.csv", "one column\n", "csv"),
        ("a.csv", "a, b\tc\nd\te\n", "tsv"),
        ("a.csv", "a,b\tc\nd,e\tf\n", "csv"),
        ("a.txt", "a\tb\nc\td\n", "tsv"),
        ("a.txt", "text\tlabel\n\nc\td\n", "tsv"),
        ("a.json", '{"text": "a"}\n{"text": "b"}\n', "jsonl"),
        ("a.json", SQUAD, "squad"),
        ("a.json", SQUAD.replace(" ", "\n"), "squad"),
        ("a.txt", "0 bad film\n1 good film\n", "label-text"),
        ("a.all", "pos fine\nneg dull\npos nice\nneg bad\n", "label-text"),
        ("cran.qry", ".I 001\n.W\nwhat\n", "smart"),
        ("a.txt", CONLLU, "conllu"),
        ("eng.train", "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nsaid VBD I-VP O\n", "conll"),
        ("a.annotated", "EU\tB-corporation\nsaid\tO\n\n#tag\tO\n", "conll"),
        ("a.txt", "# id 1\nEU _ _ S-ORG\nsaid _ _ O\n", "conll"),
    ],
)
def test_the_first_lines_decide(tmp_path: Path, name: str, content: str, expected: Format) -> None:
    assert detect_format(write(tmp_path, name, content)) == expected
    windows = content.replace("\n", "\r\n")
    assert detect_format(write(tmp_path, "windows-" + name, windows)) == expected


def test_gz_is_looked_through(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n"))
    assert detect_format(path) == "jsonl"
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert detect_format(path) == "jsonl"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("prose.txt", "The cat sat on the mat.\nIt purred.\n"),
        ("one.txt", "word second third\n"),
        ("qrels", "1 184 2\n1 29 2\n1 31 2\n"),
        ("config.json", '{\n  "a": 1\n}\n'),
        ("blank.txt", "\n\n"),
    ],
)
def test_what_fits_nothing_shows_what_was_seen(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(DataError) as caught:
        detect_format(path)
    message = str(caught.value)
    assert str(path) in message
    assert repr(content.split("\n", maxsplit=1)[0]) in message
    assert "--format " + "|".join(FORMATS) in message


def test_a_json_list_says_how_to_write_it_as_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"JSON list.*jq -c"):
        detect_format(write(tmp_path, "a.json", '[\n{"text": "a"}]'))


def test_a_guess_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    detect_format(write(tmp_path, "a.csv", "a\tb\n"))
    detect_format(write(tmp_path, "a.all", "0 bad\n1 good\n"))
    detect_format(write(tmp_path, "sure.tsv", "a\tb\n"))
    assert [record.message.split(": ")[1][:12] for record in caplog.records] == [
        "read as tsv,",
        "read as labe",
    ]


def test_a_line_cut_by_the_look_ahead_does_not_mislead(tmp_path: Path) -> None:
    long = "0 " + "word " * 20_000
    assert detect_format(write(tmp_path, "a.all", f"0 bad\n1 good\n{long}\n")) == "label-text"
    assert detect_format(write(tmp_path, "b.all", '{"paragraphs": "' + "x" * 70_000)) == "squad"
