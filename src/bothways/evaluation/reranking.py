"""What an evaluation of rankings shows beside its scores: rivals and weak queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bothways.evaluation.embedding import shared_words
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Table
from bothways.metrics.ranking import by_score, ndcg
from bothways.tasks.embed_examples import EmbedExample
from bothways.tasks.regress import scores_of
from bothways.tasks.rerank import RerankExample, RerankTask, grades_of, lists_of
from bothways.tasks.results import Result, ScoreResult

WEAKEST_SHOWN = 10


def reranking_parts(
    task: RerankTask, examples: Sequence[RerankExample], results: Sequence[Result], **others: Any
) -> Parts:
    """Rivals: the first stage where there was one, and shared words; tables of the queries."""
    del task, others
    rivals: dict[str, Sequence[Result]] = {}
    first = [example.first_score for example in examples]
    if all(score is not None for score in first):
        rivals["first_stage"] = [ScoreResult(score or 0.0) for score in first]
    words = shared_words(
        [EmbedExample(example.text, example.pair) for example in examples], with_vectors=False
    )
    if words:
        rivals["shared_words"] = words
    return Parts(rivals, tables=(_data_table(examples), _weakest_table(examples, results)))


def _data_table(examples: Sequence[RerankExample]) -> Table:
    grades, lists = grades_of(examples), lists_of(examples)
    relevant = [int((grades[members] > 0).sum()) for members in lists]
    sizes = [len(members) for members in lists]
    rows = (
        ("queries", len(lists)),
        ("queries without a relevant passage, not scored", relevant.count(0)),
        ("passages a query, mean", float(np.mean(sizes))),
        ("passages of the longest list", max(sizes)),
        ("relevant passages a query, mean", float(np.mean(relevant))),
    )
    return Table("queries", "What was ranked", ("", "count"), rows)


def _weakest_table(examples: Sequence[RerankExample], results: Sequence[Result]) -> Table:
    """The queries whose ranking is worst, with the passage that came first."""
    grades, scores = grades_of(examples), scores_of(results)
    found = []
    for members in lists_of(examples):
        judged = grades[members]
        order = by_score(scores[members], judged)
        value = ndcg(judged[order], judged)
        if not np.isnan(value):
            top = examples[members[int(order[0])]]
            found.append((value, top.text, float(judged[order[0]]), top.pair))
    found.sort(key=lambda row: row[0])
    rows = tuple(
        (value, _start(query), grade, _start(passage))
        for value, query, grade, passage in found[:WEAKEST_SHOWN]
    )
    columns = ("ndcg_at_10", "query", "grade of the first", "passage that came first")
    return Table("weakest", "The worst rankings", columns, rows)


def _start(text: str, width: int = 60) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[:width] + "..."
