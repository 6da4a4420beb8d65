"""`read_rows` as a whole: formats, columns, packed files, and the real data sets line for line."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bothways.data.conll import words
from bothways.data.detection import FORMATS
from bothways.data.problems import COLUMNS_SHOWN
from bothways.data.readers import Rows, cell, check_columns, read_rows
from bothways.data.rows import Row
from bothways.data.smart import read_qrels
from bothways.errors import DataError, UsageError

PLAIN: dict[str, Any] = {"header": False, "quoting": False}

# As the publishers count their files: file, what read_rows is told, format, rows.
REAL = [
    ("mr/rt-polarity.all", {"encoding": "latin-1"}, "label-text", 10_662),
    ("banking77/train.csv", {}, "csv", 10_003),
    ("banking77/test.csv", {}, "csv", 3_080),
    *[
        (f"sib200/{language}/{part}.tsv", {}, "tsv", count)
        for language in ("arb_Arab", "deu_Latn", "eng_Latn", "tha_Thai", "zho_Hans")
        for part, count in (("train", 701), ("dev", 99), ("test", 204))
    ],
    ("nli_counterfactual/train.tsv", {}, "tsv", 8_330),
    ("nli_counterfactual/dev.tsv", {}, "tsv", 1_000),
    ("nli_counterfactual/test.tsv", {}, "tsv", 2_000),
    ("stsb/sts-train.csv", PLAIN, "tsv", 5_749),
    ("stsb/sts-dev.csv", PLAIN, "tsv", 1_500),
    ("stsb/sts-test.csv", PLAIN, "tsv", 1_379),
    ("wnut17/wnut17train.conll", {}, "conll", 3_394),
    ("wnut17/emerging.dev.conll", {}, "conll", 1_009),
    ("wnut17/emerging.test.annotated", {}, "conll", 1_287),
    ("ud_english_ewt/en_ewt-ud-train.rebuilt.conllu", {}, "conllu", 12_544),
    ("ud_english_ewt/en_ewt-ud-dev.conllu", {}, "conllu", 2_001),
    ("ud_english_ewt/en_ewt-ud-test.conllu", {}, "conllu", 2_077),
    *[
        (f"xquad/xquad.{language}.json", {}, "squad", 1_190)
        for language in ("en", "es", "zh", "de")
    ],
    ("cranfield/cran.all.1400", {}, "smart", 1_400),
    ("cranfield/cran.qry", {}, "smart", 225),
    ("semeval2010_task8/train.tsv", PLAIN, "tsv", 8_000),
    ("semeval2010_task8/test.tsv", PLAIN, "tsv", 2_717),
]


@pytest.mark.parametrize(("name", "options", "kind", "count"), REAL, ids=[row[0] for row in REAL])
def test_real_files_have_the_rows_their_publishers_count(
    real_data: Path, name: str, options: dict[str, Any], kind: str, count: int
) -> None:
    path = real_data / name
    rows = read_rows(path, **options)
    assert rows.format == kind
    read = list(rows)
    assert len(read) == rows.count == count
    assert not rows.nulls
    # Each row starts on its own line of the file, in order.
    lines = [row.line for row in read]
    assert kind == "squad" or len(set(lines)) == count
    assert lines == sorted(lines)
    assert lines[-1] <= path.read_bytes().count(b"\n") + 1


def test_real_labels_and_columns(real_data: Path) -> None:
    def column(name: str, column: str, **options: Any) -> Counter[str]:
        return Counter(row.cells[column] for row in read_rows(real_data / name, **options))

    assert column("mr/rt-polarity.all", "label", encoding="latin-1") == {"0": 5331, "1": 5331}
    assert len(column("banking77/train.csv", "category")) == 77
    assert len(column("sib200/zho_Hans/train.tsv", "category")) == 7
    assert len(column("nli_counterfactual/train.tsv", "gold_label")) == 3
    assert len(column("semeval2010_task8/train.tsv", "1", **PLAIN)) == 19
    scores = [float(score) for score in column("stsb/sts-test.csv", "5", **PLAIN)]
    assert (min(scores), max(scores)) == (0.0, 5.0)
    tags = column("wnut17/wnut17train.conll", "2")
    kinds = {tag[2:] for cells in tags for tag in words(cells) if tag != "O"}
    assert kinds == {"corporation", "creative-work", "group", "location", "person", "product"}
    assert len(column("xquad/xquad.en.json", "paragraph")) == 240


def test_real_answers_stand_where_they_should(real_data: Path) -> None:
    for row in read_rows(real_data / "xquad/xquad.de.json"):
        for answer in json.loads(row.cells["answers"]):
            start = answer["answer_start"]
            assert row.cells["context"][start : start + len(answer["text"])] == answer["text"]


def test_real_words_stand_on_their_lines(real_data: Path) -> None:
    path = real_data / "ud_english_ewt/en_ewt-ud-dev.conllu"
    lines = path.read_text(encoding="utf-8").split("\n")
    for row in read_rows(path):
        for form, line in zip(words(row.cells["form"]), words(row.cells["line"]), strict=True):
            assert lines[int(line) - 1].split("\t")[1] == form


def test_real_judgements(real_data: Path) -> None:
    rows = list(read_qrels(real_data / "cranfield/cranqrel"))
    assert len(rows) == 1837
    assert Counter(row.cells["grade"] for row in rows)["-1"] == 225
    documents = {row.cells["id"] for row in read_rows(real_data / "cranfield/cran.all.1400")}
    assert {row.cells["document"] for row in rows} <= documents
    # Queries are numbered by position, and not by the ids of their file.
    queries = list(read_rows(real_data / "cranfield/cran.qry"))
    assert {row.cells["query"] for row in rows} == {query.cells["number"] for query in queries}
    assert queries[-1].cells["id"] != queries[-1].cells["number"] == "225"


def test_latin_1_reviews_read_as_utf_8_say_what_to_do(real_data: Path) -> None:
    with pytest.raises(DataError, match=r"rt-polarity(.|\n)*line \d+: byte (.|\n)*latin-1"):
        list(read_rows(real_data / "mr/rt-polarity.all"))


def test_quotes_of_real_text_are_not_taken_for_quoting_in_silence(real_data: Path) -> None:
    with pytest.raises(DataError, match="--no-quoting"):
        list(read_rows(real_data / "stsb/sts-train.csv", header=False))
    with pytest.raises(DataError, match="--no-quoting"):
        list(read_rows(real_data / "semeval2010_task8/train.tsv", header=False))


@pytest.mark.parametrize(
    "name", ["banking77/test.csv", "xquad/xquad.zh.json", "cranfield/cran.qry"]
)
def test_packed_real_files_are_the_same(real_data: Path, tmp_path: Path, name: str) -> None:
    packed = tmp_path / (Path(name).name + ".gz")
    packed.write_bytes(gzip.compress((real_data / name).read_bytes()))
    plain = read_rows(real_data / name)
    rows = read_rows(packed)
    assert rows.format == plain.format
    assert [row.cells for row in rows] == [row.cells for row in plain]


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x"}\n' * 3 + "broken\n")
    rows = read_rows(path)
    assert rows.count == 0
    assert next(rows) == Row({"a": "x"}, str(path), 1)
    assert (rows.file, rows.format, rows.count) == (str(path), "jsonl", 1)
    assert next(rows).place == f"{path}, line 2"


def test_what_is_wrong_with_the_call_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"no format 'jsnl'; did you mean 'jsonl'\?"):
        read_rows(path, format="jsnl")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no text encoding 'utf-9'"):
        read_rows(path, encoding="utf-9")
    with pytest.raises(DataError, match="no file"):
        read_rows(tmp_path / "b.csv", format="csv")
    with pytest.raises(DataError, match="is a folder"):
        read_rows(tmp_path, format="csv")
    path.write_bytes(b"")
    for kind in FORMATS:
        with pytest.raises(DataError, match="is empty"):
            read_rows(path, format=kind)


def test_a_format_given_overrules_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("a\tb\n1\t2\n")
    assert [dict(row.cells) for row in read_rows(path, format="tsv")] == [{"a": "1", "b": "2"}]


def test_cell_names_the_columns_there_are_and_the_nearest() -> None:
    row = Row({"text": "fine", "label": "yes"}, "a.csv", 7)
    assert cell(row, "text") == "fine"
    with pytest.raises(DataError) as caught:
        cell(row, "lable")
    assert str(caught.value) == (
        "a.csv, line 7: there is no column 'lable'; the columns are 'text', 'label'; "
        "did you mean 'label'?"
    )


def test_a_headerless_file_is_hinted_at(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("what a film,pos\nso dull,neg\n")
    with pytest.raises(DataError, match=r"'what a film', 'pos' \(if the first line.*--no-header"):
        list(check_columns(read_rows(path), ["text"]))
    with pytest.raises(DataError, match=r"the columns are '1', '2'$"):
        list(check_columns(read_rows(path, header=False), ["text"]))


def test_many_columns_are_not_all_listed() -> None:
    row = Row({f"c{number}": "" for number in range(COLUMNS_SHOWN + 5)}, "a.csv", 2)
    with pytest.raises(DataError, match="'c19' and 5 more"):
        cell(row, "zzz")


def test_check_columns_passes_rows_on_and_names_all_that_lack_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b"}\n{"label": "y"}\n{}\n')
    rows = check_columns(read_rows(path), ["text", "label"])
    assert next(rows).cells["text"] == "a"
    with pytest.raises(DataError) as caught:
        next(rows)
    assert str(caught.value).splitlines() == [
        f"{path}: rows that lack a column: 3",
        "  line 2: no 'label'",
        "  line 3: no 'text'",
        "  line 4: no 'text', 'label'",
        "every row needs these columns",
    ]
    assert [row.line for row in check_columns(read_rows(path), [])] == [1, 2, 3, 4]


def test_every_missing_column_of_the_first_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\n")
    with pytest.raises(DataError, match=r"'txt'(.|\n)*'lbel'"):
        list(check_columns(read_rows(path), ["txt", "lbel"]))


def test_rows_is_an_iterator_that_ends_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    rows = read_rows(path)
    assert isinstance(rows, Rows)
    assert len(list(rows)) == 1
    assert list(rows) == []
