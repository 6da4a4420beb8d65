"""A small encoder fine-tuned on planted data, all its weights, in place of a linear stand-in."""

from __future__ import annotations

import csv
import tempfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Literal

from bothways.config import CommonSettings
from bothways.inference.model import Model, load
from bothways.tasks.classify import ClassifyExample
from bothways.training.finetune import finetune
from bothways.training.settings import (
    DataSettings,
    FinetuneSettings,
    LoopSettings,
    NetworkSettings,
    OptimSettings,
)
from tests.diagnostics.planted import Planted, tiny


def fine_tuned(planted: Planted, seed: int) -> Model:
    """A model trained as `bothways finetune` does, from random weights."""
    length = planted.learned_length or planted.max_length
    # Planting a fault may change the head.
    return deepcopy(_trained(tuple(planted.train), length, planted.pooling, planted.blind, seed))


@cache
def _trained(
    examples: tuple[ClassifyExample, ...],
    max_length: int,
    pooling: Literal["cls", "mean"],
    blind: bool,
    seed: int,
) -> Model:
    """Most twins, and some faults, learn from the same texts, so each is learned from once."""
    with tempfile.TemporaryDirectory() as folder:
        train, base, output = (Path(folder, name) for name in ("train.csv", "base", "output"))
        with train.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            pairs = examples[0].pair is not None
            rows.writerow(["text", "label", *["pair"] * pairs])
            rows.writerows([e.text, e.label, *[e.pair] * pairs] for e in examples)
        Model(tiny(blind=blind)).save(base)
        finetune(
            FinetuneSettings(
                model=str(base),
                output=output,
                data=DataSettings(train=train, text_pair="pair" if pairs else None),
                network=NetworkSettings(pooling=pooling),
                loop=LoopSettings(epochs=12, batch_size=32),
                optim=OptimSettings(learning_rate=(3e-3,)),
                common=CommonSettings(seed=seed, max_length=max_length, threads=1),
            )
        )
        return load(output)
