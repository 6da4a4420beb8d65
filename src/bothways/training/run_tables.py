"""The tables [data], [network], [optim] and [loop]: what every run of fine-tuning has.

Settings of single tasks are in `task_tables.py`, and what goes beyond plain fine-tuning in
`tuning_table.py`; `settings.py` puts all together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Tasks that learn from documents, queries and judgements too.
RETRIEVAL_TASKS = ("embed", "rerank")


@dataclass(frozen=True)
class DataSettings:
    """What is learned from and judged on.

    Attributes:
        train: labelled file to learn from.
        corpus: documents of a retrieval set to learn from instead: SMART, jsonl, csv or tsv.
        queries: its queries.
        qrels: its judgements; --dev and --test are then judgements too, of other queries.
        judgements: how queries are named and grades meant: plain (by id, a grade is a gain), or
            cranfield (by position, 1 is the best grade); auto: what the files look like.
        dev: labelled file that chooses the best weights.
        dev_share: share of the training data to hold out instead, such as 0.1.
        test: labelled file that is judged once, at the end.
        text: column of the text; a name, or a number from 1 where there is no header.
        text_pair: column of the second text of a pair.
        label: column of the label.
        group: column whose equal values never stand on both sides of --dev-share.
        stratify: give every label the same share on both sides of --dev-share.
    """

    train: Path | None = None
    corpus: Path | None = None
    queries: Path | None = None
    qrels: Path | None = None
    judgements: Literal["auto", "plain", "cranfield"] = "auto"
    dev: Path | None = None
    dev_share: float | None = None
    test: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    group: str | None = None
    stratify: bool = False

    @property
    def learned(self) -> Path:
        """The file that labels are learned from: rows, or judgements."""
        found = self.train or self.qrels
        assert found is not None, "`FinetuneSettings.check` refuses settings without either"
        return found

    def problems(self, task: str) -> list[str]:
        """What does not go together, in words."""
        parts = {"--corpus": self.corpus, "--queries": self.queries, "--qrels": self.qrels}
        missing = [flag for flag, value in parts.items() if value is None]
        if len(missing) == len(parts):
            problems = [] if self.judgements == "auto" else ["--judgements is for --qrels"]
            return problems if self.train else [*problems, "give --train, a labelled file"]
        problems = [f"a retrieval set needs {', '.join(missing)} too"] if missing else []
        if self.train is not None:
            problems.append("give --train or a retrieval set (--corpus), not both")
        if task not in RETRIEVAL_TASKS:
            listed = ", ".join(RETRIEVAL_TASKS)
            problems.append(f"--corpus is for the tasks {listed}, not for --task {task}")
        named = {"text": self.text, "text-pair": self.text_pair, "label": self.label}
        problems += [
            f"--{flag} names a column of --train, and a retrieval set has none"
            for flag, value in (named | {"group": self.group}).items()
            if value is not None
        ]
        return problems


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
