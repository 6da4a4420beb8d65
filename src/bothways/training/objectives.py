"""What a run minimises: one module from a batch to the sums of its losses.

Here: the base class that the loop and the runtime know, and the objective of a task with an
encoder and a head. The loop divides by the counts of the whole step, so an objective never takes
a mean: micro-batches and ranks then add up exactly. The objectives of pretraining are in
`masked_lm.py` and `replaced.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bothways.model.crf import with_head
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch
from bothways.tasks.task import Task
from bothways.training.estimate import forward_flops
from bothways.training.pieces import in_pieces, loss_over_ranks


@dataclass(frozen=True)
class Part:
    """One of the sums of an objective.

    Attributes:
        name: in the log.
        weight: of its mean in the loss; 0 for what is only watched.
    """

    name: str
    weight: float = 1.0


class Objective(nn.Module):
    """A module whose `forward(batch)` returns the sums of the losses of a batch.

    It is wrapped as one (data parallel, sharded), so everything that learns is inside.

    Attributes:
        parts: what the sums are, in order. The loss is the weighted sum of their means.
    """

    parts: tuple[Part, ...] = (Part("loss"),)

    def forward(self, batch: Batch) -> Tensor:
        """The sums of the parts, (parts,); a scalar where there is one part."""
        raise NotImplementedError

    def count(self, batch: Batch) -> int:
        """Over how many targets the first part sums, known before `forward` runs."""
        raise NotImplementedError

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """Over how many targets each part sums; objectives of several parts say so here."""
        return (self.count(batch),)

    def flops(self, batch: Batch) -> float:
        """FLOPs of the matrix products of forward and backward; 0 when not known."""
        del batch
        return 0.0


class TaskObjective(Objective):
    """The loss of a task over an encoder and its head.

    Args:
        encoder: all or some of its parameters may be frozen.
        head: head(output, batch) -> logits.
        task: its loss and what it counts.
        piece_tokens: for heads that make one row a sequence: tokens whose activations are in
            memory at once, where a batch is larger (`pieces.py`); None for the whole batch.
        over_ranks: whether the loss compares the rows of all ranks.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        task: Task[Any],
        *,
        piece_tokens: int | None = None,
        over_ranks: bool = False,
    ) -> None:
        super().__init__()
        self._piece_tokens, self._over_ranks = piece_tokens, over_ranks
        self.encoder = encoder
        self.head = head
        self.task = task
        # The last layer need not compute states that the head does not read.
        self._rows: Callable[[Batch], Tensor | None] | None = getattr(head, "rows", None)
        blocks = list(encoder.layers)
        learned = [any(p.requires_grad for p in block.parameters()) for block in blocks]
        # A backward pass takes twice the products of a forward one, in the blocks it reaches.
        self._passes = 1.0 + 2.0 * sum(learned) / len(blocks)

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the task's losses."""
        logits = self.logits(batch)
        if self._over_ranks:
            return loss_over_ranks(self.task, logits, batch)
        return self.task.loss(logits, with_head(batch, self.head))[0]

    def logits(self, batch: Batch) -> Tensor:
        """What the head makes of a batch."""
        if self._piece_tokens is not None:
            return in_pieces(self._logits, batch, self._piece_tokens)
        return self._logits(batch)

    def _logits(self, batch: Batch) -> Tensor:
        wanted = None if self._rows is None else self._rows(batch)
        logits: Tensor = self.head(self.encoder(batch, rows=wanted), batch)
        return logits

    def count(self, batch: Batch) -> int:
        """The task's units."""
        return self.task.count(batch)

    def flops(self, batch: Batch) -> float:
        """Of the encoder's blocks; where some are frozen, of the passes that reach them."""
        return self._passes * forward_flops(self.encoder.config, batch.layout.lengths)
