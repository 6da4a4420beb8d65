"""Multi-head attention over a layout: projections, rotary positions, the kernel.

The equation softmax(q k) v itself is in `kernels.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.config import EncoderConfig
from bothways.model.disentangled import Distances, RelativeScores
from bothways.model.kernels import ScoreBias, attend, attend_eager
from bothways.model.layout import Layout
from bothways.model.linear import Linear


class Attention(nn.Module):
    """Attention of one block.

    Args:
        config: the encoder; its attention and dropout axes are read.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        axis = config.attention
        self.num_heads = axis.num_heads
        self.head_size = axis.head_size
        self.rate = config.dropout.attention
        width = axis.num_heads * axis.head_size
        self.query = Linear(config.hidden_size, width, bias=axis.bias != "none")
        self.key = Linear(config.hidden_size, width, bias=axis.bias == "all")
        self.value = Linear(config.hidden_size, width, bias=axis.bias != "none")
        self.output = Linear(width, config.hidden_size, bias=axis.bias != "none")
        self.relative = RelativeScores(config) if axis.kind == "disentangled" else None
        terms = 1 if config.relative is None else 1 + len(config.relative.terms)
        self.scale = (axis.head_size * terms) ** -0.5

    def project(self, states: Float[Tensor, "T H"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (T, heads, head_size)."""
        shape = (-1, self.num_heads, self.head_size)
        return (
            self.query(states).view(shape),
            self.key(states).view(shape),
            self.value(states).view(shape),
        )

    def forward(
        self,
        states: Float[Tensor, "T H"],
        layout: Layout,
        *,
        window: int | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        distances: Distances | None = None,
        need_weights: bool = False,
        rows: Tensor | None = None,
    ) -> tuple[Float[Tensor, "R H"], tuple[Tensor, ...] | None]:
        """Mixed states, and the weights of each sequence when asked for.

        Args:
            states: of all tokens.
            layout: where the sequences lie.
            window: reach of a local layer; None for a global one.
            rotary: table of the tokens' angles.
            distances: relative ones that occur; disentangled attention needs them.
            need_weights: return the weights too.
            rows: tokens whose mixed states are wanted; None for all.
        """
        query, key, value = self.project(states)
        if rotary is not None:
            query, key = rotate(query, rotary), rotate(key, rotary)
        kernel = attend_eager if need_weights else attend
        attended = kernel(
            query,
            key,
            value,
            layout,
            scale=self.scale,
            window=window,
            bias=self._bias(distances, layout),
            dropout=self.rate if self.training else 0.0,
        )
        mixed = attended.values.flatten(1)  # (T, h, d) -> (T, h * d)
        if rows is not None:
            mixed = mixed.index_select(0, rows)
        output: Tensor = self.output(mixed)
        return output, attended.weights if need_weights else None

    def _bias(self, distances: Distances | None, layout: Layout) -> ScoreBias | None:
        if self.relative is None or distances is None:
            return None
        return self.relative.bias(
            distances, layout, query=self.query, key=self.key, scale=self.scale
        )


def rotary_table(positions: Tensor, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of each token's angles, (T, 1, head_size) each, float32.

    Source: Su et al. 2021, equation 34, with the halves of a head paired.
    """
    exponent = torch.arange(0, head_size, 2, device=positions.device).float() / head_size
    # Rounded as published: at position 8,000 the last bit of a frequency moves an angle by 5e-4.
    angle = positions[:, None].float() * (1.0 / theta**exponent)[None]  # (T, d / 2)
    both = torch.cat([angle, angle], dim=-1)[:, None]
    return both.cos(), both.sin()


def rotate(rows: Float[Tensor, "T h d"], table: tuple[Tensor, Tensor]) -> Float[Tensor, "T h d"]:
    """Queries or keys turned by their position; float32 inside, the type of the rows outside."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    cosine, sine = (part.to(wide) for part in table)
    low, high = rows.to(wide).chunk(2, dim=-1)
    half = low.shape[-1]
    # In place in the new tensor: two passes over memory, where sums of products take five.
    turned = rows.to(wide) * cosine
    turned[..., :half].addcmul_(high, sine[..., :half], value=-1)
    turned[..., half:].addcmul_(low, sine[..., half:])
    return turned.to(rows.dtype)
