"""Pooled states of every layer of a frozen encoder, kept while it reads for another purpose.

Which examples are read, and when, is in `evidence.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bothways.data.collate import Source
from bothways.evaluation.intervals import Indices
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch

POOLINGS = ("cls", "mean", "max")


@dataclass(frozen=True)
class States:
    """Pooled states of the frozen encoder: after the embeddings and after each layer.

    Attributes:
        cls, mean, max: (layers + 1, sequences, hidden) float32; first token, and mean and largest
            value of each dimension over all tokens.
        owners: (sequences,) index of the example that each belongs to; several are windows, or
            the texts of an embedder's example.
    """

    cls: NDArray[np.float32]
    mean: NDArray[np.float32]
    max: NDArray[np.float32]
    owners: Indices

    def of_examples(self, pooling: str = "mean") -> NDArray[np.float32]:
        """(layers + 1, examples, hidden); the mean of an example's sequences.

        Args:
            pooling: cls, mean or max.
        """
        states: NDArray[np.float32] = getattr(self, pooling)
        starts = np.flatnonzero(np.r_[True, np.diff(self.owners) > 0])
        counts = np.diff(np.r_[starts, len(self.owners)]).astype(np.float32)
        means: NDArray[np.float32] = np.add.reduceat(states, starts, axis=1) / counts[:, None]
        return means


class Listener:
    """An encoder that keeps pooled states of every layer of what it reads.

    Args:
        encoder: that does the work.
        owners: example of each sequence that will be read, once.
    """

    def __init__(self, encoder: Encoder, owners: Indices) -> None:
        self.encoder = encoder
        shape = (encoder.config.num_layers + 1, len(owners), encoder.config.hidden_size)
        starts = np.flatnonzero(np.r_[True, np.diff(owners) > 0])
        self._start_of = torch.from_numpy(starts)
        cls, mean, largest = (np.empty(shape, np.float32) for _ in POOLINGS)
        self.states = States(cls, mean, largest, owners)

    def reads(self, others: Any) -> Callable[[Sequence[Source]], dict[str, Tensor]]:
        """What a batch has to hold: which sequence each is, and what the head needs."""

        def read(sources: Sequence[Source]) -> dict[str, Tensor]:
            examples = torch.tensor([source.example for source in sources])
            windows = torch.tensor([source.window for source in sources])
            given: dict[str, Tensor] = others(sources) if others is not None else {}
            return {**given, "sequence": self._start_of[examples] + windows}

        return read

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked of an encoder."""
        return getattr(self.encoder, name)

    def __call__(self, batch: Batch, rows: Tensor | None = None) -> EncoderOutput:
        """Read a batch whole, whatever the head needs of it."""
        del rows
        output: EncoderOutput = self.encoder(batch, all_hidden=True)
        places = batch.targets["sequence"].cpu().numpy()
        layout, states = batch.layout, self.states
        for layer, hidden in enumerate(output.all_hidden or ()):
            states.cls[layer, places] = layout.first(hidden).float().cpu().numpy()
            states.mean[layer, places] = layout.mean(hidden).float().cpu().numpy()
            states.max[layer, places] = layout.max(hidden).float().cpu().numpy()
        return output
