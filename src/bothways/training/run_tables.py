"""The tables [network], [optim] and [loop]: what every run of fine-tuning has.

Settings of single tasks are in `task_tables.py`, and what goes beyond plain fine-tuning in
`tuning_table.py`; `settings.py` puts all together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class NetworkSettings:
    """What is changed about the encoder, and the new head.

    Attributes:
        pooling: what the head reads; auto is the form that the model's family publishes (its
            pooler, or a dense layer over the first token), else the first token.
        freeze: what does not learn: embeddings, a number of layers from the bottom (and the
            embeddings), or encoder, where only the head learns.
        hidden_dropout: dropout of embeddings and sub-layers; unset: the checkpoint's.
        attention_dropout: dropout of attention weights; unset: the checkpoint's.
        classifier_dropout: dropout before the head; unset: the checkpoint's.
    """

    pooling: Literal["auto", "pooler", "cls", "mean"] = "auto"
    freeze: str | None = None
    hidden_dropout: float | None = None
    attention_dropout: float | None = None
    classifier_dropout: float | None = None

    @property
    def dropout(self) -> dict[str, float]:
        """The rates that are given, by their names in `DropoutConfig`."""
        rates = {
            "hidden": self.hidden_dropout,
            "attention": self.attention_dropout,
            "classifier": self.classifier_dropout,
        }
        return {name: rate for name, rate in rates.items() if rate is not None}


@dataclass(frozen=True)
class OptimSettings:
    """The optimizer, AdamW, and its learning rate.

    Attributes:
        learning_rate: the peak; several, as in 2e-5,3e-5,5e-5, are all tried, best on dev.
        weight_decay: of matrices and tables; biases and norms do not decay.
        clip: largest norm of all gradients together; 0 for no limit.
        warmup: share of the steps over which the rate rises; then it falls to 0 in a line.
    """

    learning_rate: tuple[float, ...] = (5e-5,)
    weight_decay: float = 0.01
    clip: float = 1.0
    warmup: float = 0.06


@dataclass(frozen=True)
class LoopSettings:
    """How long, how much at once, and what is kept.

    Attributes:
        epochs: passes over the training data.
        batch_size: examples a step; default 32, unless --batch-tokens is given.
        accumulate: parts in which a step is computed, to save memory; the result is the same.
        seeds: runs with this many seeds, counted up from --seed; the best on dev is kept.
        metric: what the best weights are chosen by; default the task's own.
        early_stop: epochs without improvement on dev after which a run ends; 0 for never.
        checkpoint_every: steps between checkpoints; unset: one every 5 minutes.
        keep_checkpoints: newest checkpoints that stay, besides the best one.
        log_every: steps between lines of metrics.jsonl.
    """

    epochs: int = 3
    batch_size: int | None = None
    accumulate: int = 1
    seeds: int = 1
    metric: str | None = None
    early_stop: int = 0
    checkpoint_every: int | None = None
    keep_checkpoints: int = 2
    log_every: int = 10
