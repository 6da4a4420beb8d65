"""Ladders whose right rung is known: encoders that lack the words which decide.

What an encoder knows of the words stands in one dimension of its table, as if it had been
pretrained, so that a few steps of fine-tuning bring it out.
"""

from __future__ import annotations

import csv
import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bothways.checkpoints.parts import new_parts
from bothways.checkpoints.save import save_parts
from bothways.config import CommonSettings
from bothways.ladder.settings import ChooseSettings, LabelledSettings
from bothways.model.config import (
    AttentionConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
)
from bothways.tokenization.tokenizer import load_tokenizer
from bothways.training.run_tables import LoopSettings, NetworkSettings, OptimSettings
from tests.training.tiny import BAD, GOOD, PLAIN, SPECIAL

DECIDING = (*GOOD, *BAD)
# Of what is known of a word, beside weights that deviate by a tenth.
STRENGTH = 2.0


# Words that decide and that each encoder knows, cheapest first: what it does not know it cannot
# tell apart.
LADDERS = {
    "smallest": (DECIDING, DECIDING, DECIDING),
    "largest": ((), (GOOD[0],), DECIDING),
    "none": ((), (), (GOOD[0], BAD[0])),
}
NAMES = ("small", "middle", "large")


def ladder(folder: Path, words: Sequence[Sequence[str]]) -> list[Path]:
    """Encoders of 1, 2 and 3 layers, the largest first: not in the order that is right."""
    made = [
        save_encoder(folder / name, layers=number, words=known)
        for number, (name, known) in enumerate(zip(NAMES, words, strict=True), start=1)
    ]
    return made[::-1]


def save_encoder(
    folder: Path, *, layers: int, words: Sequence[str], width: int = 16, knowing: bool = True
) -> Path:
    """An encoder that knows some words, good ones from bad ones, and reads all others as [UNK]."""
    folder.mkdir(parents=True)
    known = [*SPECIAL, *PLAIN, *words]
    (folder / "vocab.txt").write_text("\n".join(known) + "\n", encoding="utf-8")
    config = EncoderConfig(
        hidden_size=width,
        num_layers=layers,
        embeddings=EmbeddingsConfig(vocab_size=len(known), size=width, max_positions=24),
        attention=AttentionConfig(num_heads=2, head_size=width // 2),
        feedforward=FeedForwardConfig(size=2 * width),
        initializer_range=0.1,
    )
    torch.manual_seed(layers)
    parts = new_parts(config, tokenizer=load_tokenizer(folder))
    table = parts.encoder.embeddings.words.weight
    with torch.no_grad():
        for number, word in enumerate(known):
            table[number, 0] = STRENGTH * ((word in GOOD) - (word in BAD)) * knowing
    save_parts(parts, folder)
    return folder


def write_reviews(path: Path, count: int, *, seed: int = 0, noise: float = 0.0) -> Path:
    """Texts that are all different, with one word that decides; some labels turned over."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        seen: set[str] = set()
        while len(seen) < count:
            good = len(seen) % 2 == 1
            words = draw.choices(PLAIN, k=draw.randint(5, 12))
            words.insert(draw.randint(0, len(words)), draw.choice(GOOD if good else BAD))
            text = " ".join(words)
            if text in seen:
                continue
            seen.add(text)
            wrong = draw.random() < noise
            writer.writerow([text, "good" if good != wrong else "bad"])
    return path


def choosing(
    output: Path, candidates: Sequence[Path | str], data: Path, **changes: Any
) -> ChooseSettings:
    """Settings of short runs; what a test varies is given."""
    whole = ChooseSettings(
        output,
        "accuracy=0.75",
        candidates=tuple(map(str, candidates)),
        files=LabelledSettings(data),
        network=NetworkSettings(pooling="mean"),
        optim=OptimSettings((1e-2,)),
        loop=LoopSettings(epochs=2, batch_size=16, seeds=2),
        common=CommonSettings(device="cpu"),
    )
    return dataclasses.replace(whole, **changes)
