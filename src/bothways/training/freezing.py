"""Frozen parts: which parameters do not learn, and the states of an encoder that does not at all.

An encoder that is frozen whole gives a text the same states in every epoch, so it runs once, with
dropout off, and what the head reads is kept. A head with a `pool` method reads one vector a
sequence, and that is all that is kept of it; for any other head it is all token states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.errors import UsageError
from bothways.inference.predictor import run
from bothways.model.config import EncoderConfig
from bothways.model.crf import with_head
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch, Layout
from bothways.tasks.task import Task
from bothways.training.objectives import Objective

KINDS = "embeddings, encoder, or a number of layers"


def freeze(encoder: Encoder, what: str | None) -> None:
    """Take parameters out of training.

    Args:
        encoder: what is frozen.
        what: None for nothing, `embeddings`, `encoder`, or a number: so many layers from the
            bottom, with the embeddings below them.

    Raises:
        UsageError: for anything else, or more layers than there are.
    """
    check_freeze(encoder.config, what)
    if what is None:
        return
    if what == "encoder":
        encoder.requires_grad_(False)
        return
    frozen = _frozen_blocks(encoder.config, what)
    encoder.embeddings.requires_grad_(False)
    for index in frozen:
        encoder.layers[index].requires_grad_(False)


def check_freeze(axis: EncoderConfig, what: str | None) -> None:
    """Refuse what cannot be frozen of an encoder.

    Args:
        axis: its configuration.
        what: as `freeze` takes it.

    Raises:
        UsageError: as `freeze`.
    """
    if what in (None, "encoder"):
        return
    count = _count(what or "")
    if count < 0 or (what != "embeddings" and not 1 <= count <= axis.num_layers):
        raise UsageError(f"--freeze is {what!r}; expected {KINDS} from 1 to {axis.num_layers}")
    shared = {index for blocks in axis.block_order[count:] for index in blocks}
    if _frozen_blocks(axis, what or "") & shared:
        raise UsageError(
            f"--freeze {what}: the layers of this encoder share their weights, so the lower ones "
            "cannot be frozen alone; use embeddings or encoder"
        )


def _count(what: str) -> int:
    return 0 if what == "embeddings" else int(what) if what.isdigit() else -1


def _frozen_blocks(axis: EncoderConfig, what: str) -> set[int]:
    return {index for blocks in axis.block_order[: _count(what)] for index in blocks}


class KeptStates:
    """What a head reads of each sequence, computed once.

    Args:
        encoder: run in evaluation mode.
        head: says with `pool` whether one vector a sequence is enough.
        encodings: of each example; several are windows.
        batch_tokens: budget of a batch; None for the device's default.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        encodings: Sequence[Sequence[Any]],
        *,
        batch_tokens: int | None = None,
    ) -> None:
        flat = [encoding for windows in encodings for encoding in windows]
        pool = getattr(head, "pool", None)
        types = [encoding.type_ids for encoding in flat]

        def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
            pooled: Tensor = output.last_hidden if pool is None else pool(output, batch)
            return pooled.float().cpu()

        found: dict[int, Tensor] = {}
        for indices, rows, batch in run(
            encoder,
            read_out,
            [encoding.ids for encoding in flat],
            type_ids=types if any(any(kinds) for kinds in types) else None,
            rows=getattr(head, "rows", None),
            batch_tokens=batch_tokens,
        ):
            parts = rows.split(1) if pool is not None else batch.layout.split(rows)
            # A copy, so that one sequence does not keep the memory of its whole batch.
            found.update(zip(indices, (part.clone() for part in parts), strict=True))
        states = iter(found[index] for index in range(len(flat)))
        self._states = [[next(states) for _ in windows] for windows in encodings]

    def batch(self, sources: Sequence[Source], targets: dict[str, Tensor]) -> Batch:
        """A batch whose target `states` holds what the head reads, in place of tokens."""
        parts = [self._states[source.example][source.window] for source in sources]
        states = torch.cat(parts)
        layout = Layout.packed([len(part) for part in parts])
        ids = torch.zeros(len(states), dtype=torch.long)
        return Batch(ids, layout, targets={**targets, "states": states}, sources=tuple(sources))


class HeadObjective(Objective):
    """The loss of a task over kept states: only the head is inside.

    Args:
        head: head(output, batch) -> logits.
        task: its loss and what it counts.
    """

    def __init__(self, head: nn.Module, task: Task[Any]) -> None:
        super().__init__()
        self.head = head
        self.task = task

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the task's losses."""
        return self.task.loss(self.logits(batch), with_head(batch, self.head))[0]

    def logits(self, batch: Batch) -> Tensor:
        """What the head makes of the states."""
        states = batch.targets["states"]
        logits: Tensor = self.head(EncoderOutput(states, pooled=states), batch)
        return logits

    def count(self, batch: Batch) -> int:
        """The task's units."""
        return self.task.count(batch)
