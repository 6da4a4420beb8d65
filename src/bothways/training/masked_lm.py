"""Masked language modelling: the loss of the tokens that were hidden, and of nothing else.

The last layer and the vocabulary are computed for masked tokens only (`rows`), and the logits a
chunk at a time (`model/vocabulary.py`). Which tokens are masked is decided in `data/masking.py`;
the batch brings them:

    targets["masked"]    (M,) rows of the tokens to be guessed, increasing
    targets["originals"] (M,) their ids before they were hidden
    targets["relation"]  (N,) how the two texts of each sequence go together; where there are pairs,
                         and -100 for a sequence that is none
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.errors import TrainingError
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.model.vocabulary import vocabulary_loss
from bothways.training.estimate import forward_flops, head_flops
from bothways.training.objectives import Objective, Part

MASKED, ORIGINALS, RELATION = "masked", "originals", "relation"


class MaskedLMObjective(Objective):
    """Cross-entropy over masked tokens, and over relations of pairs where the head has them.

    Args:
        encoder: what is trained.
        head: tied to its token table, or not.

    Raises:
        TrainingError: when the head tells relations and the encoder has no pooler to tell by.
    """

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__()
        if head.relation is not None and encoder.pooler is None:
            raise TrainingError("relations of pairs are told by the pooler, which is not there")
        self.encoder = encoder
        self.head = head
        self.parts = (Part("masked_lm"), Part("accuracy", 0.0))
        if head.relation is not None:
            self.parts = (*self.parts, Part("relation"), Part("relation_accuracy", 0.0))

    def forward(self, batch: Batch) -> Tensor:
        """Sums of the losses and of the right guesses."""
        masked, head = batch.targets[MASKED], self.head
        if head.relation is None:
            states = self.encoder(batch, rows=masked).last_hidden
            return torch.stack(masked_loss(head, states, batch.targets[ORIGINALS]))
        rows = torch.cat([masked, batch.layout.first_index])
        states, first = self.encoder(batch, rows=rows).last_hidden.tensor_split([len(masked)])
        assert self.encoder.pooler is not None
        pooled = EncoderOutput(first, pooled=self.encoder.pooler(first))
        logits = head.relation(pooled, batch).float()
        wanted = batch.targets[RELATION]
        return torch.stack(
            [
                *masked_loss(head, states, batch.targets[ORIGINALS]),
                F.cross_entropy(logits, wanted, reduction="sum"),
                (logits.argmax(1) == wanted).sum().float(),
            ]
        )

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """Masked tokens, and pairs."""
        masked = len(batch.targets[MASKED])
        if len(self.parts) == 2:
            return (masked, masked)
        pairs = int((batch.targets[RELATION] >= 0).sum())
        return (masked, masked, pairs, pairs)

    def flops(self, batch: Batch) -> float:
        """Of forward and backward pass, the vocabulary's included."""
        masked = len(batch.targets[MASKED])
        encoder = forward_flops(self.encoder.config, batch.layout.lengths, last_rows=masked)
        return 3.0 * (encoder + head_flops(self.encoder.config, masked))


def masked_loss(head: MaskedLMHead, states: Tensor, originals: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the losses of masked tokens and how many are guessed right.

    Args:
        head: over the vocabulary.
        states: (M, hidden) of the masked tokens.
        originals: (M,) what stood there.
    """
    features = head.features(states)
    return vocabulary_loss(features, head.output.weight, head.output.bias, originals)
