"""`RetrievalSet`: documents, queries and which documents are relevant to which query, in memory.

Corpus and queries are SMART files, BEIR's jsonl (`_id`, `title`, `text`), or csv and tsv with an id
and a text; the judgements are three or four columns (`read_qrels`). What is done with a set is for
the tasks; the scores of rankings are in `metrics/ranking.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from bothways.data.options import FileOptions
from bothways.data.problems import Problems, shown
from bothways.data.rows import Row
from bothways.data.smart import read_qrels
from bothways.errors import DataError, UsageError, agreeing, counted, nearest

logger = logging.getLogger(__name__)

Judgements = Literal["auto", "plain", "cranfield"]
JUDGEMENTS: tuple[Judgements, ...] = get_args(Judgements)

ID_NAMES = ("_id", "id", "docid", "doc_id", "pid", "qid", "query_id", "corpus_id", "1")
TEXT_NAMES = ("text", "passage", "query", "document", "contents", "content", "question", "2")
TITLE_NAME = "title"

# Cranfield's grades: 1 the best, 4 the least relevant, -1 of no interest.
CRANFIELD_GRADES = {"-1": 0.0, "1": 4.0, "2": 3.0, "3": 2.0, "4": 1.0}


@dataclass(frozen=True)
class RetrievalSet:
    """Documents, queries and judgements that fit together.

    Attributes:
        documents: text of each document by its id, in the order of the file; a title stands
            before the text, unless the text begins with it.
        queries: text of each query by its id, in the order of the file.
        gains: for each judged query, by document id, what a document is worth: above 0 is
            relevant, 0 was judged and is not. Documents that are not named were not judged.
        places: `file, line 12` of each query.
        candidates: for each query the documents that it is ranked over, and what the first stage
            thought of them; empty where nobody said.
    """

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    gains: Mapping[str, Mapping[str, float]]
    places: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def answerable(self) -> tuple[str, ...]:
        """Queries with at least one relevant document, in order: those that can be scored."""
        return tuple(
            query
            for query in self.queries
            if any(g > 0 for g in self.gains.get(query, {}).values())
        )

    def of_queries(self, queries: Iterable[str]) -> RetrievalSet:
        """The set with some of its queries, and all documents."""
        kept = set(queries)
        return replace(
            self,
            queries={query: text for query, text in self.queries.items() if query in kept},
            gains={query: gains for query, gains in self.gains.items() if query in kept},
            places={query: place for query, place in self.places.items() if query in kept},
        )


@dataclass(frozen=True)
class _Grading:
    """What a judgement is worth: by a table, or the grade itself where it is above 0."""

    table: Mapping[str, float]

    def __call__(self, row: Row) -> float:
        grade = row.cells["grade"]
        return self.table[grade] if self.table else max(0.0, float(grade))


def read_retrieval_set(
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    *,
    files: FileOptions | None = None,
    judgements: Judgements = "auto",
) -> RetrievalSet:
    """Reads the three files of a retrieval set.

    Judgements that are `plain` name queries by their ids, and a grade is a gain (below 0 counts as
    0). Those of `cranfield` number the queries by position from 1, and grade 1 is the best and 4
    the least relevant: the gain is 5 minus the grade, and 0 for -1. `auto` decides the two apart,
    and says so in the log: queries of a SMART file are numbered by position when the ids as they
    stand do not cover those that are judged and the positions do; grades of a SMART collection
    are Cranfield's when -1 is among them and nothing but -1, 1, 2, 3, 4.

    Args:
        corpus: the documents.
        queries: the queries.
        qrels: the judgements.
        files: format and encoding; None to find the format by itself.
        judgements: how queries are named and grades are meant.

    Raises:
        UsageError: for an unknown way of judgements.
        DataError: for ids that stand twice, judgements of documents or queries that do not
            exist (all named in one error), and a set in which nothing is relevant.

    Example:
        >>> cranfield = read_retrieval_set("cran.all.1400", "cran.qry", "cranqrel")
        >>> cranfield.gains["002"]["12"]
        4.0
    """
    if judgements not in JUDGEMENTS:
        raise UsageError(f"judgements is {judgements!r}; {nearest(str(judgements), JUDGEMENTS)}")
    options = files or FileOptions()
    documents, document_rows = _texts(corpus, options)
    query_texts, query_rows = _texts(queries, options)
    judged = list(read_qrels(qrels, encoding=options.encoding or "utf-8"))
    names = _query_names(judged, query_rows, judgements)
    _check_names(str(qrels), judged, names, documents, query_texts)
    gain_of = _grading(judged, query_rows + document_rows, judgements)
    gains: dict[str, dict[str, float]] = {}
    differing = 0
    for row in judged:
        query, document = names[row.cells["query"]], row.cells["document"]
        gain = gain_of(row)
        of_query = gains.setdefault(query, {})
        differing += of_query.get(document, gain) != gain
        of_query[document] = max(gain, of_query.get(document, 0.0))
    if differing:
        logger.warning(
            "%s: %d judgements differ from earlier ones; the best counts", qrels, differing
        )
    if not any(gain > 0 for of_query in gains.values() for gain in of_query.values()):
        raise DataError(f"{qrels}: no document is relevant to any query, so nothing can be learned")
    places = {query: row.place for query, row in zip(query_texts, query_rows, strict=True)}
    made = RetrievalSet(documents, query_texts, gains, places)
    logger.info(
        "%s; %s, %d with relevant documents; %s",
        counted(len(documents), "document"),
        counted(len(query_texts), "query", "queries"),
        len(made.answerable),
        counted(len(judged), "judgement"),
    )
    return made


def _texts(path: str | Path, options: FileOptions) -> tuple[dict[str, str], list[Row]]:
    """Text by id, and the rows, both in the order of the file."""
    rows = list(options.rows(path))
    id_column, text_column = (_column(rows, names) for names in (ID_NAMES, TEXT_NAMES))
    found: dict[str, str] = {}
    twice = Problems(
        str(path),
        what=f"ids (column {id_column!r}) that stand twice",
        advice="each document and each query needs an id of its own",
    )
    for row in rows:
        name = row.cells.get(id_column, "")
        if name in found:
            twice.add(row.line, shown(name))
        found[name] = _with_title(row.cells.get(TITLE_NAME, ""), row.cells.get(text_column, ""))
    twice.raise_if_any()
    empty = sum(not text.strip() for text in found.values())
    if empty:
        logger.warning(
            "%s: %d of %s %s empty; empty texts are kept",
            *(path, empty, counted(len(found), "text"), agreeing(empty, "are")),
        )
    return found, rows


def _column(rows: Sequence[Row], usual: Sequence[str]) -> str:
    """The first of the usual names that a file has."""
    there = list(dict.fromkeys(name for row in rows for name in row.cells))
    for name in usual:
        if name in there:
            return name
    raise DataError(
        f"{rows[0].file} has no column named {', '.join(map(repr, usual[:-1]))}; it has: "
        f"{', '.join(map(repr, there))}. Name an id and a text column so; a file without a header "
        "line needs --no-header, and then its first column is the id and its second the text"
    )


def _with_title(title: str, text: str) -> str:
    title = title.strip()
    return text if text.lstrip().startswith(title) else f"{title} {text}"


def _query_names(
    judged: Sequence[Row], query_rows: Sequence[Row], judgements: Judgements
) -> dict[str, str]:
    """The id of the query that each name in the judgements stands for."""
    named = {row.cells["query"] for row in judged}
    ids = [row.cells[_column(query_rows, ID_NAMES)] for row in query_rows]
    by_position = {str(number): name for number, name in enumerate(ids, 1)}
    smart = "number" in query_rows[0].cells
    fits = smart and not named <= set(ids) and named <= set(by_position)
    if judgements == "cranfield" or (judgements == "auto" and fits):
        logger.info("%s: queries are numbered by their position, from 1", judged[0].file)
        return by_position
    return {name: name for name in ids}


def _grading(judged: Sequence[Row], rows: Sequence[Row], judgements: Judgements) -> _Grading:
    """How a grade becomes a gain."""
    grades = {row.cells["grade"] for row in judged}
    smart = all("number" in row.cells for row in rows)
    fits = smart and "-1" in grades and grades <= set(CRANFIELD_GRADES)
    if judgements == "cranfield":
        other = Problems(
            judged[0].file,
            what="grades that Cranfield does not have",
            advice="expected -1, 1, 2, 3 or 4",
        )
        for row in judged:
            if row.cells["grade"] not in CRANFIELD_GRADES:
                other.add(row.line, row.cells["grade"])
        other.raise_if_any()
    if judgements == "cranfield" or (judgements == "auto" and fits):
        logger.info("%s: grade 1 is the best, 4 the least, -1 of no interest", judged[0].file)
        return _Grading(CRANFIELD_GRADES)
    return _Grading({})


def _check_names(
    file: str,
    judged: Sequence[Row],
    names: Mapping[str, str],
    documents: Mapping[str, str],
    queries: Mapping[str, str],
) -> None:
    """Refuse judgements of what does not exist, all in one error."""
    missing = Problems(
        file,
        what="judgements of queries or documents that do not exist",
        advice=(
            f"the ids of queries are such as {_some(queries)}, of documents {_some(documents)}; "
            "where judgements number the queries of a SMART file by position, give "
            "--judgements cranfield"
        ),
    )
    for row in judged:
        for kind, known in (("query", names), ("document", documents)):
            if row.cells[kind] not in known:
                missing.add(row.line, f"{kind} {shown(row.cells[kind])}")
    missing.raise_if_any()


def _some(ids: Iterable[str]) -> str:
    return ", ".join(map(repr, list(ids)[:3]))
