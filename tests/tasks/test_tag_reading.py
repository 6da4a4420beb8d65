"""Words, tags and spans of files: what is read, what is counted, what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bothways.data.readers import read_rows
from bothways.errors import DataError, counted
from bothways.tasks.schemes import SchemeName
from bothways.tasks.tag_examples import TagExample
from bothways.tasks.tag_reading import read_tagged
from bothways.tasks.task import Columns

CONLLU = """# sent_id = a-1
# text = Ann's here
1-2\tAnn's\t_\t_\t_\t_\t_\t_\t_\t_
1\tAnn\tAnn\tPROPN\tNNP\t_\t3\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_
3\there\there\tADV\tRB\t_\t0\troot\t_\t_

"""


def read(
    folder: Path,
    content: str,
    *,
    name: str = "train.conll",
    scheme: SchemeName | None = None,
    labelled: bool = True,
    **columns: str,
) -> list[TagExample]:
    file = folder / name
    file.write_text(content, encoding="utf-8")
    rows = list(read_rows(file))
    return read_tagged(rows, Columns(**columns), labelled=labelled, scheme=scheme)


def read_spans(folder: Path, text: str, *spans: Any, **options: Any) -> TagExample:
    line = json.dumps({"text": text, "spans": list(spans)}, ensure_ascii=False)
    (example,) = read(folder, line, name="train.jsonl", **options)
    return example


def span(start: Any, end: Any, label: Any = "PER") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label}


# --- CoNLL --------------------------------------------------------------------------------------


def test_words_are_the_first_column_and_tags_the_last(tmp_path: Path) -> None:
    first, second = read(tmp_path, "Ann\tx\tB-PER\nsang\ty\tO\n\nOslo\tz\tB-LOC\n")
    assert (first.words, first.tags) == (("Ann", "sang"), ("B-PER", "O"))
    assert (first.text, first.offsets) == ("Ann sang", ((0, 3), (4, 8)))
    assert second.word_place(0).endswith("train.conll, line 4")


def test_columns_are_chosen_by_number(tmp_path: Path) -> None:
    (example,) = read(tmp_path, "1 Ann N B-PER\n2 sang V O\n", text="2", label="3")
    assert (example.words, example.tags) == (("Ann", "sang"), ("N", "V"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": "7"}, r"no column '7' \(--column\).*It has: 1, 2"),
        ({"text": "word"}, r"no column 'word' \(--text\)"),
        ({"label": "1"}, r"words and tags would both be column '1'"),
    ],
)
def test_a_column_that_cannot_be_is_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "Ann B-PER\n", **columns)


def test_words_alone_can_be_predicted_and_not_learned(tmp_path: Path) -> None:
    (example,) = read(tmp_path, "Ann\nsang\n", labelled=False)
    assert (example.words, example.tags) == (("Ann", "sang"), None)
    with pytest.raises(DataError, match="words and tags would both be column '1'"):
        read(tmp_path, "Ann\nsang\n")


def test_conllu_has_forms_and_upos_unless_told(tmp_path: Path) -> None:
    (example,) = read(tmp_path, CONLLU, name="train.conllu")
    assert example.words == ("Ann", "'s", "here")
    assert example.tags == ("PROPN", "AUX", "ADV")
    (other,) = read(tmp_path, CONLLU, name="train.conllu", label="xpos", group="sent_id")
    assert (other.tags, other.group) == (("NNP", "VBZ", "RB"), "a-1")


def test_tags_that_the_scheme_does_not_have_are_one_error_with_their_lines(tmp_path: Path) -> None:
    text = "Ann\tB-PER\nLee\tI-PER\nin\tO\nOslo\tLOC\n\nBo\tB-PER\nLi\tE-PER\n\n"
    text += "Ann\tB-PER\nLee\tI-PER\n\n" * 20
    with pytest.raises(DataError, match="tags that are not valid in BIO: 2") as error:
        read(tmp_path, text)
    assert "train.conll, line 4: 'LOC'" in str(error.value)
    assert "train.conll, line 7: 'E-PER'" in str(error.value)
    assert "--scheme" in str(error.value)


def test_tags_that_do_not_fit_are_read_as_meant_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An I- without its B-, and one of another type; also the older IOB, which CoNLL-2003 has."""
    text = "Ann\tI-PER\nLee\tI-PER\nOslo\tI-LOC\nBo\tB-LOC\n"
    with caplog.at_level(logging.WARNING):
        (example,) = read(tmp_path, text)
    assert example.tags == ("B-PER", "I-PER", "B-LOC", "B-LOC")
    assert "2 tags are not as BIO writes spans" in caplog.text
    assert "train.conll, line 1: 'I-PER' after 'nothing'" in caplog.text


def test_in_io_a_type_may_stand_alone_where_that_is_said(tmp_path: Path) -> None:
    text = "Ann\tPER\nLee\tPER\nsang\tO\n"
    (plain,) = read(tmp_path, text)
    assert plain.tags == ("PER", "PER", "O")
    (typed,) = read(tmp_path, text, scheme="io")
    assert typed.tags == ("I-PER", "I-PER", "O")


def test_words_without_a_tag_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"words without a tag: 1\n.*line 2"):
        read(tmp_path, "Ann\tB-PER\nsang\t\nit\tO\n")


# --- spans of characters ------------------------------------------------------------------------


def test_spans_become_tags_of_words(tmp_path: Path) -> None:
    text = "Ann Lee sang, in Oslo."
    example = read_spans(tmp_path, text, span(17, 21, "LOC"), span(0, 7))
    assert example.words == ("Ann", "Lee", "sang", ",", "in", "Oslo", ".")
    assert example.tags == ("B-PER", "I-PER", "O", "O", "O", "B-LOC", "O")
    assert [text[start:end] for start, end in example.offsets] == list(example.words)
    single = read_spans(tmp_path, text, span(0, 3), scheme="bioes")
    assert (single.tags or ())[0] == "S-PER"


@pytest.mark.parametrize(
    ("spans", "tags"),
    [
        ([span(0, 2)], ("B-PER", "O")),  # within a word
        ([span(2, 6)], ("B-PER", "I-PER")),  # ends within words
        ([span(0, 2), span(2, 4, "LOC")], ("B-PER", "O")),  # two in a word: the second is lost
        ([span(4, 5)], ("O", "O")),  # space
    ],
)
def test_spans_that_do_not_fit_words_are_counted(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spans: list[Any],
    tags: tuple[str, ...],
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_spans(tmp_path, "Anna sang", *spans).tags == tags
    assert counted(len(spans), "span") in caplog.text
    assert "not begin and end where words do" in caplog.text
    assert "train.jsonl, line 1: " in caplog.text


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([span(0, 99)], "ends after the text, which has 9 characters"),
        ([span(3, 3)], "does not end after its start"),
        ([span(-1, 3)], "does not end after its start"),
        ([span("0", 3)], "is no whole number"),
        ([span(0, 4, "")], "the label is no word"),
        ([{"start": 0, "end": 4}], "without start, end or label"),
        (["PER"], "without start, end or label"),
        ([span(0, 9), span(5, 9, "X")], r"'Anna sang' \(PER, 0 to 9\) and 'sang' .*share"),
        ([span(0, 6), span(4, 9, "X")], "share characters"),
    ],
)
def test_spans_that_cannot_be_are_refused_with_their_line(
    tmp_path: Path, spans: list[Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_spans(tmp_path, "Anna sang", *spans)
    assert "spans that cannot be: 1" in str(error.value)
    assert "train.jsonl, line 1: " in str(error.value)


def test_a_file_without_words_or_spans_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'spans'.*CoNLL, CoNLL-U, or jsonl with spans"):
        read(tmp_path, "text,label\nfine,yes\n", name="train.csv")
    with pytest.raises(DataError, match="without a scheme tags make none"):
        read_spans(tmp_path, "Anna sang", span(0, 4), scheme="none")


def test_texts_alone_can_be_predicted(tmp_path: Path) -> None:
    (example,) = read(tmp_path, "text,id\nAnn sang.,1\n", name="in.csv", labelled=False)
    assert (example.words, example.tags) == (("Ann", "sang", "."), None)


# --- real files ---------------------------------------------------------------------------------


def test_real_files_are_read_without_a_word_about_columns(real_data: Path) -> None:
    rows = list(read_rows(real_data / "wnut17" / "emerging.dev.conll"))
    examples = read_tagged(rows, Columns(), labelled=True, scheme=None)
    kinds = {tag.partition("-")[2] for example in examples for tag in example.tags or ()}
    assert len(examples) == 1009
    assert kinds == {
        "", "corporation", "creative-work", "group", "location", "person", "product",
    }  # fmt: skip
    rows = list(read_rows(real_data / "ud_english_ewt" / "en_ewt-ud-dev.conllu"))
    examples = read_tagged(rows, Columns(), labelled=True, scheme=None)
    assert len(examples) == 2001
    assert len({tag for example in examples for tag in example.tags or ()}) == 17
