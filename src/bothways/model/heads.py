"""Heads: small networks over an encoder's output.

A head takes `(output, batch)` and returns logits; what a task does with them (loss, decoding) is
in `tasks/`. Families choose the values (which activation, which norm) through constructor
arguments; where no family is concerned, `ClassificationHead` is the usual one. Every head can
say how it was made (`describe_head`), so that a folder can hold one that has no published class.
Several heads over one encoder are a ModuleDict of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from bothways.errors import ConfigError, nearest
from bothways.model.activations import ACTIVATIONS
from bothways.model.config import Activation
from bothways.model.crf import CrfHead
from bothways.model.dropout import Dropout
from bothways.model.encoder import EncoderOutput
from bothways.model.entities import EntityHead
from bothways.model.layout import Batch
from bothways.model.linear import Linear
from bothways.model.windows import WindowAttentionHead

Pooling = Literal["pooler", "cls", "mean"]
# What a row of a head's logits belongs to.
Unit = Literal["sequence", "token"]
# Which have a bias: the dense layer before the output, and the norm after that layer.
HeadBias = Literal["all", "dense", "norm", "none"]


class ClassificationHead(nn.Module):
    """Logits a sequence: pool, optionally dense, activation and norm, dropout, linear.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits.
        pooling: the pooler's output, the first token, or the mean over all tokens.
        dropout: rate before each linear layer.
        dense: activation of a dense layer before the output; None for no such layer.
        dense_dropout: rate before that dense layer; None: as `dropout`.
        norm: eps of a norm after that dense layer; None for no norm.
        bias: which of that dense layer and its norm have one.
    """

    unit: ClassVar[Unit] = "sequence"

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        *,
        pooling: Pooling = "pooler",
        dropout: float = 0.1,
        dense: Activation | None = None,
        dense_dropout: float | None = None,
        norm: float | None = None,
        bias: HeadBias = "all",
    ) -> None:
        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "num_labels": num_labels,
            "pooling": pooling,
            "dropout": dropout,
            "dense": dense,
            "dense_dropout": dense_dropout,
            "norm": norm,
            "bias": bias,
        }
        self.pooling = pooling
        self.activation = dense
        self.dense = None if dense is None else _dense(hidden_size, hidden_size, bias)
        self.norm = None if norm is None or dense is None else _norm(hidden_size, norm, bias)
        self.dense_dropout = Dropout(dropout if dense_dropout is None else dense_dropout)
        self.dropout = Dropout(dropout)
        self.output = Linear(hidden_size, num_labels)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N labels"]:
        """Logits, (sequences, labels)."""
        pooled = self.pool(output, batch)
        if self.dense is not None and self.activation is not None:
            pooled = ACTIVATIONS[self.activation](self.dense(self.dense_dropout(pooled)))
        if self.norm is not None:
            pooled = self.norm(pooled)
        logits: Tensor = self.output(self.dropout(pooled))
        return logits

    def rows(self, batch: Batch) -> Tensor | None:
        """Tokens whose last states this head reads; None for all."""
        return None if self.pooling == "mean" else batch.layout.first_index

    def pool(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N H"]:
        """One vector a sequence."""
        if self.pooling == "mean":
            return batch.layout.mean(output.last_hidden)
        if self.pooling == "cls":
            whole = output.last_hidden.shape[0] == batch.ids.shape[0]
            return batch.layout.first(output.last_hidden) if whole else output.last_hidden
        assert output.pooled is not None, "pooling='pooler' needs an encoder with a pooler"
        return output.pooled


class TokenHead(nn.Module):
    """Logits a token: optionally dense, activation and norm, dropout, linear.

    With two outputs they are the start and end scores of an answer; with one, whether a token
    was replaced.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits.
        dropout: rate before the output layer.
        dense: activation of a dense layer before the output; None for no such layer.
        norm: eps of a norm after that dense layer; None for no norm.
        bias: which of that dense layer and its norm have one.
    """

    unit: ClassVar[Unit] = "token"

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        *,
        dropout: float = 0.1,
        dense: Activation | None = None,
        norm: float | None = None,
        bias: HeadBias = "all",
    ) -> None:
        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "num_labels": num_labels,
            "dropout": dropout,
            "dense": dense,
            "norm": norm,
            "bias": bias,
        }
        self.activation = dense
        self.dense = None if dense is None else _dense(hidden_size, hidden_size, bias)
        self.norm = None if norm is None or dense is None else _norm(hidden_size, norm, bias)
        self.dropout = Dropout(dropout)
        self.output = Linear(hidden_size, num_labels)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "T labels"]:
        """Logits of every token, (tokens, labels)."""
        del batch
        states = output.last_hidden
        if self.dense is not None and self.activation is not None:
            states = ACTIVATIONS[self.activation](self.dense(states))
        if self.norm is not None:
            states = self.norm(states)
        logits: Tensor = self.output(self.dropout(states))
        return logits


class ReplacedTokenHead(nn.Module):
    """Whether each token was replaced, seen beside the text's first state.

    output(activation(dense(norm(state + first)))), as in the code published with He et al. 2023.
    The head of Clark et al. 2020, which has neither sum nor norm, is a `TokenHead`.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits.
        activation: after the dense layer.
        eps: of the norm.
    """

    unit: ClassVar[Unit] = "token"

    def __init__(
        self,
        hidden_size: int,
        num_labels: int = 1,
        *,
        activation: Activation = "gelu",
        eps: float = 1e-7,
    ) -> None:
        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "num_labels": num_labels,
            "activation": activation,
            "eps": eps,
        }
        self.activation = activation
        self.norm = nn.LayerNorm(hidden_size, eps=eps)
        self.dense = Linear(hidden_size, hidden_size)
        self.output = Linear(hidden_size, num_labels)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "T labels"]:
        """Logits of every token, (tokens, labels)."""
        states, layout = output.last_hidden, batch.layout
        first = layout.first(states).index_select(0, layout.sequence_of_token)
        inner = ACTIVATIONS[self.activation](self.dense(self.norm(first + states)))
        logits: Tensor = self.output(inner)
        return logits


class SummaryHead(nn.Module):
    """Logits a sequence through a few numbers that sum up its first token.

    Dropout, linear, activation, dropout, linear.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits.
        summary_size: how many numbers the text is summed up in.
        activation: of these numbers.
        dropout: rate before they are made.
        summary_dropout: rate on them.
    """

    unit: ClassVar[Unit] = "sequence"

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        summary_size: int,
        *,
        activation: Activation = "identity",
        dropout: float = 0.1,
        summary_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "num_labels": num_labels,
            "summary_size": summary_size,
            "activation": activation,
            "dropout": dropout,
            "summary_dropout": summary_dropout,
        }
        self.activation = activation
        self.summary = ClassificationHead(hidden_size, summary_size, pooling="cls", dropout=dropout)
        self.dropout = Dropout(summary_dropout)
        self.output = Linear(summary_size, num_labels)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N labels"]:
        """Logits, (sequences, labels)."""
        summed_up = ACTIVATIONS[self.activation](self.summary(output, batch))
        logits: Tensor = self.output(self.dropout(summed_up))
        return logits

    def rows(self, batch: Batch) -> Tensor | None:
        """Tokens whose last states this head reads."""
        return self.summary.rows(batch)


class MaskedLMHead(nn.Module):
    """Logits over the vocabulary: dense, activation, norm, tied output.

    Args:
        hidden_size: width of the encoder.
        size: width of the token table that the output is tied to.
        vocab_size: width of the logits.
        activation: after the dense layer; None for no such layer and no norm.
        eps: of the norm.
        num_relations: width of a second output, over the pooler's vector, that says how the two
            texts of a pair go together (next sentence, sentence order); 0 for none.
        dropout: rate before that second output.
        bias: which of the dense layer and the norm have one.
    """

    unit: ClassVar[Unit] = "token"

    def __init__(
        self,
        hidden_size: int,
        size: int,
        vocab_size: int,
        *,
        activation: Activation | None = "gelu",
        eps: float = 1e-12,
        num_relations: int = 0,
        dropout: float = 0.0,
        bias: HeadBias = "all",
    ) -> None:
        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "size": size,
            "vocab_size": vocab_size,
            "activation": activation,
            "eps": eps,
            "num_relations": num_relations,
            "dropout": dropout,
            "bias": bias,
        }
        self.activation = activation
        self.dense = None if activation is None else _dense(hidden_size, size, bias)
        self.norm = None if activation is None else _norm(size, eps, bias)
        self.output = Linear(size, vocab_size)
        self.relation = (
            ClassificationHead(hidden_size, num_relations, dropout=dropout)
            if num_relations
            else None
        )

    def tie(self, table: nn.Embedding) -> None:
        """Use the token table as the output weights."""
        self.output.weight = table.weight

    def features(self, states: Float[Tensor, "T H"]) -> Float[Tensor, "T E"]:
        """States before the output layer; take the positions that matter first."""
        if self.activation is None or self.dense is None or self.norm is None:
            return states
        normed: Tensor = self.norm(ACTIVATIONS[self.activation](self.dense(states)))
        return normed

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "T vocab"]:
        """Logits of every token, (tokens, vocabulary)."""
        del batch
        logits: Tensor = self.output(self.features(output.last_hidden))
        return logits


def _dense(width: int, size: int, bias: HeadBias) -> Linear:
    return Linear(width, size, bias=bias in ("all", "dense"))


def _norm(size: int, eps: float, bias: HeadBias) -> nn.LayerNorm:
    return nn.LayerNorm(size, eps=eps, bias=bias in ("all", "norm"))


HEADS: dict[str, type[nn.Module]] = {
    "classification": ClassificationHead,
    "token": TokenHead,
    "crf": CrfHead,
    "replaced": ReplacedTokenHead,
    "summary": SummaryHead,
    "entities": EntityHead,
    "window_attention": WindowAttentionHead,
    "masked_lm": MaskedLMHead,
}
SEVERAL = "several"


def describe_head(head: nn.Module) -> dict[str, Any]:
    """The kind and the constructor arguments of a head, as JSON; `build_head` is the inverse.

    Raises:
        ConfigError: when the head is of no kind listed in `HEADS`.

    Example:
        >>> describe_head(ReplacedTokenHead(8))
        {'kind': 'replaced', 'hidden_size': 8, 'num_labels': 1, 'activation': 'gelu', 'eps': 1e-07}
    """
    if isinstance(head, nn.ModuleDict):
        each = {name: describe_head(module) for name, module in head.items()}
        return {"kind": SEVERAL, "heads": each}
    for kind, made_by in HEADS.items():
        if type(head) is made_by:
            return {"kind": kind, **vars(head)["settings"]}
    raise ConfigError(
        f"a head of class {type(head).__name__} cannot be described; known: "
        f"{', '.join(cls.__name__ for cls in HEADS.values())}"
    )


def build_head(description: Mapping[str, Any]) -> nn.Module:
    """A head with new weights from what `describe_head` gave.

    Raises:
        ConfigError: for an unknown kind, or an argument that is unknown or absent.
    """
    settings = dict(description)
    kind = settings.pop("kind", None)
    if kind == SEVERAL:
        return nn.ModuleDict({name: build_head(each) for name, each in settings["heads"].items()})
    if kind not in HEADS:
        raise ConfigError(f"no head is of kind {kind!r}; {nearest(str(kind), HEADS)}")
    signature = inspect.signature(HEADS[kind])
    try:
        signature.bind(**settings)
    except TypeError as error:
        raise ConfigError(f"a head of kind {kind!r} cannot be built: {error}") from error
    return HEADS[kind](**settings)
