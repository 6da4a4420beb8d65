"""Batches with masks, made by hand: what the objectives of pretraining read."""

from __future__ import annotations

import torch

from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch, Layout
from bothways.training.masked_lm import MASKED, ORIGINALS, RELATION

MASK_ID, FIRST_WORD = 4, 5


def masked_batch(
    config: EncoderConfig, lengths: list[int], *, seed: int = 0, share: float = 0.3
) -> Batch:
    """Random texts between [CLS] (2) and [SEP] (3), of which some tokens are hidden."""
    generator = torch.Generator().manual_seed(seed)
    size = config.embeddings.vocab_size
    ids = torch.randint(FIRST_WORD, size, (sum(lengths),), generator=generator)
    layout = Layout.packed(lengths)
    special = torch.zeros(len(ids), dtype=torch.bool)
    special[layout.first_index] = special[layout.starts[1:].long() - 1] = True
    ids[layout.first_index] = 2
    ids[layout.starts[1:].long() - 1] = 3
    masked = (~special & (torch.rand(len(ids), generator=generator) < share)).nonzero()[:, 0]
    originals = ids[masked]
    relation = torch.randint(0, 2, (len(lengths),), generator=generator)
    hidden = ids.index_fill(0, masked, MASK_ID)
    targets = {MASKED: masked, ORIGINALS: originals, RELATION: relation}
    return Batch(hidden, layout, special=special, targets=targets)
