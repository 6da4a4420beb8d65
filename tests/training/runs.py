"""Small runs for the tests: a tiny encoder, texts of random ids, a label that can be learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.model.config import EncoderConfig, build_config
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead
from bothways.model.init import initialise
from bothways.model.layout import Batch, Layout
from bothways.training.feed import ExampleFeed
from bothways.training.loop import Evaluate, LoopPlan, train
from bothways.training.objectives import Objective
from bothways.training.optim import adamw
from bothways.training.recorder import OnEvent, Recorder
from bothways.training.runtime import Runtime
from bothways.training.schedule import linear
from bothways.training.state import CheckpointStore, Progress

VOCAB_SIZE = 40
NUM_LABELS = 3


@dataclass(frozen=True)
class Origin:
    """The one thing an error message asks a source for."""

    example: int


class ToyObjective(Objective):
    """Cross-entropy of a tiny classifier.

    Args:
        dropout: of every kind.
        seed: of the weights.
        unused: also holds a layer that the loss does not read.
    """

    def __init__(self, *, dropout: float = 0.0, seed: int = 0, unused: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.encoder = Encoder(tiny_config(dropout))
        self.head = ClassificationHead(32, NUM_LABELS, pooling="cls", dropout=dropout)
        initialise(self.head, 0.02)
        self.unused = torch.nn.Linear(4, 4) if unused else None

    def forward(self, batch: Batch) -> Tensor:
        logits = self.head(self.encoder(batch), batch)
        return F.cross_entropy(logits, batch.targets["label"], reduction="sum")

    def count(self, batch: Batch) -> int:
        return batch.layout.num_sequences


def tiny_config(dropout: float = 0.0) -> EncoderConfig:
    return build_config(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        num_heads=2,
        num_layers=2,
        max_positions=16,
        dropout=dropout,
    )


@dataclass(frozen=True)
class Texts:
    """Random ids with labels: which third of the vocabulary the first one is from."""

    ids: list[list[int]]
    labels: list[int]

    @classmethod
    def draw(cls, count: int, seed: int = 0) -> Texts:
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(2, 9, (count,), generator=generator).tolist()
        ids = [torch.randint(1, VOCAB_SIZE, (n,), generator=generator).tolist() for n in lengths]
        return cls(ids, [row[0] * NUM_LABELS // VOCAB_SIZE for row in ids])

    def batch(self, indices: Sequence[int]) -> Batch:
        return Batch(
            torch.tensor([piece for index in indices for piece in self.ids[index]]),
            Layout.packed([len(self.ids[index]) for index in indices]),
            targets={"label": torch.tensor([self.labels[index] for index in indices])},
            sources=tuple(Origin(index) for index in indices),
        )

    def plan(self, epoch: int, batch_size: int) -> list[list[int]]:
        """Another order every epoch, as a function of the epoch alone."""
        order = torch.randperm(len(self.ids), generator=torch.Generator().manual_seed(epoch))
        return [part.tolist() for part in order.split(batch_size)]


@dataclass
class ToyRun:
    """A whole run; everything that tests vary is a field."""

    texts: Texts = field(default_factory=lambda: Texts.draw(48))
    epochs: int = 2
    batch_size: int = 8
    micro_batches: int = 1
    learning_rate: float = 5e-3
    dropout: float = 0.0
    folder: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    on_event: OnEvent | None = None
    evaluate: Evaluate | None = None
    unused: bool = False

    def __post_init__(self) -> None:
        self.runtime = Runtime(device="cpu")
        self.objective = ToyObjective(dropout=self.dropout, unused=self.unused)
        self.optimizer = adamw(self.objective, learning_rate=self.learning_rate)
        self.feed = ExampleFeed(
            self.texts.batch,
            lambda epoch: self.texts.plan(epoch, self.batch_size),
            epochs=self.epochs,
            micro_batches=self.micro_batches,
            rank=self.runtime.rank,
            num_ranks=self.runtime.num_ranks,
        )
        self.store = CheckpointStore(self.folder, settings=self.settings) if self.folder else None

    def run(self) -> Progress:
        steps = self.feed.num_steps
        plan = LoopPlan(steps=steps, schedule=linear(steps=steps), log_every=1)
        path = self.folder / "metrics.jsonl" if self.folder and self.runtime.is_main else None
        return train(
            self.objective,
            optimizer=self.optimizer,
            feed=self.feed,
            plan=dataclasses.replace(plan, **self.plan),
            runtime=self.runtime,
            recorder=Recorder(path, on_event=self.on_event),
            store=self.store,
            evaluate=self.evaluate,
        )

    def weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.objective.state_dict().items()}


def same_bits(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Whether two sets of weights are equal bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)
