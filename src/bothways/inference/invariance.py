"""The probe behind `Model.bit_invariant`: do a text's states have the same bits in any batch?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bothways.inference.predictor import run
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch

# Below, at and above the row counts where matrix kernels are known to change.
_LENGTHS = (1, 2, 3, 5, 7, 8, 9, 17, 33, 64, 65, 127, 128)


def is_bit_invariant(encoder: Encoder) -> bool:
    """Whether random texts get equal bits alone and together, on this machine and thread count."""
    generator = torch.Generator().manual_seed(0)
    axis = encoder.config.embeddings
    ids = [
        torch.randint(axis.vocab_size, (length,), generator=generator).tolist()
        for length in _LENGTHS
        if length <= axis.usable_positions
    ]
    alone = _states(encoder, ids, batch_tokens=1)
    together = _states(encoder, ids, batch_tokens=sum(_LENGTHS))
    return all(torch.equal(alone[index], together[index]) for index in range(len(ids)))


def _states(encoder: Encoder, ids: Sequence[Sequence[int]], batch_tokens: int) -> dict[int, Tensor]:
    found: dict[int, Tensor] = {}
    for indices, rows, batch in run(encoder, last_states, ids, batch_tokens=batch_tokens):
        found.update(zip(indices, batch.layout.split(rows), strict=True))
    return found


def last_states(output: EncoderOutput, batch: Batch) -> Tensor:
    """The last layer's states, (tokens, hidden)."""
    del batch
    return output.last_hidden
