"""Makers of heads that several families share: configuration in, head out.

Each returns a function for `HeadSpec.build`. The heads themselves are in `model/heads.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from bothways.families.keys import ConfigKeys
from bothways.model.config import Activation, EncoderConfig
from bothways.model.heads import ClassificationHead, MaskedLMHead, Pooling, TokenHead

BuildHead = Callable[[EncoderConfig, ConfigKeys, int], nn.Module]


def masked_lm(
    activation: Activation | None = None, *, relation_dropout: float | None = 0.0
) -> BuildHead:
    """A masked-LM head as wide as the token table; outputs, where asked for, are relations.

    Args:
        activation: None for the one of the feed-forward layers.
        relation_dropout: rate before the relation's output; None for the configuration's rate for
            classifiers.
    """

    def build(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
        del keys
        rate = config.dropout.classifier if relation_dropout is None else relation_dropout
        return MaskedLMHead(
            config.hidden_size,
            config.embeddings.size,
            config.embeddings.vocab_size,
            activation=activation or config.feedforward.activation,
            eps=config.norm.eps,
            num_relations=num_outputs,
            dropout=rate,
        )

    return build


def sequence(
    pooling: Pooling = "pooler",
    *,
    dense: Activation | None = None,
    dropout: float | None = None,
    dense_dropout: float | None = None,
) -> BuildHead:
    """Labels of a text: pool, optionally dense and activation, dropout, linear.

    Args:
        pooling: what is read.
        dense: activation of a dense layer before the output.
        dropout: None for the configuration's rate for classifiers.
        dense_dropout: rate before that dense layer; None: as `dropout`.
    """

    def build(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
        del keys
        return ClassificationHead(
            config.hidden_size,
            num_outputs,
            pooling=pooling,
            dropout=config.dropout.classifier if dropout is None else dropout,
            dense=dense,
            dense_dropout=dense_dropout,
        )

    return build


def token(*, dense: Activation | None = None, dropout: float | None = None) -> BuildHead:
    """Labels of each token; also answers (two outputs) and replaced tokens (one).

    Args:
        dense: activation of a dense layer before the output.
        dropout: None for the configuration's rate for classifiers.
    """

    def build(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
        del keys
        rate = config.dropout.classifier if dropout is None else dropout
        return TokenHead(config.hidden_size, num_outputs, dropout=rate, dense=dense)

    return build
