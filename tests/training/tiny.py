"""A tiny encoder and texts for whole runs of fine-tuning."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from bothways.checkpoints.parts import new_parts
from bothways.checkpoints.save import save_parts
from bothways.config import CommonSettings
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
)
from bothways.tasks.classify import label_results
from bothways.tasks.results import Result
from bothways.tokenization.tokenizer import load_tokenizer
from bothways.training.recorder import Event, OnEvent, StepDone
from bothways.training.settings import (
    DataSettings,
    FinetuneSettings,
    LoopSettings,
    NetworkSettings,
    OptimSettings,
)

GOOD = ["great", "lovely", "fine", "bright"]
BAD = ["awful", "dull", "poor", "bleak"]
PLAIN = ["the", "film", "was", "a", "very", "long", "story", "and", "it", "ended"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_tiny_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    words = [*SPECIAL, *GOOD, *BAD, *PLAIN]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = EncoderConfig(
        hidden_size=16,
        num_layers=2,
        embeddings=EmbeddingsConfig(vocab_size=len(words), size=16, max_positions=24),
        attention=AttentionConfig(num_heads=2, head_size=8),
        feedforward=FeedForwardConfig(size=32),
        dropout=DropoutConfig(hidden=0.1, attention=0.1, classifier=0.1),
        pooler=True,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    save_parts(new_parts(config, tokenizer=load_tokenizer(folder)), folder)
    return folder


def write_examples(path: Path, count: int, *, seed: int = 0, groups: int = 0) -> Path:
    """Sentences of plain words with one good or bad one; groups share their number's text."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", *(["film"] if groups else [])])
        for number in range(count):
            label = ("bad", "good")[number % 2]
            word = draw.choice(GOOD if label == "good" else BAD)
            words = draw.choices(PLAIN, k=draw.randint(3, 9))
            words.insert(draw.randint(0, len(words)), word)
            writer.writerow([" ".join(words), label, *([number % groups] if groups else [])])
    return path


def settings_for(
    model: Path,
    examples: Path,
    output: Path,
    *,
    data: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    optim: Mapping[str, Any] | None = None,
    loop: Mapping[str, Any] | None = None,
    **rest: Any,
) -> FinetuneSettings:
    """Settings of a short run; what a test varies is given by table."""
    return FinetuneSettings(
        str(model),
        output,
        DataSettings(
            **{"train": examples / "train.csv", "dev": examples / "dev.csv", **(data or {})}
        ),
        network=NetworkSettings(**{"pooling": "mean", **(network or {})}),
        optim=OptimSettings(**{"learning_rate": (2e-2,), **(optim or {})}),
        loop=LoopSettings(**{"epochs": 3, "batch_size": 8, **(loop or {})}),
        common=CommonSettings(device="cpu"),
        **rest,
    )


class Killed(BaseException):
    """Ends a run where it stands, as a kill would."""


def kill_after(step: int) -> OnEvent:
    def on_event(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == step:
            raise Killed

    return on_event


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(left: Path, right: Path) -> bool:
    ours, theirs = weights(left), weights(right)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def labels(results: Sequence[Result]) -> list[str]:
    return [result.label for result in label_results(results)]


def lines(folder: Path, split: str) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [line for line in map(json.loads, text.splitlines()) if line["split"] == split]


def undecided(model: Path, examples: Path, output: Path, **rest: Any) -> FinetuneSettings:
    """A run without held-out data, which is quicker."""
    return settings_for(model, examples, output, data={"dev": None}, **rest)
