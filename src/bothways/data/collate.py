"""What is read as packed batches: encodings with where they came from, and masked sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bothways.data.masking import MaskedTokens
from bothways.data.sequences import Sequences
from bothways.model.layout import Batch, Layout
from bothways.tokenization.encoding import Encoding


@dataclass(frozen=True)
class Source:
    """Where a sequence of a batch came from.

    Attributes:
        example: index of the example in the caller's list.
        window: index of the window in that example, from 0.
        encoding: the pieces.
        given: the example itself, for tasks whose results quote it; None where nobody said.
    """

    example: int
    window: int
    encoding: Encoding
    given: Any = None


def collate(sources: Sequence[Source], targets: dict[str, Tensor] | None = None) -> Batch:
    """A packed batch of encodings, in the order given.

    Sequences sorted by length need fewest attention calls; sorting is the caller's.

    Args:
        sources: at least one.
        targets: put into the batch as they are.
    """
    encodings = [source.encoding for source in sources]
    ids = torch.tensor([piece for encoding in encodings for piece in encoding.ids])
    type_ids = None
    if any(any(encoding.type_ids) for encoding in encodings):
        type_ids = torch.tensor([kind for encoding in encodings for kind in encoding.type_ids])
    special = torch.tensor([flag for encoding in encodings for flag in encoding.special])
    layout = Layout.packed([len(encoding) for encoding in encodings])
    return Batch(ids, layout, type_ids, special, targets or {}, tuple(sources))


def masked_batch(sequences: Sequences, tokens: MaskedTokens) -> Batch:
    """A packed batch for pretraining.

    Args:
        sequences: at least one.
        tokens: what is shown of them.

    Returns:
        The batch, with targets `masked` (rows of the tokens to be guessed), `originals` (their ids)
        and, where there are pairs, `relation` (0 in order, 1 not, -100 no pair).
    """
    targets = {
        "masked": torch.from_numpy(tokens.masked),
        "originals": torch.from_numpy(tokens.originals),
    }
    if sequences.relations is not None:
        targets["relation"] = torch.from_numpy(sequences.relations)
    types = sequences.type_ids
    return Batch(
        torch.from_numpy(tokens.ids),
        Layout.packed(sequences.lengths.tolist()),
        None if types is None else torch.from_numpy(types),
        torch.from_numpy(sequences.special),
        targets,
    )
