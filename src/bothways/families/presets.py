"""Encoder shapes by name, for building without a checkpoint.

The base shape of the BERT paper has 12 layers and its large one 24 (Devlin et al. 2019,
section 3).
"""

from __future__ import annotations

from bothways.errors import UsageError, nearest
from bothways.model.config import (
    AttentionConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
)


def _bert(num_layers: int, hidden_size: int, num_heads: int) -> EncoderConfig:
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=num_layers,
        embeddings=EmbeddingsConfig(vocab_size=30_522, size=hidden_size),
        attention=AttentionConfig(num_heads=num_heads, head_size=hidden_size // num_heads),
        feedforward=FeedForwardConfig(size=4 * hidden_size),
        pooler=True,
    )


PRESETS: dict[str, EncoderConfig] = {
    "tiny": _bert(2, 128, 2),
    "mini": _bert(4, 256, 4),
    "small": _bert(4, 512, 8),
    "bert-base": _bert(12, 768, 12),
    "bert-large": _bert(24, 1024, 16),
}


def preset(name: str) -> EncoderConfig:
    """The configuration of a named shape.

    Raises:
        UsageError: when no shape has that name.

    Example:
        >>> preset("bert-base").num_layers
        12
    """
    if name not in PRESETS:
        raise UsageError(f"no preset is called {name!r}; {nearest(name, PRESETS)}")
    return PRESETS[name]
