"""Replaced-token detection: a small generator fills masks, the encoder finds what it filled in.

The generator learns masked language modelling; at each masked token an id is drawn from what it
expects there, and the encoder, which is the model that is kept, tells for every token whether it
is the original. A draw that happens to be right counts as original. The gradient does not pass
through the draw. Generator and encoder may share their embeddings:

    embeddings      all tables are one (ELECTRA, Clark et al. 2020)
    disentangled    the encoder adds a table of its own to the generator's, and its loss does not
                    move the generator's (DeBERTa-v3, He et al. 2023): both losses pull the same
                    table in different directions otherwise
    none

Which tokens are masked is in `data/masking.py`, masked language modelling in `masked_lm.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bothways.errors import UsageError
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.model.vocabulary import vocabulary_loss_and_draw
from bothways.training.estimate import forward_flops, head_flops
from bothways.training.masked_lm import MASKED, ORIGINALS
from bothways.training.objectives import Objective, Part

Sharing = Literal["embeddings", "disentangled", "none"]

# Weight of the encoder's loss: a bit where the generator's is thousands of words (both papers).
DETECTION_WEIGHT = 50.0


class AddedTable(nn.Module):
    """A token table that adds numbers of its own to another one, which it does not move.

    Args:
        base: the other table; not a part of this module.
        start: what the sum begins as.
    """

    def __init__(self, base: nn.Embedding, start: Tensor) -> None:
        super().__init__()
        self._base = (base,)  # in a tuple, so that its weights are not counted as this module's
        self.added = nn.Parameter((start - base.weight).detach())

    @property
    def weight(self) -> Tensor:
        """The sum."""
        return self._base[0].weight.detach() + self.added

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids."""
        return F.embedding(ids, self._base[0].weight.detach()) + F.embedding(ids, self.added)


class ReplacedTokenObjective(Objective):
    """The generator's masked-LM loss and the encoder's loss over every token of the texts.

    Args:
        encoder: what is kept.
        head: over it, one logit a token.
        generator: with embeddings of the same width, unless nothing is shared.
        generator_head: over the generator; tied to its token table.
        sharing: of embeddings.
        weight: of the encoder's loss.

    Raises:
        UsageError: when embeddings that are to be shared have different shapes.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        *,
        generator: Encoder,
        generator_head: MaskedLMHead,
        sharing: Sharing = "embeddings",
        weight: float = DETECTION_WEIGHT,
    ) -> None:
        super().__init__()
        if sharing != "none":
            share_embeddings(encoder, generator, sharing)
            generator_head.tie(generator.embeddings.words)
        self.sharing = sharing
        self.encoder = encoder
        self.head = head
        self.generator = generator
        self.generator_head = generator_head
        self.parts = (
            Part("masked_lm"),
            Part("replaced", weight),
            Part("accuracy", 0.0),
            Part("replaced_accuracy", 0.0),
            Part("share_replaced", 0.0),
        )

    def forward(self, batch: Batch) -> Tensor:
        """Sums of both losses, of right guesses of both, and of replaced tokens."""
        masked, originals = batch.targets[MASKED], batch.targets[ORIGINALS]
        head = self.generator_head
        features = head.features(self.generator(batch, rows=masked).last_hidden)
        guessing, right, drawn = vocabulary_loss_and_draw(
            features, head.output.weight, head.output.bias, originals
        )
        replaced = torch.zeros_like(batch.ids, dtype=torch.bool)
        replaced[masked] = drawn != originals
        shown = dataclasses.replace(batch, ids=batch.ids.index_copy(0, masked, drawn))
        logits = self.head(self.encoder(shown), shown)[:, 0].float()
        if batch.special is not None:
            logits, replaced = logits[~batch.special], replaced[~batch.special]
        detecting = F.binary_cross_entropy_with_logits(logits, replaced.float(), reduction="sum")
        found = ((logits > 0.0) == replaced).sum()
        return torch.stack([guessing, detecting, right, found.float(), replaced.sum().float()])

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """Masked tokens, and tokens of texts."""
        masked, tokens = len(batch.targets[MASKED]), batch.layout.num_tokens
        if batch.special is not None:
            tokens -= int(batch.special.sum())
        return (masked, tokens, masked, tokens, tokens)

    def flops(self, batch: Batch) -> float:
        """Of forward and backward pass of both networks."""
        masked, lengths = len(batch.targets[MASKED]), batch.layout.lengths
        config = self.generator.config
        return 3.0 * (
            forward_flops(config, lengths, last_rows=masked)
            + head_flops(config, masked)
            + forward_flops(self.encoder.config, lengths)
        )


def share_embeddings(encoder: Encoder, generator: Encoder, sharing: Sharing) -> None:
    """Make the embeddings of two encoders one, or the one's a sum over the other's.

    Args:
        encoder: keeps its projection to the hidden size.
        generator: its tables are used.
        sharing: `embeddings` or `disentangled`.

    Raises:
        UsageError: when they have different shapes.
    """
    ours, theirs = encoder.embeddings, generator.embeddings
    if ours.words.weight.shape != theirs.words.weight.shape:
        raise UsageError(
            f"embeddings of shape {tuple(ours.words.weight.shape)} and "
            f"{tuple(theirs.words.weight.shape)} cannot be shared; give generator and encoder the "
            "same vocabulary and embedding size"
        )
    if sharing == "disentangled":
        table: Any = AddedTable(theirs.words, ours.words.weight)
        ours.words = table
        return
    for name in ("words", "positions", "types", "norm"):
        setattr(ours, name, getattr(theirs, name))


def merge_tables(encoder: Encoder) -> None:
    """Give an encoder whose token table is a sum a plain table of the same numbers."""
    table: Any = encoder.embeddings.words
    if isinstance(table, AddedTable):
        with torch.no_grad():
            plain = nn.Embedding.from_pretrained(
                table.weight.clone(), freeze=False, padding_idx=encoder.config.embeddings.pad_id
            )
        encoder.embeddings.words = plain
