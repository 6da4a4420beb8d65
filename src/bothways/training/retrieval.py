"""Examples of a retrieval set for the tasks that can learn from one, with passages to rank.

Which documents a query is ranked over is decided here, once: those that were judged, and the first
that an embedder finds. Reading the files is in `data/retrieval.py`; what an example is, in the
task's own file, by its method `read_retrieval`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothways.checkpoints.load import load_parts
from bothways.data.options import FileOptions
from bothways.data.retrieval import Judgements, RetrievalSet, read_retrieval_set
from bothways.errors import TaskError, UsageError, counted
from bothways.inference.model import Model
from bothways.inference.nearest import nearest
from bothways.inference.sides import embed_side
from bothways.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetrievalFiles:
    """The files of a retrieval set.

    Attributes:
        corpus, queries, qrels: documents, queries, judgements.
        judgements: how queries are named and grades meant; see `read_retrieval_set`.
    """

    corpus: Path
    queries: Path
    qrels: Path
    judgements: Judgements = "auto"


def read_retrieval(
    task: Task[Any],
    given: RetrievalFiles,
    *,
    files: FileOptions | None = None,
    encoder: str | None = None,
) -> list[Any]:
    """Examples of the judged queries of a retrieval set.

    Args:
        task: with a method `read_retrieval`.
        given: the files.
        files: how they are read.
        encoder: embedder whose first documents are candidates, where the task wants some and
            names no other.

    Raises:
        UsageError: when the task cannot learn from retrieval sets.
        DataError: for what is wrong with the files.
    """
    read = getattr(task, "read_retrieval", None)
    if read is None:
        raise UsageError(f"the task {task.name} reads rows, no retrieval set (--corpus)")
    found = read_retrieval_set(
        given.corpus, given.queries, given.qrels, files=files, judgements=given.judgements
    )
    found = found.of_queries(found.answerable)
    wanted = getattr(task, "candidates", 0)
    if wanted:
        source = getattr(task, "candidates_from", None)
        found = with_candidates(found, source or encoder, wanted, needed=source is not None)
    examples: list[Any] = read(found)
    return examples


def with_candidates(
    found: RetrievalSet, source: str | None, count: int, *, needed: bool = True
) -> RetrievalSet:
    """The set with the documents that each query is ranked over: judged ones, then found ones.

    Args:
        found: a set.
        source: folder or hub name of an embedder; None for judged documents only.
        count: how many documents the embedder adds at most.
        needed: whether it is an error when the source is no embedder.

    Raises:
        TaskError: when it is needed and none.
    """
    judged = {query: dict.fromkeys(gains) for query, gains in found.gains.items()}
    if source is None:
        return replace(found, candidates=judged)
    parts = load_parts(source)
    if parts.sentence is None:
        told = f"{source} is no embedder (it has no modules.json)"
        if needed:
            raise TaskError(f"{told}; give --candidates-from one, or --candidates 0")
        logger.warning(
            "%s, so only judged documents are ranked, which is easier than real use; name an "
            "embedder with --candidates-from",
            told,
        )
        return replace(found, candidates=judged)
    logger.info(
        "looking through %s with %s, for the first %d for each of %s",
        counted(len(found.documents), "document"),
        source,
        count,
        counted(len(found.queries), "query", "queries"),
    )
    return replace(found, candidates=first_stage(Model(parts), found, count))


def first_stage(
    model: Model, found: RetrievalSet, count: int
) -> Mapping[str, Mapping[str, float | None]]:
    """For each query its judged documents and those nearest to it, with their similarities.

    Args:
        model: an embedder.
        found: documents and queries.
        count: how many documents are found for a query.
    """
    names = list(found.documents)
    row_of = {name: row for row, name in enumerate(names)}
    queries = embed_side(model, "query", list(found.queries.values())).vectors
    documents = embed_side(model, "document", list(found.documents.values())).vectors
    _, nearest_rows = nearest(queries, documents, k=count)
    candidates: dict[str, Mapping[str, float | None]] = {}
    for query, vector, rows in zip(found.queries, queries, nearest_rows.tolist(), strict=True):
        wanted = [*found.gains.get(query, {}), *(names[row] for row in rows)]
        unique = list(dict.fromkeys(wanted))
        scores = documents[[row_of[name] for name in unique]] @ vector
        candidates[query] = dict(zip(unique, scores.tolist(), strict=True))
    return candidates
