"""Scores of rankings: nDCG, reciprocal rank, recall, a query at a time.

A ranking is given as the gains of its documents, best ranked first; above 0 is relevant. Queries
to which nothing is relevant have no score: they are nan here, and left out of every mean.
Reading judgements is in `data/retrieval.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Gains = Sequence[float] | NDArray[np.number]

# Name of a score -> how many of the first documents it looks at.
DEPTHS = {"ndcg_at_10": 10, "mrr_at_10": 10, "recall_at_100": 100}


def ndcg(ranked: Gains, judged: Gains, *, depth: int = 10) -> float:
    """Discounted gain of the first documents, as a share of the best that can be had.

    The gain is linear, as in trec_eval, BEIR and ir-measures (2 to the power of the gain, minus 1,
    is another convention), and the document at rank r is divided by log2(r + 1).

    Args:
        ranked: gains in the order of the ranking; 0 for documents that were not judged.
        judged: gains of all documents that were judged, found or not, in any order.
        depth: how many of the first documents count.

    Returns:
        0 to 1; nan when nothing is relevant.

    Source: Järvelin and Kekäläinen 2002.

    Example:
        >>> round(ndcg([0, 3, 1], [3, 1]), 4)  # (3 / log2 3 + 1 / log2 4) / (3 + 1 / log2 3)
        0.6590
    """
    best = _discounted(np.sort(np.asarray(judged, dtype=np.float64))[::-1], depth)
    return _discounted(ranked, depth) / best if best > 0 else float("nan")


def reciprocal_rank(ranked: Gains, judged: Gains, *, depth: int = 10) -> float:
    """One over the rank of the first relevant document; 0 when it is not among the first.

    Arguments as for `ndcg`; nan when nothing is relevant.

    Example:
        >>> reciprocal_rank([0, 0, 1], [1, 2])
        0.3333333333333333
    """
    if not (np.asarray(judged) > 0).any():
        return float("nan")
    found = np.flatnonzero(np.asarray(ranked)[:depth] > 0)
    return 1.0 / (int(found[0]) + 1) if len(found) else 0.0


def recall(ranked: Gains, judged: Gains, *, depth: int = 100) -> float:
    """Share of the relevant documents that are among the first; nan when nothing is relevant."""
    relevant = int((np.asarray(judged) > 0).sum())
    found = int((np.asarray(ranked)[:depth] > 0).sum())
    return found / relevant if relevant else float("nan")


def by_score(scores: Gains, gains: Gains) -> NDArray[np.int64]:
    """Order of the documents, highest score first.

    Among equal scores the less relevant stand first: a model that cannot tell documents apart
    gains nothing from the order they happen to stand in.

    Example:
        >>> by_score([0.1, 0.7, 0.7], [0, 1, 0]).tolist()
        [2, 1, 0]
    """
    order: NDArray[np.int64] = np.lexsort((np.asarray(gains), -np.asarray(scores)))
    return order


def ranking_scores(ranked: Gains, judged: Gains) -> dict[str, float]:
    """ndcg_at_10, mrr_at_10 and recall_at_100 of one query; nan when nothing is relevant.

    Args:
        ranked: gains in the order of the ranking; 0 for documents that were not judged.
        judged: gains of all judged documents.
    """
    return {
        "ndcg_at_10": ndcg(ranked, judged, depth=DEPTHS["ndcg_at_10"]),
        "mrr_at_10": reciprocal_rank(ranked, judged, depth=DEPTHS["mrr_at_10"]),
        "recall_at_100": recall(ranked, judged, depth=DEPTHS["recall_at_100"]),
    }


def scores_of_rankings(
    rankings: Mapping[str, Iterable[str]], gains: Mapping[str, Mapping[str, float]]
) -> dict[str, NDArray[np.float64]]:
    """The scores of many queries, by name: one value a ranking, in the order of `rankings`.

    Args:
        rankings: document ids by query id, best first.
        gains: by query id and document id; what is not named is worth 0.

    Example:
        >>> found = scores_of_rankings({"q": ["b", "a"]}, {"q": {"a": 1.0}})
        >>> found["mrr_at_10"].tolist()
        [0.5]
    """
    rows = []
    for query, documents in rankings.items():
        known = gains.get(query, {})
        ranked = [known.get(document, 0.0) for document in documents]
        rows.append(ranking_scores(ranked, list(known.values())))
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in DEPTHS}


def mean_score(values: Gains, weights: Gains | None = None) -> float:
    """Mean over the queries that have a score; nan when none has.

    Args:
        values: one a query; nan where nothing is relevant.
        weights: how often each query counts; None for once.
    """
    given = np.asarray(values, dtype=np.float64)
    often = np.ones(len(given)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = ~np.isnan(given)
    total = often[kept].sum()
    return float((given[kept] * often[kept]).sum() / total) if total else float("nan")


def _discounted(gains: Gains, depth: int) -> float:
    first = np.asarray(gains, dtype=np.float64)[:depth]
    return float((first / np.log2(np.arange(2, len(first) + 2))).sum())
