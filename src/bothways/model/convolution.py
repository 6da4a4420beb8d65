"""A convolution over tokens beside the first layer (He et al. 2021, version 2, xlarge).

It reads the embeddings and is added to the first layer's output. In a packed row it never reaches
into the next sequence: each sequence is padded with zeros on its own.
"""

from __future__ import annotations

from jaxtyping import Float
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
        self, embeddings: Float[Tensor, "T H"], first: Float[Tensor, "T H"], layout: Layout
    ) -> Float[Tensor, "T H"]:
        """States after the first layer.

        Args:
            embeddings: what the first layer read.
            first: what it returned.
            layout: where the sequences lie.
        """
        mixed = self.dropout(self._convolve(embeddings, layout))
        states: Tensor = self.norm(first + ACTIVATIONS[self.activation](mixed))
        return states

    def _convolve(self, rows: Tensor, layout: Layout) -> Tensor:
        if layout.mask is not None and layout.shape is not None:
            kept = rows.masked_fill(~layout.mask.flatten()[:, None], 0.0)
            mixed = self._slide(kept.view(*layout.shape, -1))
            return mixed.reshape(rows.shape)
        return layout.merge([self._slide(group.take(rows)) for group in layout.groups])

    def _slide(self, rows: Tensor) -> Tensor:
        """(n, L, H) to (n, L, H)."""
        mixed: Tensor = self.convolution(rows.transpose(1, 2)).transpose(1, 2)
        return mixed
