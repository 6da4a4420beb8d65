"""Encoders that every contract runs over: one row a configuration, each with its own odd sizes.

Here: the published shapes, and shapes of no family that put one axis at a time at another value,
so that no axis is right by luck. `python -m tests.contracts.cases` writes the names of their
weights into `names/` anew; the diff is then to be read with care, since names are a format.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bothways.model.config import (
    AttentionConfig,
    ConvolutionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    RelativeConfig,
    RotaryConfig,
    build_config,
)
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout

NAMES = Path(__file__).parent / "names"

# Contracts that compare two ways to the same numbers run in float64: what is left is rounding.
SAME = 1e-9
# The spread of test weights: wide enough that attention is far from uniform.
SPREAD = 0.3


def base_config() -> EncoderConfig:
    """A BERT of two layers."""
    return EncoderConfig(
        hidden_size=24,
        num_layers=2,
        embeddings=EmbeddingsConfig(vocab_size=37, size=24, max_positions=19),
        attention=AttentionConfig(num_heads=3, head_size=8),
        feedforward=FeedForwardConfig(size=40),
        pooler=True,
    )


def change(config: EncoderConfig, **changes: Any) -> EncoderConfig:
    """A configuration with some fields set: `attention__window=2` is `attention.window`."""
    whole: dict[str, Any] = {}
    for name, value in changes.items():
        axis, _, inner = name.partition("__")
        if inner:
            part = whole.get(axis, getattr(config, axis))
            whole[axis] = dataclasses.replace(part, **{inner: value})
        else:
            whole[axis] = value
    return dataclasses.replace(config, **whole)


def _modern() -> EncoderConfig:
    """Pre-norm, no biases, gated, rotary with two bases, global and local layers."""
    return EncoderConfig(
        hidden_size=24,
        num_layers=4,
        embeddings=EmbeddingsConfig(
            vocab_size=41, size=24, positions="none", max_positions=33, num_types=0, pad_id=5
        ),
        attention=AttentionConfig(
            num_heads=2,
            head_size=12,
            bias="none",
            layer_kinds=("global", "local", "local", "global"),
            window=2,
            rotary=RotaryConfig(global_theta=500.0, local_theta=20.0),
        ),
        feedforward=FeedForwardConfig(size=20, gated=True, bias=False),
        norm=NormConfig(placement="pre", eps=1e-5, bias=False, skip_first=True, final=True),
        dropout=DropoutConfig(hidden=0.0, attention=0.0, classifier=0.0),
    )


def _table() -> dict[str, EncoderConfig]:
    base = base_config()
    local = ("local", "global")
    relative = change(base, attention__kind="disentangled", relative=RelativeConfig())
    without = change(
        relative,
        embeddings__positions="none",
        embeddings__num_types=0,
        norm__eps=1e-7,
        pooler=False,
    )
    return {
        "bert": base,
        "bert-without-pooler": change(base, pooler=False),
        "bert-relu": change(base, feedforward__activation="relu", norm__eps=1e-5),
        "bert-gelu-tanh": change(base, feedforward__activation="gelu_tanh", num_layers=3),
        "bert-one-type": change(base, embeddings__num_types=1, embeddings__vocab_size=11),
        "bert-three-types": change(base, embeddings__num_types=3, num_layers=1),
        "built": build_config(
            vocab_size=29, hidden_size=16, num_heads=4, num_layers=2, max_positions=17
        ),
        "modern": _modern(),
        "roberta": change(
            base,
            embeddings__position_start=2,
            embeddings__pad_id=1,
            embeddings__num_types=1,
            norm__eps=1e-5,
        ),
        "distilbert": change(
            base, embeddings__num_types=0, pooler=False, dropout__attention_output=0.0
        ),
        "albert": change(
            base,
            num_layers=4,
            num_layer_groups=1,
            embeddings__size=10,
            feedforward__activation="gelu_tanh",
            dropout=DropoutConfig(hidden=0.0, attention=0.0),
        ),
        "electra": change(base, embeddings__size=16, pooler=False),
        "deberta": change(
            without,
            attention__bias="no_key",
            relative=RelativeConfig(max_distance=19, key_bias=False),
        ),
        "deberta-v3": change(
            without,
            embeddings__max_positions=30,
            relative=RelativeConfig(
                max_distance=30, buckets=8, shared_projections=True, normalised=True
            ),
        ),
        "flaubert": change(
            base,
            embeddings__num_types=0,
            embeddings__pad_id=2,
            feedforward__size=96,
            pooler=False,
            dropout__layer=0.2,
        ),
        "flaubert-large": change(
            base,
            embeddings__num_types=0,
            embeddings__positions="sinusoidal",
            feedforward__activation="relu",
            norm__placement="pre",
            pooler=False,
        ),
        "pre-norm": change(base, norm__placement="pre"),
        "final-norm": change(base, norm__final=True),
        "norm-without-bias": change(base, norm__bias=False),
        "skip-first": change(base, norm__placement="pre", norm__skip_first=True),
        "gated": change(base, feedforward__gated=True, feedforward__activation="silu"),
        "feedforward-without-bias": change(base, feedforward__bias=False),
        "tanh": change(base, feedforward__activation="tanh"),
        "identity": change(base, feedforward__activation="identity"),
        "no-bias": change(base, attention__bias="none"),
        "no-key-bias": change(base, attention__bias="no_key"),
        "wide-heads": change(base, attention__head_size=10, attention__num_heads=4),
        "local": change(base, attention__layer_kinds=local, attention__window=1),
        "rotary": change(base, attention__rotary=RotaryConfig(), embeddings__positions="none"),
        "no-positions": change(base, embeddings__positions="none"),
        "sinusoidal": change(base, embeddings__positions="sinusoidal"),
        "position-start": change(base, embeddings__position_start=2, embeddings__pad_id=1),
        "no-types": change(base, embeddings__num_types=0),
        "no-embedding-norm": change(base, embeddings__norm=False),
        "scaled": change(base, embeddings__scale=24**0.5, embeddings__pad_id=None),
        "projected": change(base, embeddings__size=10),
        "projected-always": change(base, embeddings__projection="always"),
        "shared": change(base, num_layers=4, num_layer_groups=2),
        "shared-inner": change(
            base, num_layers=4, num_layer_groups=2, layers_per_group=2, embeddings__size=6
        ),
        "more-dropout": change(
            base,
            dropout=DropoutConfig(
                hidden=0.2,
                attention=0.3,
                classifier=0.4,
                layer=0.5,
                activation=0.2,
                attention_output=0.1,
                feedforward_output=0.15,
            ),
            initializer_range=0.05,
        ),
        # Distances up to 18 occur, so that far ones share a row.
        "relative": change(relative, relative=RelativeConfig(max_distance=4)),
        "relative-c2p": change(
            relative, relative=RelativeConfig(max_distance=30, terms=("c2p",), key_bias=False)
        ),
        "relative-p2c": change(
            relative, relative=RelativeConfig(max_distance=6, terms=("p2c",), normalised=True)
        ),
        "relative-buckets": change(
            relative,
            relative=RelativeConfig(
                max_distance=16, buckets=6, shared_projections=True, normalised=True
            ),
        ),
        "convolution": change(base, convolution=ConvolutionConfig()),
        "convolution-of-one-layer": change(
            base,
            num_layers=1,
            convolution=ConvolutionConfig(kernel=5, groups=2, activation="gelu"),
        ),
    }


CASES: dict[str, EncoderConfig] = _table()


def make_encoder(
    config: EncoderConfig, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> Encoder:
    """An encoder in evaluation mode whose every parameter, biases and norms too, is random."""
    generator = torch.Generator().manual_seed(seed)
    encoder = Encoder(config).to(dtype).eval()
    for name, parameter in encoder.named_parameters():
        if parameter.requires_grad:
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * SPREAD
            parameter.data.copy_(drawn + float(name.endswith("norm.weight")))
    return encoder


# For tests that only read: nothing may change what these return.
same_encoder = functools.cache(make_encoder)


def draw_ids(config: EncoderConfig, shape: Sequence[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids and type ids of any shape."""
    generator = torch.Generator().manual_seed(seed)
    axis = config.embeddings
    ids = torch.randint(axis.vocab_size, tuple(shape), generator=generator)
    types = torch.randint(max(axis.num_types, 1), tuple(shape), generator=generator)
    return ids, types


def make_batch(config: EncoderConfig, lengths: Sequence[int], seed: int = 0) -> Batch:
    """A packed batch of random tokens."""
    ids, types = draw_ids(config, [sum(lengths)], seed)
    return Batch(ids, Layout.packed(lengths), types)


def make_rectangle(config: EncoderConfig, mask: Tensor, seed: int = 0) -> Batch:
    """A rectangular batch; what the mask hides is random tokens too."""
    ids, types = draw_ids(config, mask.shape, seed)
    return Batch(ids.flatten(), Layout.rectangular(mask), types.flatten())


def alone(batch: Batch) -> list[Batch]:
    """Each sequence of a batch as a batch of its own."""
    assert batch.type_ids is not None
    pairs = zip(batch.layout.split(batch.ids), batch.layout.split(batch.type_ids), strict=True)
    return [Batch(ids, Layout.packed([len(ids)]), types) for ids, types in pairs]


def _mask(*rows: str) -> Tensor:
    return torch.tensor([[letter == "x" for letter in row] for row in rows])


# Every way to lay sequences into a rectangle: `x` is kept.
MASKS: dict[str, Tensor] = {
    "any": _mask(
        "xxxxxxxxx",
        "xxx......",  # padded on the right
        "x........",
        "......xxx",  # on the left
        "........x",
        "..xxxxx..",  # on both sides
        "x.x.xxxxx",  # holes
        "xx.....xx",
        ".x..x..x.",
    ),
    "full": _mask("xxxxx", "xxxxx"),
    "one-token": _mask("x", "x"),
}


def describe_names(encoder: Encoder) -> str:
    """One line a weight: name, shape, and whether it is learned."""
    learned = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    lines = [
        f"{name} {'x'.join(map(str, tensor.shape))}{'' if name in learned else ' fixed'}"
        for name, tensor in encoder.state_dict().items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for case, case_config in CASES.items():
        (NAMES / f"{case}.txt").write_text(describe_names(Encoder(case_config)), encoding="utf-8")
