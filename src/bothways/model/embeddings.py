"""Token, position and type vectors, summed, normed and projected to the hidden size."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bothways.errors import ConfigError
from bothways.model.config import EncoderConfig
from bothways.model.dropout import Dropout
from bothways.model.layout import Batch
from bothways.model.linear import Linear


class Embeddings(nn.Module):
    """A vector a token.

    Args:
        config: the encoder; its embeddings, norm and dropout axes are read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        axis = config.embeddings
        self.config = axis
        self.words = nn.Embedding(axis.vocab_size, axis.size, padding_idx=axis.pad_id)
        kind = {"none": None, "learned": nn.Embedding, "sinusoidal": SinusoidalPositions}[
            axis.positions
        ]
        self.positions = None if kind is None else kind(axis.max_positions, axis.size)
        self.types = nn.Embedding(axis.num_types, axis.size) if axis.num_types else None
        self.norm = (
            nn.LayerNorm(axis.size, eps=config.norm.eps, bias=config.norm.bias)
            if axis.norm
            else None
        )
        self.dropout = Dropout(config.dropout.hidden)
        self.projection = (
            Linear(axis.size, config.hidden_size) if config.projects_embeddings else None
        )

    def forward(self, batch: Batch) -> Float[Tensor, "T H"]:
        """Vectors of a batch.

        Raises:
            LengthError: when a sequence has more tokens than there are usable positions.
            ConfigError: for an id or a type that has no row (asked on the CPU only, where it
                costs no synchronisation).
        """
        layout = batch.layout
        self.config.check_length(layout.longest)
        if batch.ids.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_rows("token ids", batch.ids, self.config.vocab_size)
            if batch.type_ids is not None and self.config.num_types:
                _check_rows("type ids", batch.type_ids, self.config.num_types)
        states: Tensor = self.words(batch.ids)
        if self.config.scale != 1.0:
            states = states * self.config.scale
        if self.types is not None:
            if batch.type_ids is None:
                states = states + self.types.weight[0]
            else:
                states = states + self.types(batch.type_ids)
        if self.positions is not None:
            states = states + self.positions(layout.positions + self.config.position_start)
        if self.norm is not None:
            states = self.norm(states)
        states = self.dropout(states)
        return states if self.projection is None else self.projection(states)


def _check_rows(what: str, ids: Tensor, rows: int) -> None:
    low, high = (int(bound) for bound in ids.aminmax())
    if low < 0 or high >= rows:
        raise ConfigError(
            f"{what} go from {low} to {high}; the model has rows 0 to {rows - 1}. Is the tokenizer "
            "the one that the model was trained with?"
        )


class SinusoidalPositions(nn.Embedding):
    """Positions that are not learned: sines and cosines, or what a checkpoint holds.

    Args:
        rows: positions.
        size: width.
    """

    def __init__(self, rows: int, size: int) -> None:
        super().__init__(rows, size)
        self.weight.requires_grad_(False)


def sinusoidal_table(rows: int, size: int) -> Tensor:
    """(rows, size) fixed positions: sines in even columns, cosines in odd ones.

    Source: Vaswani et al. 2017, section 3.5.
    """
    position = torch.arange(rows, dtype=torch.float64)[:, None]
    column = torch.arange(0, size, 2, dtype=torch.float64)
    angle = position * torch.exp(column * (-math.log(10_000.0) / size))
    table = torch.empty(rows, size, dtype=torch.float64)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle[:, : size // 2])
    return table.float()
