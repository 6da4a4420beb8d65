"""A large batch in the memory of a small one: gradient caching.

Losses that compare all texts of a batch need all its vectors at once, but not all activations. The
encoder reads the batch piece by piece and keeps only the vectors; in the backward pass each piece
is computed again, with the dropout it had, and gives its gradients. The result is that of one
piece, at the price of a second forward pass. Adding up micro-batches (`--accumulate`) saves memory
too, but each of those compares its own texts only.

Here too: the loss over the vectors of all ranks.

Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bothways.inference.batches import plan_batches
from bothways.model.layout import Batch, Layout
from bothways.tasks.task import Task


def in_pieces(forward: Callable[[Batch], Tensor], batch: Batch, piece_tokens: int) -> Tensor:
    """What `forward` makes of a packed batch, one row a sequence, in little memory.

    Args:
        forward: of a batch; draws random numbers from torch's generators only.
        batch: that it reads.
        piece_tokens: most tokens of a piece, unless a single sequence has more.
    """
    pieces = plan_batches(batch.layout.lengths, piece_tokens)
    order = torch.tensor([sequence for piece in pieces for sequence in piece])
    again = torch.is_grad_enabled() and len(pieces) > 1
    parts = [
        checkpoint(forward, take(batch, piece), use_reentrant=False)
        if again
        else forward(take(batch, piece))
        for piece in pieces
    ]
    rows = torch.cat(parts)
    return rows.index_select(0, order.argsort().to(rows.device))


def take(batch: Batch, sequences: Sequence[int]) -> Batch:
    """Some sequences of a packed batch, in the order given, without the targets."""
    lengths, device = batch.layout.lengths, batch.ids.device
    starts = batch.layout.starts.tolist()
    spans = [torch.arange(starts[index], starts[index + 1]) for index in sequences]
    rows = torch.cat(spans).to(device)
    return Batch(
        batch.ids[rows],
        Layout.packed([lengths[index] for index in sequences], device),
        None if batch.type_ids is None else batch.type_ids[rows],
        None if batch.special is None else batch.special[rows],
        sources=tuple(batch.sources[index] for index in sequences) if batch.sources else (),
    )


def loss_over_ranks(task: Task[Any], rows: Tensor, batch: Batch) -> Tensor:
    """This rank's share of the loss of the vectors of all ranks together.

    Its value is the rank's share by its units, its gradient that of the whole loss by the rank's
    own vectors: added up over the ranks, both are those of one large batch.

    Args:
        task: its loss and count read only the targets of a batch.
        rows: vectors of this rank, one a sequence.
        batch: of this rank; each target has one value a sequence.
    """
    sizes = _gather(torch.tensor([len(rows)], device=rows.device), [1] * _ranks())
    counts = [int(size) for size in sizes]
    rank = torch.distributed.get_rank()
    everyone = _gather(rows.detach(), counts)
    everyone[rank] = rows
    targets = {
        name: torch.cat(_gather(target, counts)) for name, target in sorted(batch.targets.items())
    }
    total, units = task.loss(torch.cat(everyone), replace(batch, targets=targets))
    return total - total.detach() * (1 - task.count(batch) / max(units, 1))


def _ranks() -> int:
    return torch.distributed.get_world_size()


def _gather(rows: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """The rows of every rank, of which each may have another number."""
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    torch.distributed.all_gather(parts, padded.contiguous())
    return [part[:count] for part, count in zip(parts, counts, strict=True)]
