"""Exact nearest neighbours: the k rows with the largest product, block by block."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bothways.errors import UsageError

# Rows of the queries and of the corpus that are compared at once (64 MB of float32 scores).
QUERY_BLOCK = 256
CORPUS_BLOCK = 65_536

Vectors = NDArray[np.float32] | csr_array


def nearest(
    queries: Vectors,
    corpus: Vectors,
    *,
    k: int,
    query_block: int = QUERY_BLOCK,
    corpus_block: int = CORPUS_BLOCK,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k best corpus rows for each query, by inner product.

    On normalised vectors the product is the cosine. Ties go to the smaller index.

    Args:
        queries: (q, dim), dense or in compressed rows.
        corpus: (n, dim), of the same kind; may be memory-mapped, it is read block by block.
        k: how many; at most n are returned.
        query_block, corpus_block: rows that are compared at once.

    Returns:
        Scores and indices, (q, min(k, n)) each, best first.

    Raises:
        UsageError: when the kinds or widths differ or k is below 1.
    """
    if isinstance(queries, csr_array) != isinstance(corpus, csr_array):
        raise UsageError(
            f"queries are {type(queries).__name__} and the corpus {type(corpus).__name__}; "
            "expected both sparse or both dense"
        )
    if queries.ndim != 2 or corpus.ndim != 2 or queries.shape[1] != corpus.shape[1]:
        raise UsageError(
            f"queries have shape {queries.shape} and the corpus {corpus.shape}; "
            "expected two matrices of one width"
        )
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    k = min(k, corpus.shape[0])
    scores = np.empty((queries.shape[0], k), dtype=np.float32)
    indices = np.empty((queries.shape[0], k), dtype=np.int64)
    for start in range(0, queries.shape[0], query_block):
        block = queries[start : start + query_block]
        count = block.shape[0]
        best = torch.empty(count, 0)
        rows = torch.empty(count, 0, dtype=torch.long)
        for first in range(0, corpus.shape[0], corpus_block):
            part = _products(block, corpus[first : first + corpus_block])
            best = torch.cat([best, part], dim=1)
            fresh = torch.arange(first, first + part.shape[1]).expand(count, -1)
            rows = torch.cat([rows, fresh], dim=1)
            order = _best(best, k)
            best, rows = best.gather(1, order), rows.gather(1, order)
        scores[start : start + count] = best.numpy()
        indices[start : start + count] = rows.numpy()
    return scores, indices


def _products(queries: Vectors, corpus: Vectors) -> torch.Tensor:
    """Every query times every row of the corpus, float32."""
    if isinstance(queries, csr_array):
        return torch.from_numpy(csr_array(queries @ corpus.T).toarray())
    left, right = (torch.from_numpy(np.array(each, dtype=np.float32)) for each in (queries, corpus))
    return left @ right.T


def _best(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Columns of the k largest scores a row, best first, the smaller column first in a tie."""
    kth_place = min(k, scores.shape[1])
    kth = scores.topk(kth_place, dim=1).values[:, -1:]
    # Columns below the k-th value cannot be among the best; few stay, ties included.
    most = max(kth_place, int((scores >= kth).sum(1).max()))  # no number is no smaller than it
    columns = scores.topk(most, dim=1).indices.sort(dim=1).values
    order = scores.gather(1, columns).argsort(dim=1, descending=True, stable=True)[:, :k]
    return columns.gather(1, order)
