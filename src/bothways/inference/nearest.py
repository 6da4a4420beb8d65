"""Exact nearest neighbours: the k rows with the largest product, block by block."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from bothways.errors import UsageError

# Rows of the queries and of the corpus that are compared at once (64 MB of float32 scores).
QUERY_BLOCK = 256
CORPUS_BLOCK = 65_536


def nearest(
    queries: NDArray[np.float32],
    corpus: NDArray[np.float32],
    *,
    k: int,
    query_block: int = QUERY_BLOCK,
    corpus_block: int = CORPUS_BLOCK,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k best corpus rows for each query, by inner product.

    On normalised vectors the product is the cosine. Ties go to the smaller index.

    Args:
        queries: (q, dim).
        corpus: (n, dim); may be memory-mapped, it is read block by block.
        k: how many; at most n are returned.
        query_block, corpus_block: rows that are compared at once.

    Returns:
        Scores and indices, (q, min(k, n)) each, best first.

    Raises:
        UsageError: when the widths differ or k is below 1.
    """
    if queries.ndim != 2 or corpus.ndim != 2 or queries.shape[1] != corpus.shape[1]:
        raise UsageError(
            f"queries have shape {queries.shape} and the corpus {corpus.shape}; "
            "expected two matrices of one width"
        )
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    k = min(k, len(corpus))
    scores = np.empty((len(queries), k), dtype=np.float32)
    indices = np.empty((len(queries), k), dtype=np.int64)
    for start in range(0, len(queries), query_block):
        block = torch.from_numpy(np.array(queries[start : start + query_block], dtype=np.float32))
        best = torch.empty(len(block), 0)
        rows = torch.empty(len(block), 0, dtype=torch.long)
        for first in range(0, len(corpus), corpus_block):
            part = torch.from_numpy(
                np.array(corpus[first : first + corpus_block], dtype=np.float32)
            )
            best = torch.cat([best, block @ part.T], dim=1)
            fresh = torch.arange(first, first + len(part)).expand(len(block), -1)
            rows = torch.cat([rows, fresh], dim=1)
            order = _best(best, k)
            best, rows = best.gather(1, order), rows.gather(1, order)
        scores[start : start + len(block)] = best.numpy()
        indices[start : start + len(block)] = rows.numpy()
    return scores, indices


def _best(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Columns of the k largest scores a row, best first, the smaller column first in a tie."""
    kth_place = min(k, scores.shape[1])
    kth = scores.topk(kth_place, dim=1).values[:, -1:]
    # Columns below the k-th value cannot be among the best; few stay, ties included.
    most = max(kth_place, int((scores >= kth).sum(1).max()))  # no number is no smaller than it
    columns = scores.topk(most, dim=1).indices.sort(dim=1).values
    order = scores.gather(1, columns).argsort(dim=1, descending=True, stable=True)[:, :k]
    return columns.gather(1, order)
