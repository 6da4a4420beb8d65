"""Disentangled attention: scores between content and relative position (He et al. 2021).

    score(i, j) = q_i k_j + q_i r_key(d) + k_j r_query(d),   d = distance(i - j)

`RelativeTable` holds one vector a distance for the whole encoder; `RelativeScores` belongs to one
attention and turns the table into the two cross terms. Only distances that occur are projected,
and on a packed layout the terms are read from the products by a view: row i of (length, 2 length
- 1) products holds the distances in order, so the score of j lies one step further for each j.
Nothing is gathered. Sequences of a rectangle may have holes, so there the terms are gathered by
the tokens' positions.

Dimension letters: n sequences, h heads, L length, W = 2L - 1 distances, d head size, H hidden.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.config import EncoderConfig, RelativeConfig
from bothways.model.dropout import Dropout
from bothways.model.kernels import ScoreBias
from bothways.model.layout import Layout


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

    def forward(self, longest: int) -> Float[Tensor, "W H"]:
        """The vectors of distances -(longest - 1) to longest - 1, in that order."""
        device = self.vectors.weight.device
        distance = torch.arange(1 - longest, longest, device=device)
        if self.axis.buckets:
            distance = bucket(distance, self.axis.buckets, self.axis.max_distance)
        index = (distance + self.span).clamp(0, 2 * self.span - 1)
        vectors: Tensor = (
            self.vectors(index) if self.norm is None else self.norm(self.vectors(index))
        )
        return vectors


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
            nn.Linear(config.hidden_size, width, bias=axis.key_bias)
            if own and "c2p" in axis.terms
            else None
        )
        self.query = nn.Linear(config.hidden_size, width) if own and "p2c" in axis.terms else None
        self.dropout = Dropout(config.dropout.hidden)

    def bias(
        self,
        table: Float[Tensor, "W H"],
        layout: Layout,
        *,
        query: nn.Module,
        key: nn.Module,
        scale: float,
    ) -> ScoreBias:
        """A function of queries and keys to the cross terms.

        Args:
            table: vectors of the distances that occur.
            layout: of the batch.
            query, key: the content projections, which serve the table too where shared.
            scale: factor on every term.
        """
        table = self.dropout(table)
        keys = self._project(self.key or key, table, scale) if "c2p" in self.terms else None
        queries = self._project(self.query or query, table, scale) if "p2c" in self.terms else None
        if layout.is_packed:
            return _PackedBias(keys, queries)
        distance = _distances(layout)
        return _RectangleBias(keys, queries, distance + table.shape[0] // 2)

    def _project(self, linear: nn.Module, table: Tensor, scale: float) -> Tensor:
        """(h, d, W): one column a distance."""
        rows: Tensor = linear(table) * scale
        return rows.view(table.shape[0], self.num_heads, -1).permute(1, 2, 0)


class _PackedBias:
    """Cross terms of a group of equal length, read from the products by a view."""

    def __init__(self, keys: Tensor | None, queries: Tensor | None) -> None:
        self.keys = keys
        self.queries = queries

    def __call__(self, q: Float[Tensor, "n h L d"], k: Float[Tensor, "n h L d"]) -> Tensor:
        """(n, h, L, L)."""
        length = q.shape[2]
        total: Tensor | None = None
        if self.keys is not None:
            # Distances i - j fall as j grows: the columns are turned round.
            total = _diagonal(q @ _middle(self.keys, length).flip(-1))
        if self.queries is not None:
            # Row j of the products of keys; its columns follow i.
            term = _diagonal(k @ _middle(self.queries, length)).transpose(-1, -2)
            total = term if total is None else total + term
        assert total is not None
        return total


def _middle(columns: Tensor, length: int) -> Tensor:
    """The columns of distances -(length - 1) to length - 1."""
    centre = columns.shape[-1] // 2
    return columns[..., centre - length + 1 : centre + length]


def _diagonal(products: Float[Tensor, "n h L W"]) -> Float[Tensor, "n h L L"]:
    """Entry (i, j) is column j - i + L - 1 of row i: a view, no copy.

    In memory row i starts at i W, so the entry lies at i (W - 1) + j + L - 1.
    """
    n, heads, length, width = products.shape
    if length == 1:
        return products
    flat = products.reshape(n, heads, length * width)
    flat = flat[..., length - 1 : length - 1 + length * (width - 1)]
    return flat.view(n, heads, length, width - 1)[..., :length]


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
