"""The axes along which encoders differ, one small frozen dataclass an axis.

Here: what can vary and which values make sense together. Not here: which published family has
which values (`families/`), and the modules that are built from them (the other files of `model/`).
A new value of an axis goes here; a new equation gets a module of its own, chosen by one Literal.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal, get_args

from bothways.errors import ConfigError, LengthError

Activation = Literal["gelu", "gelu_tanh", "relu", "silu", "tanh", "identity"]
LayerKind = Literal["global", "local"]
PositionKind = Literal["none", "learned", "sinusoidal"]
ProjectionKind = Literal["by_size", "always"]
AttentionKind = Literal["dot_product", "disentangled"]
AttentionBias = Literal["all", "no_key", "none"]
NormPlacement = Literal["post", "pre"]
RelativeTerm = Literal["c2p", "p2c"]


def _check_least(owner: str, least: float, axis: object, *names: str) -> None:
    wrong = {name: value for name in names if (value := getattr(axis, name)) < least}
    if wrong:
        raise ConfigError(f"{owner}: must be at least {least}: {wrong}")


def _check_choice(name: str, literal: object, *values: str) -> None:
    wrong = sorted(set(values) - set(get_args(literal)))
    if wrong:
        raise ConfigError(f"{name} is {', '.join(wrong)}; one of {', '.join(get_args(literal))}")


@dataclass(frozen=True)
class EmbeddingsConfig:
    """Token, position and type tables.

    Attributes:
        vocab_size: rows of the token table.
        size: width of the tables.
        projection: to the hidden size, where that differs (`by_size`) or in any case (`always`).
        positions: kind of absolute positions added to the tokens.
        max_positions: rows of the position table, or the longest text where there is no table.
        position_start: the row of a text's first token (RoBERTa: padding id + 1).
        num_types: rows of the type table; 0 for none.
        norm: whether a layer norm follows the sum.
        scale: factor on the token vectors before positions are added.
        pad_id: the padding token, whose row gets no gradient; None for none.
    """

    vocab_size: int
    size: int
    positions: PositionKind = "learned"
    max_positions: int = 512
    position_start: int = 0
    num_types: int = 2
    norm: bool = True
    scale: float = 1.0
    pad_id: int | None = 0
    projection: ProjectionKind = "by_size"

    def __post_init__(self) -> None:
        _check_least("embeddings", 1, self, "vocab_size", "size", "max_positions")
        _check_least("embeddings", 0, self, "num_types")
        _check_choice("embeddings.positions", PositionKind, self.positions)
        _check_choice("embeddings.projection", ProjectionKind, self.projection)
        if not 0 <= self.position_start < self.max_positions:
            raise ConfigError(
                f"embeddings.position_start is {self.position_start}; "
                f"expected 0 to {self.max_positions - 1} (max_positions - 1)"
            )
        if self.pad_id is not None and not 0 <= self.pad_id < self.vocab_size:
            raise ConfigError(
                f"embeddings.pad_id is {self.pad_id}; the vocabulary has {self.vocab_size} rows"
            )

    @property
    def usable_positions(self) -> int:
        """The longest text in tokens, special tokens included."""
        return self.max_positions - self.position_start

    def check_length(self, longest: int) -> None:
        """Refuse a text that does not fit.

        Raises:
            LengthError: when it has more tokens than there are usable positions.
        """
        if longest > self.usable_positions:
            start = f" (the first {self.position_start} are reserved)" * bool(self.position_start)
            raise LengthError(
                f"a text of {longest} tokens does not fit: the model has "
                f"{self.max_positions} position rows{start}, usable length "
                f"{self.usable_positions}; cut it with max_length={self.usable_positions} "
                "or a policy"
            )


@dataclass(frozen=True)
class RotaryConfig:
    """Rotary positions (Su et al. 2021), with one base a layer kind.

    Attributes:
        global_theta: base of the angles in global layers.
        local_theta: base of the angles in local layers.
    """

    global_theta: float = 160_000.0
    local_theta: float = 10_000.0


@dataclass(frozen=True)
class AttentionConfig:
    """Attention.

    Attributes:
        num_heads: number of heads.
        head_size: width of each head.
        kind: the equation of the scores.
        bias: which projections have a bias (`no_key`: query, value and output).
        layer_kinds: global or local, a layer each; empty means all global.
        window: in local layers, i attends to j where |i - j| <= window.
        rotary: rotary positions, or None.
    """

    num_heads: int
    head_size: int
    kind: AttentionKind = "dot_product"
    bias: AttentionBias = "all"
    layer_kinds: tuple[LayerKind, ...] = ()
    window: int = 64
    rotary: RotaryConfig | None = None

    def __post_init__(self) -> None:
        _check_least("attention", 1, self, "num_heads", "head_size", "window")
        _check_choice("attention.kind", AttentionKind, self.kind)
        _check_choice("attention.bias", AttentionBias, self.bias)
        _check_choice("attention.layer_kinds", LayerKind, *self.layer_kinds)
        if self.rotary is not None and self.head_size % 2:
            raise ConfigError(
                f"attention.head_size is {self.head_size}; rotary positions need an even one"
            )


@dataclass(frozen=True)
class RelativeConfig:
    """Relative positions of disentangled attention (He et al. 2021).

    Attributes:
        max_distance: distances beyond it share a row.
        buckets: log buckets (v2, v3); 0 for plain distances (v1).
        terms: which cross terms are added to the content scores.
        shared_projections: content projections serve the relative vectors too.
        normalised: a layer norm over the relative table.
        key_bias: whether the projection of relative keys has a bias, where it is not shared.
    """

    max_distance: int = 512
    buckets: int = 0
    terms: tuple[RelativeTerm, ...] = ("c2p", "p2c")
    shared_projections: bool = False
    normalised: bool = False
    key_bias: bool = True

    def __post_init__(self) -> None:
        _check_least("relative", 1, self, "max_distance")
        _check_least("relative", 2 if self.buckets else 0, self, "buckets")
        _check_choice("relative.terms", RelativeTerm, *self.terms)


@dataclass(frozen=True)
class ConvolutionConfig:
    """A convolution beside the first layer (DeBERTa-v2-xlarge).

    Attributes:
        kernel: width in tokens.
        groups: channel groups.
        activation: applied after dropout.
    """

    kernel: int = 3
    groups: int = 1
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        _check_least("convolution", 1, self, "kernel", "groups")
        if self.kernel % 2 == 0:
            raise ConfigError(
                f"convolution.kernel is {self.kernel}; expected an odd number, so that a token "
                "stands in the middle"
            )
        _check_choice("convolution.activation", Activation, self.activation)


@dataclass(frozen=True)
class FeedForwardConfig:
    """The two-layer network of each block.

    Attributes:
        size: inner width.
        activation: between the two layers.
        gated: the activation gates a second input projection.
        bias: whether the projections have biases.
    """

    size: int
    activation: Activation = "gelu"
    gated: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        _check_least("feedforward", 1, self, "size")
        _check_choice("feedforward.activation", Activation, self.activation)


@dataclass(frozen=True)
class NormConfig:
    """Layer norms.

    Attributes:
        placement: after each residual sum (BERT) or before each sub-layer.
        eps: added to the variance.
        bias: whether norms have a bias.
        skip_first: the first block's attention has no norm before it (ModernBERT).
        final: one more norm after the last block.
    """

    placement: NormPlacement = "post"
    eps: float = 1e-12
    bias: bool = True
    skip_first: bool = False
    final: bool = False

    def __post_init__(self) -> None:
        _check_choice("norm.placement", NormPlacement, self.placement)
        _check_least("norm", 0, self, "eps")


@dataclass(frozen=True)
class DropoutConfig:
    """Dropout rates.

    Attributes:
        hidden: on embeddings and sub-layer outputs.
        attention: on attention weights.
        classifier: before a classification head.
        layer: share of whole layers left out in training.
        activation: inside the feed-forward network, after the activation.
        attention_output: on the output of attention, before the residual sum; None: as `hidden`.
        feedforward_output: the same for the feed-forward network.
    """

    hidden: float = 0.1
    attention: float = 0.1
    classifier: float = 0.1
    layer: float = 0.0
    activation: float = 0.0
    attention_output: float | None = None
    feedforward_output: float | None = None

    def __post_init__(self) -> None:
        wrong = {k: v for k, v in dataclasses.asdict(self).items() if not 0.0 <= (v or 0.0) < 1.0}
        if wrong:
            raise ConfigError(f"dropout: rates lie in [0, 1): {wrong}")


@dataclass(frozen=True)
class EncoderConfig:
    """Everything that decides an encoder's shape and equations.

    Attributes:
        hidden_size: width of the hidden states.
        num_layers: blocks that a text passes through.
        embeddings, attention, feedforward, norm, dropout: one axis each.
        relative: relative positions; only with disentangled attention.
        convolution: a convolution beside the first layer, or None.
        num_layer_groups: groups of layers that share weights (ALBERT); 0: nothing is shared.
        layers_per_group: distinct layers inside such a group.
        pooler: a dense layer with tanh over the first token.
        initializer_range: standard deviation of new weights.
    """

    hidden_size: int
    num_layers: int
    embeddings: EmbeddingsConfig
    attention: AttentionConfig
    feedforward: FeedForwardConfig
    norm: NormConfig = field(default_factory=NormConfig)
    dropout: DropoutConfig = field(default_factory=DropoutConfig)
    relative: RelativeConfig | None = None
    convolution: ConvolutionConfig | None = None
    num_layer_groups: int = 0
    layers_per_group: int = 1
    pooler: bool = False
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        _check_least("encoder", 1, self, "hidden_size", "num_layers", "layers_per_group")
        _check_least("encoder", 0, self, "num_layer_groups")
        kinds = self.attention.layer_kinds
        if kinds and len(kinds) != self.num_layers:
            raise ConfigError(
                f"attention.layer_kinds names {len(kinds)} layers; the encoder has "
                f"{self.num_layers}"
            )
        if (self.relative is not None) != (self.attention.kind == "disentangled"):
            raise ConfigError(
                f"relative positions and attention.kind={self.attention.kind!r} do not go "
                "together: they belong to 'disentangled', and it needs them"
            )
        if self.convolution is not None and self.hidden_size % self.convolution.groups:
            raise ConfigError(
                f"hidden_size ({self.hidden_size}) is not divisible by convolution.groups "
                f"({self.convolution.groups})"
            )
        if self.num_layer_groups and self.num_layers % self.num_layer_groups:
            raise ConfigError(
                f"num_layers ({self.num_layers}) is not divisible by num_layer_groups "
                f"({self.num_layer_groups})"
            )

    @property
    def projects_embeddings(self) -> bool:
        """Whether the embeddings are projected to the hidden size."""
        return self.embeddings.projection == "always" or self.embeddings.size != self.hidden_size

    @property
    def num_blocks(self) -> int:
        """Blocks with weights of their own."""
        if not self.num_layer_groups:
            return self.num_layers
        return self.num_layer_groups * self.layers_per_group

    @property
    def block_order(self) -> tuple[tuple[int, ...], ...]:
        """For each layer in depth, the indices of the blocks it runs, in order."""
        if not self.num_layer_groups:
            return tuple((index,) for index in range(self.num_layers))
        per_group = self.num_layers // self.num_layer_groups
        inner = self.layers_per_group
        return tuple(
            tuple(layer // per_group * inner + index for index in range(inner))
            for layer in range(self.num_layers)
        )

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Global or local for each layer, also where the attention axis leaves it empty."""
        everywhere: LayerKind = "global"
        return self.attention.layer_kinds or (everywhere,) * self.num_layers

    def with_vocab_size(self, vocab_size: int) -> EncoderConfig:
        """The same encoder over another vocabulary."""
        embeddings = dataclasses.replace(self.embeddings, vocab_size=vocab_size)
        return dataclasses.replace(self, embeddings=embeddings)


def build_config(
    *,
    vocab_size: int,
    hidden_size: int,
    num_heads: int,
    num_layers: int,
    feedforward_size: int | None = None,
    max_positions: int = 512,
    dropout: float = 0.1,
    pad_id: int | None = None,
) -> EncoderConfig:
    """A pre-norm encoder with learned positions and a final norm, from a few numbers.

    Nothing is padded, so every row of the token table is learned unless `pad_id` names one.

    Raises:
        ConfigError: when hidden_size is not divisible by num_heads.
    """
    if hidden_size % num_heads:
        raise ConfigError(
            f"hidden_size ({hidden_size}) is not divisible by num_heads ({num_heads})"
        )
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=num_layers,
        embeddings=EmbeddingsConfig(
            vocab_size=vocab_size,
            size=hidden_size,
            max_positions=max_positions,
            num_types=0,
            norm=False,
            pad_id=pad_id,
        ),
        attention=AttentionConfig(num_heads=num_heads, head_size=hidden_size // num_heads),
        feedforward=FeedForwardConfig(size=feedforward_size or 4 * hidden_size),
        norm=NormConfig(placement="pre", eps=1e-5, final=True),
        dropout=DropoutConfig(hidden=dropout, attention=dropout, classifier=dropout),
    )
