"""Small random encoders and texts of ids for the tests of inference."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from bothways.model.config import (
    Activation,
    AttentionConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
)
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout

VOCAB_SIZE = 97


def config(width: int = 48, *, activation: Activation = "gelu", layers: int = 2) -> EncoderConfig:
    """A BERT with a pooler; the feed-forward network is no multiple of the width."""
    return EncoderConfig(
        hidden_size=width,
        num_layers=layers,
        embeddings=EmbeddingsConfig(vocab_size=VOCAB_SIZE, size=width, max_positions=256),
        attention=AttentionConfig(num_heads=6, head_size=width // 6),
        feedforward=FeedForwardConfig(size=3 * width + 8, activation=activation),
        pooler=True,
        initializer_range=0.1,
    )


def encoder(shape: EncoderConfig | None = None) -> Encoder:
    """In evaluation mode, its biases random too."""
    torch.manual_seed(0)
    made = Encoder(shape or config()).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return made


def gated(shape: EncoderConfig, *, bias: bool = True) -> EncoderConfig:
    """The same with a gate in its feed-forward network."""
    axis = dataclasses.replace(shape.feedforward, gated=True, bias=bias)
    return dataclasses.replace(shape, feedforward=axis)


def draw_ids(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    """Random texts of these lengths."""
    draw = random.Random(seed)
    return [[draw.randrange(VOCAB_SIZE) for _ in range(length)] for length in lengths]


def batch_of(ids: Sequence[Sequence[int]]) -> Batch:
    """The texts as one packed batch."""
    flat = torch.tensor([piece for pieces in ids for piece in pieces])
    return Batch(flat, Layout.packed([len(pieces) for pieces in ids]))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside, as many as before outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
