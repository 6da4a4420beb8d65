"""Disentangled attention: scores between content and relative position (He et al. 2021).

    score(i, j) = q_i k_j + q_i r_key(d) + k_j r_query(d),   d = distance(i - j)

`RelativeTable` holds one vector a distance for the whole encoder; `RelativeScores` belongs to one
attention and turns the vectors of the distances that occur into the two cross terms. On a packed
layout these are read from products by a view: row i of (length, 2 length - 1) products holds the
distances in order, so the score of j lies one step further for each j. Nothing is gathered.
Sequences of a rectangle may have holes, so there the terms are gathered by the tokens' positions.

Dimension letters: n sequences, h heads, L length, W = 2L - 1 distances, d head size, H hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bothways.model.config import EncoderConfig, RelativeConfig
from bothways.model.dropout import Dropout
from bothways.model.kernels import ScoreBias
from bothways.model.layout import Layout
from bothways.model.linear import Linear

# Rows of scores that are worked on together on a CPU; with 12 heads their products fill a cache.
_ROWS = 64


def bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """Distances as buckets: exact up to half the buckets, then on a log scale, sign kept.

    Source: He et al. 2021, the published code of version 2. Computed in float32 as published,
    both logarithms, since a last bit decides which bucket a border falls into.
    """
    middle = buckets // 2
    farthest = torch.full((), (max_distance - 1) / middle, device=distance.device)
    near = distance.abs() < middle
    size = torch.where(near, torch.full_like(distance, middle - 1), distance.abs())
    ratio = torch.log(size / middle) / torch.log(farthest)
    far = torch.ceil(ratio * (middle - 1)) + middle
    return torch.where(size <= middle, distance, (far * distance.sign()).long())


class RelativeTable(nn.Module):
    """One vector a relative distance, shared by all layers.

    Args:
        config: the encoder; its relative axis is read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert config.relative is not None
        self.axis: RelativeConfig = config.relative
        self.span = self.axis.buckets or self.axis.max_distance
        self.vectors = nn.Embedding(2 * self.span, config.hidden_size)
        self.norm = (
            nn.LayerNorm(config.hidden_size, eps=config.norm.eps) if self.axis.normalised else None
        )

    def forward(self, longest: int) -> Distances:
        """The distances -(longest - 1) to longest - 1, in that order."""
        device = self.vectors.weight.device
        distance = torch.arange(1 - longest, longest, device=device)
        if self.axis.buckets:
            distance = bucket(distance, self.axis.buckets, self.axis.max_distance)
        index = (distance + self.span).clamp(0, 2 * self.span - 1)
        return Distances(self, index, self.rows(index))

    def rows(self, index: Int[Tensor, " R"]) -> Float[Tensor, "R H"]:
        """The vectors of some rows of the table."""
        vectors: Tensor = self.vectors(index)
        return vectors if self.norm is None else self.norm(vectors)


@dataclass(frozen=True)
class Distances:
    """The distances that occur in a batch, from the lowest to the highest.

    Attributes:
        table: where their vectors come from.
        index: (W,) row of each.
        vectors: (W, H) of each.
    """

    table: RelativeTable
    index: Tensor
    vectors: Tensor


class RelativeScores(nn.Module):
    """The cross terms of one attention.

    Args:
        config: the encoder; its relative and attention axes are read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert config.relative is not None
        axis = config.relative
        self.terms = axis.terms
        self.shared = axis.shared_projections
        self.num_heads = config.attention.num_heads
        width = config.attention.num_heads * config.attention.head_size
        own = not axis.shared_projections
        self.key = (
            Linear(config.hidden_size, width, bias=axis.key_bias)
            if own and "c2p" in axis.terms
            else None
        )
        self.query = Linear(config.hidden_size, width) if own and "p2c" in axis.terms else None
        self.dropout = Dropout(config.dropout.hidden)

    def bias(
        self,
        distances: Distances,
        layout: Layout,
        *,
        query: nn.Module,
        key: nn.Module,
        scale: float,
    ) -> ScoreBias:
        """A function of queries and keys to the cross terms.

        Args:
            distances: that occur in the batch.
            layout: of the batch.
            query, key: the content projections, which serve the distances too where shared.
            scale: factor on every term.
        """
        keys, queries = (
            # (W, h * d) -> (h, d, W): one column a distance
            None
            if rows is None
            else (rows * scale).unflatten(1, (self.num_heads, -1)).movedim(0, 2)
            for rows in self.project(distances, query=query, key=key)
        )
        if layout.is_packed:
            return _PackedBias(keys, queries)
        return _RectangleBias(keys, queries, _distances(layout) + distances.index.shape[0] // 2)

    def project(
        self, distances: Distances, *, query: nn.Module, key: nn.Module
    ) -> tuple[Tensor | None, Tensor | None]:
        """Relative keys and queries of the distances, (W, h * d) each; None without the term."""
        vectors = self.dropout(distances.vectors)
        keys, queries = self.projections(query=query, key=key)
        return (
            None if keys is None else keys(vectors),
            None if queries is None else queries(vectors),
        )

    def projections(
        self, *, query: nn.Module, key: nn.Module
    ) -> tuple[nn.Module | None, nn.Module | None]:
        """The layers that make relative keys and queries; None without the term."""
        return (
            (self.key or key) if "c2p" in self.terms else None,
            (self.query or query) if "p2c" in self.terms else None,
        )


class _PackedBias:
    """Cross terms of a group of equal length, read from the products by a view.

    Args:
        keys, queries: (h, d, W); distances i - j fall as j grows, so keys are turned round.
    """

    def __init__(self, keys: Tensor | None, queries: Tensor | None) -> None:
        self.keys = None if keys is None else keys.flip(-1)
        self.queries = queries

    def __call__(self, q: Float[Tensor, "n h L d"], k: Float[Tensor, "n h L d"]) -> Tensor:
        """(n, h, L, L)."""
        terms: list[list[Tensor]] = []
        if self.keys is not None:
            terms.append(_diagonals(q, self.keys))
        if self.queries is not None:
            # Row j of the products of keys; its columns follow i.
            terms.append([each.transpose(-1, -2) for each in _diagonals(k, self.queries)])
        totals = [sum(pieces[1:], pieces[0]) for pieces in zip(*terms, strict=True)]
        return totals[0][None] if len(totals) == 1 else torch.stack(totals)


def _diagonals(
    rows: Float[Tensor, "n h L d"], columns: Float[Tensor, "h d W"]
) -> list[Float[Tensor, "h L L"]]:
    """For each sequence, entry (i, j) is row i times the column of distance j - i.

    On a CPU each sequence goes alone, a few rows at a time: the products then stay in the cache,
    no column is copied for the batch, and rows need not be multiplied with distances that only
    others have. A sequence's bits do not depend on its company.
    """
    length, centre = rows.shape[2], columns.shape[-1] // 2
    step = _ROWS if rows.is_cpu else length
    parts: list[list[Tensor]] = [[] for _ in rows]
    for first in range(0, length, step):
        last = min(first + step, length)
        near = columns[..., centre + 1 - last : centre + length - first]
        for pieces, sequence in zip(parts, rows.unbind(), strict=True):
            pieces.append(_diagonal(torch.bmm(sequence[:, first:last], near)))
    return [pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1) for pieces in parts]


def _diagonal(products: Float[Tensor, "h R W"]) -> Float[Tensor, "h R L"]:
    """Entry (i, j) is column j - i + R - 1 of row i: a view, no copy.

    In memory row i starts at i W, so the entry lies at i (W - 1) + j + R - 1.
    """
    heads, count, width = products.shape
    if count == 1:
        return products
    flat = products.flatten(1)[:, count - 1 : count - 1 + count * (width - 1)]
    return flat.view(heads, count, width - 1)[..., : width - count + 1]


class _RectangleBias:
    """Cross terms of a rectangle, gathered by the tokens' positions.

    Args:
        keys, queries: (h, d, W).
        index: (B, L, L) column of the distance between tokens i and j.
    """

    def __init__(self, keys: Tensor | None, queries: Tensor | None, index: Tensor) -> None:
        self.keys = keys
        self.queries = queries
        self.index = index[:, None]

    def __call__(self, q: Float[Tensor, "n h L d"], k: Float[Tensor, "n h L d"]) -> Tensor:
        """(B, h, L, L)."""
        index = self.index.expand(-1, q.shape[1], -1, -1)
        total: Tensor | None = None
        if self.keys is not None:
            total = (q @ self.keys).gather(-1, index)
        if self.queries is not None:
            term = (k @ self.queries).gather(-1, index.transpose(-1, -2)).transpose(-1, -2)
            total = term if total is None else total + term
        assert total is not None
        return total


def _distances(layout: Layout) -> Tensor:
    """(B, L, L) position of i minus position of j, counting kept tokens."""
    assert layout.shape is not None
    position = layout.positions.view(layout.shape)
    return position[:, :, None] - position[:, None, :]
