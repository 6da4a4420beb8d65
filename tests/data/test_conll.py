"""CoNLL and CoNLL-U: one row a sentence, words and tags line by line, with each word's line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.data.conll import CONLLU_COLUMNS, LINE_COLUMN, words
from bothways.data.detection import Format
from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.errors import DataError


def read(folder: Path, content: str, kind: Format = "conll") -> list[Row]:
    path = folder / f"a.{kind}"
    path.write_bytes(content.encode())
    return list(read_rows(path, format=kind))


def token(number: str, form: str, upos: str = "X") -> str:
    return "\t".join([number, form, "_", upos, *"______"]) + "\n"


def test_sentences_stand_between_blank_lines(tmp_path: Path) -> None:
    rows = read(tmp_path, "EU\tB-ORG\nsaid\tO\n\n\t\n\nno\tO\n")
    assert [dict(row.cells) for row in rows] == [
        {"1": "EU\nsaid", "2": "B-ORG\nO", LINE_COLUMN: "1\n2"},
        {"1": "no", "2": "O", LINE_COLUMN: "6"},
    ]
    assert [row.line for row in rows] == [1, 6]


def test_tabs_keep_spaces_and_spaces_keep_no_break_spaces(tmp_path: Path) -> None:
    assert words(read(tmp_path, "New York\tB-LOC\n\u00a0\tO\n")[0].cells["1"]) == [
        "New York",
        "\u00a0",
    ]
    rows = read(tmp_path, "EU NNP  B-ORG\n\u00a0 SYM O \n")
    assert words(rows[0].cells["1"]) == ["EU", "\u00a0"]
    assert words(rows[0].cells["3"]) == ["B-ORG", "O"]


def test_documents_and_comments_are_no_words_but_a_hash_is(tmp_path: Path) -> None:
    content = (
        "-DOCSTART- -X- O\n\n# id 7 domain=news and more\n#tag NN O\n# SYM O\nEU NNP B-ORG\n"
        "-DOCSTART- -X- O\n"
    )
    assert [words(row.cells["1"]) for row in read(tmp_path, content)] == [["#tag", "#", "EU"]]


def test_lines_of_another_width_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, "a\tO\n\nb\nc\tO\tx\n\nd\tO\n")
    message = str(caught.value)
    assert "lines that do not have 2 columns, as the first has: 2" in message
    assert "line 3: 1: 'b'" in message
    assert "line 4: 3: 'c\\tO\\tx'" in message


def test_conllu_keeps_words_and_leaves_ranges_and_empty_nodes_out(tmp_path: Path) -> None:
    content = (
        "# newdoc id = d\n# sent_id = s-1\n# text = I don't = no\n"
        + token("1", "I", "PRON")
        + token("2-3", "don't")
        + token("2", "do", "AUX")
        + token("3", "n't", "PART")
        + token("3.1", "gapped")
        + "\n# sent_id = s-2\n"
        + token("1", "10 000", "NUM")
    )
    first, second = read(tmp_path, content, "conllu")
    assert words(first.cells["form"]) == ["I", "do", "n't"]
    assert words(first.cells["upos"]) == ["PRON", "AUX", "PART"]
    assert words(first.cells[LINE_COLUMN]) == ["4", "6", "7"]
    assert (first.cells["sent_id"], first.cells["text"]) == ("s-1", "I don't = no")
    assert (second.cells["form"], second.cells["text"], second.line) == ("10 000", "", 11)
    assert list(first.cells) == [*CONLLU_COLUMNS, "sent_id", "text", LINE_COLUMN]


@pytest.mark.parametrize("line", ["1\tfine\tO\n", "x" + "\t_" * 9 + "\n", "word\n"])
def test_conllu_lines_that_are_none_are_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"an id first: 2\n  line 2: (.|\n)*line 3(.|\n)*id form"):
        read(tmp_path, token("1", "a") + line * 2, "conllu")


@pytest.mark.parametrize("kind", ["conll", "conllu"])
def test_a_file_of_comments_has_no_rows(tmp_path: Path, kind: Format) -> None:
    with pytest.raises(DataError, match="has no rows"):
        read(tmp_path, "# only a comment\n\n", kind)
