"""How much attention goes to later positions: what a reader from left to right would miss."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bothways.inference.predictor import evaluating
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout
from bothways.tokenization.encoding import Encoding


@dataclass(frozen=True)
class LayerLookahead:
    """One layer's attention, averaged over heads and tokens.

    Attributes:
        layer: from 1.
        later: share on positions after the token.
        itself: share on the token.
        earlier: share on positions before the token.
    """

    layer: int
    later: float
    itself: float
    earlier: float


def lookahead(encoder: Encoder, encoding: Encoding) -> list[LayerLookahead]:
    """The shares for each layer on one text.

    Args:
        encoder: any.
        encoding: of the text, special pieces included.
    """
    batch = Batch(
        torch.tensor(encoding.ids),
        Layout.packed([len(encoding)]),
        torch.tensor(encoding.type_ids) if any(encoding.type_ids) else None,
    ).to(encoder.device)
    with evaluating(encoder), torch.inference_mode():
        output = encoder(batch, attentions=True)
    shares = []
    for number, (weights,) in enumerate(output.attentions or (), start=1):
        mean = weights.float().mean(0)  # (L, L)
        later = float(mean.triu(1).sum(1).mean())
        itself = float(mean.diagonal().mean())
        shares.append(LayerLookahead(number, later, itself, 1.0 - later - itself))
    return shares
