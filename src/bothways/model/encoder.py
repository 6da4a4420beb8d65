"""The encoder: embeddings, blocks, an optional final norm, an optional pooler.

It reads both ways: every token of a sequence sees every other. It knows no family by name;
`families/` turns a published configuration into an `EncoderConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bothways.model.attention import rotary_table
from bothways.model.block import Block
from bothways.model.config import EncoderConfig, LayerKind, build_config
from bothways.model.convolution import TokenConvolution
from bothways.model.disentangled import RelativeTable
from bothways.model.embeddings import Embeddings
from bothways.model.init import initialise
from bothways.model.layout import Batch, Layout, pack, pad
from bothways.model.linear import Linear


@dataclass(frozen=True)
class EncoderOutput:
    """What an encoder returns.

    Attributes:
        last_hidden: (tokens, hidden); (batch, length, hidden) from `Encoder.padded`; only the
            wanted tokens where `rows` were given.
        all_hidden: embeddings and the output of each layer, num_layers + 1, when asked for.
        attentions: per layer, per sequence (heads, length, length), when asked for.
        pooled: (sequences, hidden), or None where there is no pooler.
    """

    last_hidden: Tensor
    all_hidden: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    pooled: Tensor | None = None


class Pooler(nn.Module):
    """tanh of a dense layer over the first token's state.

    Args:
        hidden_size: width in and out.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, first: Float[Tensor, "N H"]) -> Float[Tensor, "N H"]:
        """A vector a sequence."""
        return torch.tanh(self.dense(first))


class Encoder(nn.Module):
    """A bidirectional transformer encoder.

    Args:
        config: its shape and equations. New weights are random; seed torch before, or load.

    Example:
        >>> encoder = Encoder.build(vocab_size=100, hidden_size=32, num_heads=4, num_layers=2)
        >>> batch = Batch(torch.tensor([2, 7, 3, 2, 3]), Layout.packed([3, 2]))
        >>> encoder(batch).last_hidden.shape
        torch.Size([5, 32])
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Block(config, index) for index in range(config.num_blocks))
        self.norm = (
            nn.LayerNorm(config.hidden_size, eps=config.norm.eps, bias=config.norm.bias)
            if config.norm.final
            else None
        )
        self.relative = RelativeTable(config) if config.relative is not None else None
        self.convolution = TokenConvolution(config) if config.convolution is not None else None
        self.pooler = Pooler(config.hidden_size) if config.pooler else None
        if self.embeddings.words.weight.device.type != "meta":
            initialise(self, config.initializer_range)

    @classmethod
    def build(
        cls,
        *,
        vocab_size: int,
        hidden_size: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        max_positions: int = 512,
        dropout: float = 0.1,
    ) -> Encoder:
        """A pre-norm encoder with learned positions and a final norm, from a few numbers.

        Raises:
            ConfigError: when the numbers do not go together.
        """
        return cls(
            build_config(
                vocab_size=vocab_size,
                hidden_size=hidden_size,
                num_heads=num_heads,
                num_layers=num_layers,
                max_positions=max_positions,
                dropout=dropout,
            )
        )

    def forward(
        self,
        batch: Batch,
        *,
        all_hidden: bool = False,
        attentions: bool = False,
        rows: Tensor | None = None,
    ) -> EncoderOutput:
        """Read a batch.

        Args:
            batch: tokens and layout.
            all_hidden: also return the states after the embeddings and after each layer.
            attentions: also return the attention weights (computed eagerly); a layer that dropout
                leaves out in training has none.
            rows: (R,) tokens whose last states are wanted. The last layer then computes its
                output projection and feed-forward network for these alone, and the result is the
                same. With `batch.layout.first_index` the pooler has what it needs; with other
                rows there is no pooled output.

        Raises:
            LengthError: when a sequence has more tokens than there are usable positions.
        """
        states = self.embeddings(batch)
        hidden = [states]
        weights: list[tuple[Tensor, ...]] = []
        tables = self._rotary_tables(batch.layout)
        distances = None if self.relative is None else self.relative(batch.layout.longest)
        steps = [
            (kind, index)
            for kind, blocks in zip(self.config.layer_kinds, self.config.block_order, strict=True)
            for index in blocks
        ]
        for step, (kind, index) in enumerate(steps, start=1):
            wanted = rows if step == len(steps) else None
            if self._layer_dropped():
                states = states if wanted is None else states.index_select(0, wanted)
                given = None
            else:
                states, given = self.layers[index](
                    states,
                    batch.layout,
                    window=self.config.attention.window if kind == "local" else None,
                    rotary=tables.get(kind),
                    distances=distances,
                    need_weights=attentions,
                    rows=wanted,
                )
            if given is not None:
                weights.append(given)
            if self.convolution is not None and step == 1:
                states = self.convolution(hidden[0], states, batch.layout, rows=wanted)
            if step % len(self.config.block_order[0]) == 0:
                hidden.append(states)
        if self.norm is not None:
            # As published: the last of all hidden states is the normed one.
            states = hidden[-1] = self.norm(states)
        return EncoderOutput(
            states,
            tuple(hidden) if all_hidden else None,
            tuple(weights) if attentions else None,
            self._pooled(states, batch.layout, rows),
        )

    def _pooled(self, states: Tensor, layout: Layout, rows: Tensor | None) -> Tensor | None:
        if self.pooler is None:
            return None
        if rows is None:
            states = layout.first(states)
        elif rows is not layout.first_index:
            return None
        pooled: Tensor = self.pooler(states)
        return pooled

    def padded(
        self,
        input_ids: Int[Tensor, "B L"],
        attention_mask: Tensor | None = None,
        token_type_ids: Int[Tensor, "B L"] | None = None,
    ) -> EncoderOutput:
        """Read padded tensors; takes and returns (batch, length, ...).

        Padding is taken out before the first layer and put back, as zeros, after the last. Under
        torch.export and torch.compile the rectangle stays one.

        Args:
            input_ids: token ids.
            attention_mask: nonzero where a token counts; None for all.
            token_type_ids: segments; None for all zero.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if torch.compiler.is_compiling():
            types = None if token_type_ids is None else token_type_ids.flatten()
            layout = Layout.rectangular(attention_mask)
            output = self(Batch(input_ids.flatten(), layout, types))
            states = output.last_hidden.view(*input_ids.shape, -1)
            padding = ~attention_mask.bool()[..., None]
            return EncoderOutput(states.masked_fill(padding, 0.0), pooled=output.pooled)
        output = self(pack(input_ids, attention_mask, token_type_ids))
        return EncoderOutput(pad(output.last_hidden, attention_mask.bool()), pooled=output.pooled)

    def _layer_dropped(self) -> bool:
        rate = self.config.dropout.layer
        return self.training and rate > 0.0 and torch.rand(()).item() < rate

    def _rotary_tables(self, layout: Layout) -> dict[LayerKind, tuple[Tensor, Tensor]]:
        axis = self.config.attention
        if axis.rotary is None:
            return {}
        thetas: dict[LayerKind, float] = {
            "global": axis.rotary.global_theta,
            "local": axis.rotary.local_theta,
        }
        return {
            kind: rotary_table(layout.positions, axis.head_size, thetas[kind])
            for kind in set(self.config.layer_kinds)
        }

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embeddings.words.weight.device

    def num_parameters(self) -> int:
        """How many numbers are learned, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())
