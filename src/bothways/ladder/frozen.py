"""A candidate's states before any fine-tuning, as vectors with what is to be told of them.

A vector is the mean over a text, or the state of a word where words are tagged: of the last layer,
beside the mean over all layers, since some encoders keep in the middle what the last one has given
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bothways.errors import NotAsked
from bothways.evaluation.intervals import Indices
from bothways.inference.batches import CPU_BATCH_TOKENS, plan_batches
from bothways.inference.predictor import evaluating
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch
from bothways.tasks.tag import IGNORED
from bothways.training.examples import EncodedExamples
from bothways.training.runtime import Runtime


@dataclass(frozen=True)
class Frozen:
    """Vectors of texts or words.

    Attributes:
        vectors: (items, twice the width) float32.
        targets: (items, outputs): one label of many as ones and zeros, several labels, or a number.
        owners: (items,) the example that each belongs to, by its place among those read.
        one_of_many: whether exactly one output is right.
    """

    vectors: NDArray[np.float32]
    targets: NDArray[np.float32]
    owners: Indices
    one_of_many: bool


def frozen(
    encoder: Encoder, data: EncodedExamples, places: Sequence[int], runtime: Runtime
) -> Frozen:
    """Read some examples with an encoder as it is.

    Args:
        encoder: on the device.
        data: encoded for it.
        places: of the examples.
        runtime: device and precision.

    Raises:
        NotAsked: for a task that tells nothing of single texts or words.
    """
    chosen = data.chosen(places)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    with evaluating(encoder), torch.inference_mode():
        for indices in plan_batches(chosen.lengths, CPU_BATCH_TOKENS):
            batch = chosen.batch(indices).to(runtime.device)
            with runtime.forward():
                found.append(_items(encoder, batch))
    vectors, targets, owners = (
        torch.cat(columns).cpu().numpy() for columns in zip(*found, strict=True)
    )
    order = np.argsort(owners, kind="stable")
    labels = len(data.task.labels)
    is_one = targets.ndim == 1 and not np.issubdtype(targets.dtype, np.floating)
    if is_one:
        targets = np.eye(max(labels, 1), dtype=np.float32)[targets]
    targets = targets.reshape(len(owners), -1).astype(np.float32)
    return Frozen(vectors[order], targets[order], owners[order].astype(np.int64), is_one)


def _items(encoder: Encoder, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors, targets and owners of a batch."""
    hidden = encoder(batch, all_hidden=True).all_hidden
    assert hidden is not None
    mean = torch.zeros_like(hidden[-1], dtype=torch.float32)
    for layer in hidden[1:]:
        mean += layer.float() / (len(hidden) - 1)
    states = torch.cat([hidden[-1].float(), mean], dim=-1)
    owners = torch.tensor([source.example for source in batch.sources], device=states.device)
    if "tag" in batch.targets:
        rows = (batch.targets["tag"] != IGNORED).nonzero().flatten()
        sequences = batch.layout.sequence_of_token[rows]
        return states[rows], batch.targets["tag"][rows], owners[sequences]
    for name in ("label", "labels"):
        target = batch.targets.get(name)
        if target is not None and len(target) == len(owners):
            return batch.layout.mean(states), target, owners
    raise NotAsked("the task tells nothing of single texts or words")
