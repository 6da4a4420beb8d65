"""Encoder shapes by name, for building and pretraining without a checkpoint.

`tiny`, `mini` and `small` are BERTs for processors without an accelerator (the sizes of Turc et
al. 2019); the `modern` ones have the parts of ModernBERT. Shapes that learn to detect replaced
tokens come with the generator that replaces them. What a run over a shape looks like (learning
rate, batch, masks) is in recipes/.

The base shape of the BERT paper has 12 layers and its large one 24 (Devlin et al. 2019,
section 3).
"""

from __future__ import annotations

import dataclasses

from bothways.errors import UsageError, nearest
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    LayerKind,
    NormConfig,
    RelativeConfig,
    RotaryConfig,
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


def _roberta_base() -> EncoderConfig:
    """Of 514 position rows 512 can be used; one type of segment."""
    base = _bert(12, 768, 12)
    embeddings = dataclasses.replace(
        base.embeddings,
        vocab_size=50_265,
        max_positions=514,
        position_start=2,
        pad_id=1,
        num_types=1,
    )
    return dataclasses.replace(base, embeddings=embeddings, norm=NormConfig(eps=1e-5))


def _modern(
    num_layers: int,
    hidden_size: int,
    num_heads: int,
    *,
    inner: int,
    vocab_size: int,
    max_positions: int,
) -> EncoderConfig:
    """Rotary, gated, pre-norm, without biases; every third layer sees the whole text."""
    kinds: tuple[LayerKind, LayerKind] = ("local", "global")
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=num_layers,
        embeddings=EmbeddingsConfig(
            vocab_size=vocab_size,
            size=hidden_size,
            positions="none",
            max_positions=max_positions,
            num_types=0,
        ),
        attention=AttentionConfig(
            num_heads=num_heads,
            head_size=hidden_size // num_heads,
            bias="none",
            layer_kinds=tuple(kinds[layer % 3 == 0] for layer in range(num_layers)),
            window=64,
            rotary=RotaryConfig(),
        ),
        feedforward=FeedForwardConfig(size=inner, gated=True, bias=False),
        norm=NormConfig("pre", eps=1e-5, bias=False, skip_first=True, final=True),
        dropout=DropoutConfig(0.0, 0.0, 0.0, attention_output=0.0, feedforward_output=0.0),
    )


def _electra_small() -> EncoderConfig:
    """Embeddings of half the width, so that they can be shared with a narrow generator."""
    shape = _bert(12, 256, 4)
    embeddings = dataclasses.replace(shape.embeddings, size=128)
    return dataclasses.replace(shape, embeddings=embeddings, pooler=False)


def _deberta_small() -> EncoderConfig:
    """As version 3 publishes its small model, over a vocabulary of 128,100 pieces."""
    shape = _bert(6, 768, 12)
    return dataclasses.replace(
        shape,
        embeddings=dataclasses.replace(
            shape.embeddings, vocab_size=128_100, positions="none", num_types=0
        ),
        attention=dataclasses.replace(shape.attention, kind="disentangled"),
        norm=NormConfig(eps=1e-7),
        relative=RelativeConfig(512, buckets=256, shared_projections=True, normalised=True),
        pooler=False,
    )


PRESETS: dict[str, EncoderConfig] = {
    "tiny": _bert(2, 128, 2),
    "mini": _bert(4, 256, 4),
    "small": _bert(4, 512, 8),
    "bert-base": _bert(12, 768, 12),
    "bert-large": _bert(24, 1024, 16),
    "roberta-base": _roberta_base(),
    "modern-tiny": _modern(2, 128, 2, inner=320, vocab_size=30_522, max_positions=1024),
    "modern-mini": _modern(4, 256, 4, inner=640, vocab_size=30_522, max_positions=1024),
    "modern-base": _modern(22, 768, 12, inner=1152, vocab_size=50_368, max_positions=8192),
    "electra-small": _electra_small(),
    "deberta-small": _deberta_small(),
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


def generator_of(config: EncoderConfig) -> EncoderConfig:
    """The encoder that replaces tokens while one of this shape learns to find the replaced ones.

    A quarter as wide where the embeddings are narrower than the encoder (Clark et al. 2020, the
    small model), else half as deep (He et al. 2023). Both have embeddings of the same width, so
    that they can be shared.

    Example:
        >>> shape = generator_of(preset("deberta-small"))
        >>> shape.num_layers, shape.hidden_size
        (3, 768)
    """
    if config.embeddings.size == config.hidden_size:
        layers = max(1, config.num_layers // 2)
        kinds = config.attention.layer_kinds[:layers]
        attention = dataclasses.replace(config.attention, layer_kinds=kinds)
        return dataclasses.replace(config, num_layers=layers, attention=attention, pooler=False)
    num_heads = max(1, config.attention.num_heads // 4)
    return dataclasses.replace(
        config,
        hidden_size=num_heads * config.attention.head_size,
        attention=dataclasses.replace(config.attention, num_heads=num_heads),
        feedforward=dataclasses.replace(
            config.feedforward, size=max(1, config.feedforward.size // 4)
        ),
        pooler=False,
    )
