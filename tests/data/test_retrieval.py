"""Retrieval sets: three files that must fit together, and the ways of naming and grading."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bothways.data.options import FileOptions
from bothways.data.retrieval import RetrievalSet, read_retrieval_set
from bothways.errors import DataError, UsageError

CORPUS = (
    '{"_id": "d1", "title": "Wings", "text": "They lift."}\n'
    '{"_id": "d2", "title": "", "text": "Heat flows."}\n'
    '{"_id": "d3", "title": "Flow", "text": "Flow of heat."}\n'
)
QUERIES = '{"_id": "q1", "text": "what lifts"}\n{"_id": "q2", "text": "what flows"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td1\t0\nq2\td3\t1\n"
SMART_CORPUS = ".I 1\n.W\none\n.I 2\n.W\ntwo\n"
SMART_QUERIES = ".I 001\n.W\nfirst\n.I 004\n.W\nsecond\n"


def read(
    folder: Path, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS, **how: Any
) -> RetrievalSet:
    for name, content in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
        (folder / name).write_text(content)
    return read_retrieval_set(folder / "corpus", folder / "queries", folder / "qrels", **how)


def test_beir_files(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.documents == {"d1": "Wings They lift.", "d2": "Heat flows.", "d3": "Flow of heat."}
    assert found.queries == {"q1": "what lifts", "q2": "what flows"}
    assert found.gains == {"q1": {"d1": 2.0}, "q2": {"d1": 0.0, "d3": 1.0}}
    assert found.answerable == ("q1", "q2")
    assert found.places["q2"].endswith("queries, line 2")
    assert found.of_queries(["q2"]).gains == {"q2": {"d1": 0.0, "d3": 1.0}}


def test_tables_with_and_without_a_header(tmp_path: Path) -> None:
    tables = read(tmp_path, "id\ttext\nd1\ta\nd3\tb\n", "qid\tquery\nq1\tc\nq2\td\n")
    assert tables.documents == {"d1": "a", "d3": "b"}
    plain = read(
        tmp_path, "d1\ta\nd3\tb\n", "q1\tc\nq2\td\n", "q1,d1,1\n", files=FileOptions(header=False)
    )
    assert plain.queries == {"q1": "c", "q2": "d"}
    assert plain.gains == {"q1": {"d1": 1.0}}


def test_cranfields_numbers_and_grades_are_recognised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    found = read(tmp_path, SMART_CORPUS, SMART_QUERIES, "1 2 1\n1 1 -1\n2 1 4\n")
    assert found.gains == {"001": {"2": 4.0, "1": 0.0}, "004": {"1": 1.0}}
    assert "queries are numbered by their position" in caplog.text
    assert "grade 1 is the best" in caplog.text


def test_plain_ids_and_grades_of_a_smart_collection(tmp_path: Path) -> None:
    queries = SMART_QUERIES.replace("001", "1").replace("004", "2")
    found = read(tmp_path, SMART_CORPUS, queries, "1 0 2 1\n2 0 1 3\n")
    assert found.gains == {"1": {"2": 1.0}, "2": {"1": 3.0}}
    # Below 0 is junk where grades are gains, and said so it stays a gain.
    told = read(tmp_path, SMART_CORPUS, queries, "1 2 -1\n2 1 3\n", judgements="plain")
    assert told.gains == {"1": {"2": 0.0}, "2": {"1": 3.0}}
    asked = read(tmp_path, SMART_CORPUS, queries, "1 2 1\n2 1 3\n", judgements="cranfield")
    assert asked.gains == {"1": {"2": 4.0}, "2": {"1": 2.0}}


def test_the_real_collection(real_data: Path) -> None:
    folder = real_data / "cranfield"
    found = read_retrieval_set(folder / "cran.all.1400", folder / "cran.qry", folder / "cranqrel")
    assert (len(found.documents), len(found.queries), len(found.answerable)) == (1400, 225, 225)
    assert sum(map(len, found.gains.values())) == 1837
    assert found.gains["004"]["5"] == 2.0  # "3 5 3": the third query is called 004
    # The title is the beginning of the text, and does not stand there twice.
    assert found.documents["1"].count("wing in a slipstream .") == 1


def test_judgements_of_what_does_not_exist_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"do not exist: 3\n  line 1: query 'q9'\n  line 2: document 'd7'\n"
    ) as error:
        read(tmp_path, qrels="q9 d1 1\nq1 d7 1\nq2 d8 1\n")
    assert "'q1', 'q2', of documents 'd1'" in str(error.value)


@pytest.mark.parametrize(
    ("files", "how", "message"),
    [
        ({"corpus": CORPUS + '{"_id": "d1", "text": "again"}\n'}, {}, "twice: 1\n  line 4: 'd1'"),
        ({"queries": '{"name": "q1", "text": "a"}\n'}, {}, "no column named '_id', 'id'"),
        ({"qrels": "q1 d1 0\n"}, {}, "no document is relevant"),
        ({"qrels": "1 d1 7\n"}, {"judgements": "cranfield"}, "line 1: 7\nexpected -1, 1, 2"),
    ],
)
def test_wrong_sets(
    tmp_path: Path, files: dict[str, str], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **files, **how)


def test_an_unknown_way_of_judgements(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'cranfeld'; did you mean 'cranfield'"):
        read(tmp_path, judgements="cranfeld")


def test_judgements_that_differ_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(tmp_path, qrels="q1 d1 1\nq1 d1 2\n").gains == {"q1": {"d1": 2.0}}
    assert "1 judgements differ" in caplog.text
