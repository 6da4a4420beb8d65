"""Judge an embedder on a retrieval set: for each query all documents are ranked by its vectors.

Every query with a relevant document is an example, beside BM25 over words, which knows no vectors.
Reading a set is in `data/retrieval.py`, the scores of a ranking in `metrics/ranking.py`; judging
rerankers goes the way of all tasks, in `evaluate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bothways.data.retrieval import RetrievalSet
from bothways.evaluation.evaluate import judge
from bothways.evaluation.intervals import RESAMPLES
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Report, Table
from bothways.inference.model import Model
from bothways.inference.nearest import Vectors, nearest
from bothways.inference.results import Results
from bothways.inference.sides import embed_side
from bothways.metrics.ranking import DEPTHS, mean_score, scores_of_rankings
from bothways.tasks.results import RankingResult, Result
from bothways.tasks.task import Scorer

DEPTH = max(DEPTHS.values())
# Saturation of counts and weight of lengths: Robertson and Zaragoza 2009.
BM25_K, BM25_B = 1.2, 0.75
MISSES_SHOWN = 10


@dataclass(frozen=True)
class QueryExample:
    """A query that something is relevant to.

    Attributes:
        text: of the query.
        name: its id.
        place: `file, line 12`.
        pair, group: nothing; each query stands alone.
    """

    text: str
    name: str
    place: str = ""
    pair: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class RankingTask:
    """What `judge` needs to know of rankings.

    Attributes:
        found: documents, queries and judgements.
    """

    found: RetrievalSet

    name: ClassVar[str] = "retrieval"
    main_metric: ClassVar[str] = "ndcg_at_10"
    metric_directions: ClassVar[Mapping[str, int]] = dict.fromkeys(DEPTHS, 1)

    def examples(self) -> list[QueryExample]:
        """The queries that can be scored."""
        found = self.found
        return [
            QueryExample(found.queries[q], q, found.places.get(q, "")) for q in found.answerable
        ]

    def scorer(self, results: Sequence[Result], examples: Sequence[QueryExample]) -> Scorer:
        """Means over some queries, by index."""
        values = self.scores(results, examples)
        return lambda some: {name: mean_score(scores[some]) for name, scores in values.items()}

    def scores(
        self, results: Sequence[Result], examples: Sequence[QueryExample]
    ) -> dict[str, NDArray[np.float64]]:
        """The scores of each query, by name."""
        found = {
            example.name: result.documents
            for example, result in zip(examples, results, strict=True)
            if isinstance(result, RankingResult)
        }
        return scores_of_rankings(found, self.found.gains)

    def units(self, examples: Sequence[QueryExample]) -> None:
        """Each query stands alone."""


def evaluate_retrieval(
    model: Model,
    found: RetrievalSet,
    *,
    model_name: str = "model",
    data_name: str = "data",
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Any,
) -> Report:
    """Rank all documents for each query by the model's vectors, and judge the rankings.

    Args:
        model: an embedder; it need not be fine-tuned.
        found: with at least one query to which something is relevant.
        model_name, data_name: for the report.
        resamples: of the bootstrap over queries.
        seed: of the resampling.
        options: of `model.embed`: max_length, policy, batch_tokens, on_batch.

    Example:
        >>> found = read_retrieval_set("cran.all.1400", "cran.qry", "cranqrel")  # doctest: +SKIP
        >>> print(evaluate_retrieval(model, found).metrics["ndcg_at_10"])  # doctest: +SKIP
        0.404 [0.370, 0.438]
    """
    task = RankingTask(found)
    examples = task.examples()
    documents = embed_side(model, "document", list(found.documents.values()), **options)
    queries = embed_side(model, "query", [example.text for example in examples], **options)
    report = judge(
        cast(Any, task),
        examples,
        Results(
            rankings(queries.vectors, documents.vectors, list(found.documents)),
            documents.ledger + queries.ledger,
        ),
        model_name=model_name,
        data_name=data_name,
        resamples=resamples,
        seed=seed,
    )
    return replace(report, task="embed")


def rankings(queries: Vectors, documents: Vectors, names: Sequence[str]) -> list[RankingResult]:
    """The documents with the largest products for each query."""
    scores, rows = nearest(queries, documents, k=DEPTH)
    return [
        RankingResult(tuple(names[row] for row in best), tuple(values))
        for best, values in zip(rows.tolist(), scores.tolist(), strict=True)
    ]


def bm25(queries: Sequence[str], documents: Sequence[str]) -> tuple[csr_array, csr_array]:
    """Queries and documents as sparse vectors whose product is the BM25 score.

    Source: Robertson and Zaragoza 2009, equation 3.15, with an inverse document frequency that is
    never below 0.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(token_pattern=r"(?u)\b\w+\b", dtype=np.float32)
    try:
        counts: csr_array = csr_array(counter.fit_transform(documents))
    except ValueError:  # no document has a word
        nothing: tuple[csr_array, ...] = tuple(
            csr_array(np.zeros((len(texts), 1), np.float32)) for texts in (queries, documents)
        )
        return nothing[0], nothing[1]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = np.log1p((len(documents) - having + 0.5) / (having + 0.5))
    long = np.repeat(1 - BM25_B + BM25_B * lengths / lengths.mean(), np.diff(counts.indptr))
    weights = counts.data * (BM25_K + 1) / (counts.data + BM25_K * long)
    counts.data = (weights * rarity[counts.indices]).astype(np.float32)
    return csr_array(counter.transform(queries)), counts


def retrieval_parts(
    task: RankingTask,
    examples: Sequence[QueryExample],
    results: Sequence[Result],
    **others: Any,
) -> Parts:
    """BM25 as a rival, and the queries for which nothing relevant is found early."""
    del others
    found = task.found
    words = bm25([example.text for example in examples], list(found.documents.values()))
    missed = np.flatnonzero(task.scores(results, examples)["mrr_at_10"] == 0)
    rows = tuple(
        (examples[at].name, examples[at].text, _first(results[at], found.documents))
        for at in missed[:MISSES_SHOWN]
    )
    title = f"{len(missed)} of {len(examples)} queries have nothing relevant among the first 10" + (
        f"; the first {len(rows)}" if len(rows) < len(missed) else ""
    )
    tables = (Table("misses", title, ("query", "text", "first document"), rows),) if rows else ()
    return Parts(rivals={"bm25": rankings(*words, list(found.documents))}, tables=tables)


def _first(result: Result, documents: Mapping[str, str]) -> str:
    """The beginning of the document that is ranked first."""
    assert isinstance(result, RankingResult)
    return " ".join(documents[result.documents[0]].split())[:80]
