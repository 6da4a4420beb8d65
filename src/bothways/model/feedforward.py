"""The two-layer network of each block, plain or gated."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.activations import ACTIVATIONS
from bothways.model.config import EncoderConfig
from bothways.model.dropout import Dropout
from bothways.model.linear import Linear


class FeedForward(nn.Module):
    """output(activation(input x)), or output(activation(input x) * gate x).

    Args:
        config: the encoder; its feedforward and dropout axes are read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        axis = config.feedforward
        self.activation = axis.activation
        self.input = Linear(config.hidden_size, axis.size, bias=axis.bias)
        self.gate = Linear(config.hidden_size, axis.size, bias=axis.bias) if axis.gated else None
        self.output = Linear(axis.size, config.hidden_size, bias=axis.bias)
        self.dropout = Dropout(config.dropout.activation)

    def forward(self, states: Float[Tensor, "T H"]) -> Float[Tensor, "T H"]:
        """Token by token."""
        inner = ACTIVATIONS[self.activation](self.input(states))
        if self.gate is not None:
            inner = inner * self.gate(states)
        output: Tensor = self.output(self.dropout(inner))
        return output
