"""One block: attention and feed-forward, each with a residual sum and a norm.

post (BERT)                        pre
x ──┬─ attention ─ dropout ─┐      x ──┬─ norm ─ attention ─ dropout ─┐
    └───────────────────────+      x ──└──────────────────────────────+
norm                               ──┬─ norm ─ feed-forward ─ dropout ─┐
──┬─ feed-forward ─ dropout ─┐     ──└─────────────────────────────────+
  └──────────────────────────+
norm
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.attention import Attention
from bothways.model.config import EncoderConfig
from bothways.model.disentangled import Distances
from bothways.model.dropout import Dropout
from bothways.model.feedforward import FeedForward
from bothways.model.layout import Layout


class Block(nn.Module):
    """A layer of the encoder.

    Args:
        config: the encoder.
        index: which block this is; the first may go without its attention norm.
    """

    def __init__(self, config: EncoderConfig, index: int) -> None:
        super().__init__()
        norm = config.norm
        self.post = norm.placement == "post"
        self.attention = Attention(config)
        self.attention_norm = (
            nn.Identity()
            if norm.skip_first and index == 0
            else nn.LayerNorm(config.hidden_size, eps=norm.eps, bias=norm.bias)
        )
        self.feedforward = FeedForward(config)
        self.feedforward_norm = nn.LayerNorm(config.hidden_size, eps=norm.eps, bias=norm.bias)
        rates = config.dropout
        after_attention, after_feedforward = (
            rates.hidden if rate is None else rate
            for rate in (rates.attention_output, rates.feedforward_output)
        )
        self.attention_dropout = Dropout(after_attention)
        self.dropout = Dropout(after_feedforward)

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
        """New states, and attention weights when asked for; arguments as in `Attention`."""
        mixed, weights = self.attention(
            states if self.post else self.attention_norm(states),
            layout,
            window=window,
            rotary=rotary,
            distances=distances,
            need_weights=need_weights,
            rows=rows,
        )
        if rows is not None:
            states = states.index_select(0, rows)
        states = states + self.attention_dropout(mixed)
        if self.post:
            states = self.attention_norm(states)
            states = self.feedforward_norm(states + self.dropout(self.feedforward(states)))
        else:
            states = states + self.dropout(self.feedforward(self.feedforward_norm(states)))
        return states, weights
