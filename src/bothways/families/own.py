"""Encoders built from parts here, which are no published family: every axis is written out.

Such a folder has the layout of all others and model_type "bothways"; transformers has no class
for it. Where a published family can say the same, `registry.family_of` prefers that one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bothways.errors import ConfigError, nearest
from bothways.families.keys import ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec
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
)

# Fields that hold a dataclass of their own.
_PARTS: dict[str, type] = {
    "encoder": EncoderConfig,
    "embeddings": EmbeddingsConfig,
    "attention": AttentionConfig,
    "rotary": RotaryConfig,
    "feedforward": FeedForwardConfig,
    "norm": NormConfig,
    "dropout": DropoutConfig,
    "relative": RelativeConfig,
    "convolution": ConvolutionConfig,
}

_MODULES = ("embeddings", "layers", "norm", "relative", "convolution", "pooler")


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes, as `write` wrote them.

    Raises:
        ConfigError: for an axis that is unknown or absent.
    """
    config = _read("encoder", keys.raw.get("encoder"))
    assert isinstance(config, EncoderConfig)
    return config


def _read(name: str, content: Any) -> Any:
    made_by = _PARTS[name]
    if not isinstance(content, Mapping):
        raise ConfigError(f"{name} is {content!r}; expected an object with the axes")
    known = {field.name: field for field in dataclasses.fields(made_by)}
    unknown = [f"{key!r} ({nearest(key, known)})" for key in content if key not in known]
    required = dataclasses.MISSING
    absent = [
        key
        for key, field in known.items()
        if key not in content and field.default is required and field.default_factory is required
    ]
    if unknown or absent:
        raise ConfigError(
            f"{name} has unknown keys {', '.join(unknown) or '(none)'} and lacks "
            f"{', '.join(absent) or '(none)'}"
        )
    values = {}
    for key, value in content.items():
        nested = (key in _PARTS) and (name != key) and isinstance(value, Mapping)
        plain = tuple(value) if isinstance(value, list) else value
        values[key] = _read(key, value) if nested else plain
    return made_by(**values)


def write(config: EncoderConfig) -> dict[str, Any]:
    """Every axis under the key "encoder", and what common tools look for beside it."""
    return {
        "encoder": dataclasses.asdict(config),
        "hidden_size": config.hidden_size,
        "vocab_size": config.embeddings.vocab_size,
    }


OWN = FamilySpec(
    model_type="bothways",
    title="built from parts",
    prefix="encoder.",
    bare="BothwaysEncoder",
    read=read,
    write=write,
    names=NameTable({name: name for name in _MODULES}, optional=frozenset(_MODULES)),
    description=(
        "An encoder put together from axes here, such as one that `Encoder.build` makes. It has "
        "no class in transformers."
    ),
    changes="whatever its axes say",
)
