"""The probe behind `Model.bit_invariant`: does a text get the same bits in any batch?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bothways.inference.exported import ExportedEncoder
from bothways.inference.predictor import run
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch

# Below, at and above the row counts where matrix kernels are known to change.
_LENGTHS = (1, 2, 3, 5, 7, 8, 9, 17, 33, 64, 65, 127, 128)


ReadOut = Callable[[EncoderOutput, Batch], Tensor]


def is_bit_invariant(encoder: Encoder, *read_outs: ReadOut) -> bool:
    """Whether random texts get equal bits alone and together, on this machine and thread count.

    Args:
        encoder: whose last states are compared.
        read_outs: heads in evaluation mode and the like; their rows, one a sequence, are compared
            too.
    """
    if isinstance(encoder, ExportedEncoder):
        return False  # engines pad, and promise nothing
    generator = torch.Generator().manual_seed(0)
    axis = encoder.config.embeddings
    ids = [
        torch.randint(axis.vocab_size, (length,), generator=generator).tolist()
        for length in _LENGTHS
        if length <= axis.usable_positions
    ]
    alone, together = (_outputs(encoder, read_outs, ids, budget) for budget in (1, sum(_LENGTHS)))
    return all(
        torch.equal(one, other)
        for index in range(len(ids))
        for one, other in zip(alone[index], together[index], strict=True)
    )


def _outputs(
    encoder: Encoder, read_outs: Sequence[ReadOut], ids: Sequence[Sequence[int]], budget: int
) -> dict[int, list[Tensor]]:
    """States and what is read out of them, by text."""
    found: dict[int, list[Tensor]] = {}
    rows: list[Sequence[Tensor]] = []

    def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
        rows[:] = [each(output, batch).split(1) for each in read_outs]
        return output.last_hidden

    for indices, states, batch in run(encoder, read_out, ids, batch_tokens=budget):
        columns = [batch.layout.split(states), *rows]
        found.update(zip(indices, map(list, zip(*columns, strict=True)), strict=True))
    return found
