"""A tiny encoder for tests of tasks, and sequences of tokens that say nothing."""

from __future__ import annotations

import torch

from bothways.checkpoints.parts import Parts, new_parts
from bothways.model.config import build_config
from bothways.tokenization.encoding import Encoding


def tiny_parts() -> Parts:
    torch.manual_seed(0)
    return new_parts(build_config(vocab_size=20, hidden_size=8, num_heads=2, num_layers=1))


def encoding(length: int = 3, first: int = 5) -> Encoding:
    ids = list(range(first, first + length))
    return Encoding(ids, [0] * length, [(0, 0)] * length, [None] * length, [False] * length)
