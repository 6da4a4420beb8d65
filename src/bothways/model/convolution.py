"""A convolution over tokens beside the first layer (He et al. 2021, version 2, xlarge).

It reads the embeddings and is added to the first layer's output. In a packed row it never reaches
into the next sequence: each sequence is padded with zeros on its own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bothways.model.activations import ACTIVATIONS
from bothways.model.config import EncoderConfig
from bothways.model.dropout import Dropout
from bothways.model.layout import Layout


class TokenConvolution(nn.Module):
    """norm(first + activation(dropout(convolution(embeddings)))).

    Args:
        config: the encoder; its convolution axis is read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert config.convolution is not None
        axis = config.convolution
        self.activation = axis.activation
        self.convolution = nn.Conv1d(
            config.hidden_size,
            config.hidden_size,
            axis.kernel,
            padding=(axis.kernel - 1) // 2,
            groups=axis.groups,
        )
        self.dropout = Dropout(config.dropout.hidden)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm.eps)

    def forward(
        self,
        embeddings: Float[Tensor, "T H"],
        first: Float[Tensor, "R H"],
        layout: Layout,
        *,
        rows: Tensor | None = None,
    ) -> Float[Tensor, "R H"]:
        """States after the first layer.

        Args:
            embeddings: what the first layer read.
            first: what it returned.
            layout: where the sequences lie.
            rows: tokens that the first layer was asked for; None for all.
        """
        mixed = self._convolve(embeddings, layout)
        if rows is not None:
            mixed = mixed.index_select(0, rows)
        mixed = self.dropout(mixed)
        states: Tensor = self.norm(first + ACTIVATIONS[self.activation](mixed))
        return states

    def _convolve(self, rows: Tensor, layout: Layout) -> Tensor:
        if layout.mask is not None and layout.shape is not None:
            # Kept tokens move to the front: what the mask hides stands between no two of them.
            column = torch.arange(layout.mask.shape[1], device=layout.mask.device)
            # No two keys are equal: not every engine keeps the order of those that are.
            order = torch.where(layout.mask, column, column + column.shape[0]).argsort(dim=1)
            wide = rows.view(*layout.shape, -1).masked_fill(~layout.mask[..., None], 0.0)
            mixed = self._slide(_ordered(wide, order))
            return _ordered(mixed, order.argsort(dim=1)).reshape(rows.shape)
        return layout.merge([self._slide(group.take(rows)) for group in layout.groups])

    def _slide(self, rows: Tensor) -> Tensor:
        """(n, L, H) to (n, L, H)."""
        mixed: Tensor = self.convolution(rows.transpose(1, 2)).transpose(1, 2)
        return mixed


def _ordered(wide: Float[Tensor, "B L H"], order: Int[Tensor, "B L"]) -> Float[Tensor, "B L H"]:
    return wide.gather(1, order[..., None].expand_as(wide))
