"""Judging vectors of pairs: is each anchor's positive nearer than everybody else's?

All positives and negatives of the examples together are the documents, every different anchor is a
query. Scores of a ranking are in `metrics/ranking.py`; judging on a retrieval set of its own, with
all its documents, in `evaluation/retrieval.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.metrics.ranking import DEPTHS, by_score, mean_score, ranking_scores
from bothways.tasks.embed_examples import EmbedExample, relevant_by_anchor, text_id
from bothways.tasks.task import Scorer

QUERIES_AT_ONCE = 256


def ranking_scorer(
    vectors: Sequence[NDArray[np.float32]], examples: Sequence[EmbedExample]
) -> Scorer:
    """Scores of any examples, by index; a query counts once, however many positives it has.

    A document that is a copy of the query is left out of its ranking.

    Args:
        vectors: of each example, (texts, dimension), in the order of `EmbedExample.texts`.
        examples: the same.
    """
    relevant = relevant_by_anchor(examples)
    queries: dict[int, NDArray[np.float32]] = {}
    documents: dict[int, NDArray[np.float32]] = {}
    for example, rows in zip(examples, vectors, strict=True):
        first, *others = map(text_id, example.texts)
        queries.setdefault(first, rows[0])
        for other, row in zip(others, rows[1:], strict=True):
            documents.setdefault(other, row)
    ids = np.array(list(documents))
    matrix = _unit(np.stack(list(documents.values())))
    depth = min(max(DEPTHS.values()), len(ids))
    names = list(queries)
    scores: dict[int, dict[str, float]] = {}
    for start in range(0, len(names), QUERIES_AT_ONCE):
        some = names[start : start + QUERIES_AT_ONCE]
        block = _unit(np.stack([queries[name] for name in some])) @ matrix.T
        for name, row in zip(some, block, strict=True):
            row[ids == name] = -np.inf
            best = np.argpartition(-row, depth - 1)[:depth]
            gains = np.isin(ids[best], list(relevant[name])).astype(np.float64)
            ranked = gains[by_score(row[best], gains)]
            scores[name] = ranking_scores(ranked, [1.0] * len(relevant[name] - {name}))
    anchors = [text_id(example.text) for example in examples]
    often = Counter(anchors)
    weights = 1.0 / np.array([often[anchor] for anchor in anchors])
    values = {metric: np.array([scores[a][metric] for a in anchors]) for metric in DEPTHS}

    def scored(some: NDArray[np.int64]) -> dict[str, float]:
        return {m: mean_score(value[some], weights[some]) for m, value in values.items()}

    return scored


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; rows of nothing stay so."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
