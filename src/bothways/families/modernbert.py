"""ModernBERT (Warner et al. 2024): rotary positions, local and global layers, 8,192 tokens.

Its configurations come in two dialects, that of the hub (a global layer every so many, one angle
base a kind) and that of transformers 5 (each layer and each kind spelled out). Both are read; what
is written says the same in both, as far as the older one can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from bothways.errors import ConfigError, UnsupportedModelError
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import Fused, NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import (
    Activation,
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    LayerKind,
    NormConfig,
    RotaryConfig,
)
from bothways.model.heads import ClassificationHead, HeadBias, MaskedLMHead, TokenHead

_KIND_OF: dict[str, LayerKind] = {"full_attention": "global", "sliding_attention": "local"}
_WORD_OF = {kind: word for word, kind in _KIND_OF.items()}
_EVERY = "global_attn_every_n_layers"


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a ModernBERT configuration sets."""
    hidden_size, num_heads = keys.whole("hidden_size"), keys.whole("num_attention_heads")
    num_layers = keys.layers("num_hidden_layers")
    attention_dropout = keys.number("attention_dropout", 0.0)
    return EncoderConfig(
        hidden_size,
        num_layers,
        EmbeddingsConfig(
            keys.whole("vocab_size"),
            hidden_size,
            positions="none",
            max_positions=keys.whole("max_position_embeddings", 8192),
            num_types=0,
            pad_id=keys.index("pad_token_id", 50_283),
        ),
        AttentionConfig(
            num_heads,
            keys.head_size(hidden_size, num_heads),
            bias="all" if keys.flag("attention_bias", False) else "none",
            layer_kinds=_layer_kinds(keys, num_layers),
            window=keys.whole("local_attention", 128, minimum=2) // 2,
            rotary=_rotary(keys),
        ),
        FeedForwardConfig(
            keys.whole("intermediate_size"),
            keys.activation("hidden_activation"),
            gated=True,
            bias=keys.flag("mlp_bias", False),
        ),
        NormConfig(
            "pre",
            eps=keys.number("norm_eps", 1e-5),
            bias=keys.flag("norm_bias", False),
            skip_first=True,
            final=True,
        ),
        DropoutConfig(
            keys.number("embedding_dropout", 0.0),
            attention_dropout,
            keys.number("classifier_dropout", 0.0),
            activation=keys.number("mlp_dropout", 0.0),
            attention_output=attention_dropout,
            feedforward_output=0.0,
        ),
        initializer_range=keys.number("initializer_range", 0.02),
    )


def _layer_kinds(keys: ConfigKeys, num_layers: int) -> tuple[LayerKind, ...]:
    """Spelled out where the file does so; else every so many layers a global one."""
    words = keys.raw.get("layer_types")
    if words is None:
        return _every(keys.whole(_EVERY, 3), num_layers)
    if not isinstance(words, list) or not set(words) <= set(_KIND_OF):
        raise ConfigError(f"layer_types is {words!r}; expected a list of {' and '.join(_KIND_OF)}")
    return tuple(_KIND_OF[word] for word in words)


def _every(step: int, num_layers: int) -> tuple[LayerKind, ...]:
    kinds: tuple[LayerKind, LayerKind] = ("local", "global")
    return tuple(kinds[layer % step == 0] for layer in range(num_layers))


def _rotary(keys: ConfigKeys) -> RotaryConfig:
    """The angle base of each kind of layer.

    Raises:
        UnsupportedModelError: for angles that are scaled or made in another way.
    """
    nested = keys.raw.get("rope_parameters") or {}
    if keys.raw.get("rope_scaling") or not isinstance(nested, Mapping) or set(nested) - {*_KIND_OF}:
        raise UnsupportedModelError(
            f"{keys.place}: rope_parameters is {nested!r} and rope_scaling "
            f"{keys.raw.get('rope_scaling')!r}; built here is an unscaled base for each of "
            f"{' and '.join(_KIND_OF)}"
        )
    defaults = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}
    thetas = {}
    for word, kind in _KIND_OF.items():
        given = ConfigKeys(nested.get(word) or {}, f"{keys.place}: rope_parameters.{word}")
        made = given.text("rope_type", "default")
        if made != "default":
            raise UnsupportedModelError(
                f"{given.place}: rope_type is {made!r}; only 'default' is built here"
            )
        base = keys.number(f"{kind}_rope_theta", defaults[word])
        thetas[f"{kind}_theta"] = given.number("rope_theta", base)
    return RotaryConfig(**thetas)


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a ModernBERT configuration, in both dialects."""
    attention, dropout = config.attention, config.dropout
    rotary = attention.rotary or RotaryConfig()
    kinds = config.layer_kinds
    steps = [n for n in range(1, config.num_layers + 1) if _every(n, config.num_layers) == kinds]
    return {
        "vocab_size": config.embeddings.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": attention.num_heads,
        "intermediate_size": config.feedforward.size,
        "hidden_activation": NAME_OF_ACTIVATION[config.feedforward.activation],
        "max_position_embeddings": config.embeddings.max_positions,
        "pad_token_id": config.embeddings.pad_id,
        "layer_types": [_WORD_OF[kind] for kind in kinds],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": rotary.global_theta},
            "sliding_attention": {"rope_type": "default", "rope_theta": rotary.local_theta},
        },
        _EVERY: steps[0] if steps else None,
        "global_rope_theta": rotary.global_theta,
        "local_rope_theta": rotary.local_theta,
        "local_attention": 2 * attention.window,
        "attention_bias": attention.bias == "all",
        "mlp_bias": config.feedforward.bias,
        "norm_bias": config.norm.bias,
        "norm_eps": config.norm.eps,
        "embedding_dropout": dropout.hidden,
        "attention_dropout": dropout.attention,
        "mlp_dropout": dropout.activation,
        "classifier_dropout": dropout.classifier,
        "initializer_range": config.initializer_range,
    }


def _bias(config: EncoderConfig, keys: ConfigKeys) -> HeadBias:
    """Which of a head's dense layer and norm have one: two keys."""
    dense, norm = keys.flag("classifier_bias", False), config.norm.bias
    names: dict[tuple[bool, bool], HeadBias] = {
        (True, True): "all",
        (True, False): "dense",
        (False, True): "norm",
        (False, False): "none",
    }
    return names[dense, norm]


def _masked_lm_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del num_outputs
    return MaskedLMHead(
        config.hidden_size,
        config.embeddings.size,
        config.embeddings.vocab_size,
        activation=keys.activation("classifier_activation"),
        eps=config.norm.eps,
        bias=_bias(config, keys),
    )


def _text_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """Labels of a text, from its first token or the mean of all.

    Raises:
        UnsupportedModelError: for another kind of pooling.
    """
    pooling = keys.text("classifier_pooling", "cls")
    poolings: dict[str, Literal["cls", "mean"]] = {"cls": "cls", "mean": "mean"}
    if pooling not in poolings:
        raise UnsupportedModelError(
            f"{keys.place}: classifier_pooling is {pooling!r}; built here are 'cls' and 'mean'"
        )
    return ClassificationHead(
        config.hidden_size,
        num_outputs,
        pooling=poolings[pooling],
        dropout=config.dropout.classifier,
        dense=keys.activation("classifier_activation"),
        dense_dropout=0.0,
        norm=config.norm.eps,
        bias=_bias(config, keys),
    )


def _token_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    return TokenHead(
        config.hidden_size,
        num_outputs,
        dropout=config.dropout.classifier,
        dense=keys.activation("classifier_activation"),
        norm=config.norm.eps,
        bias=_bias(config, keys),
    )


def _head_keys(head: nn.Module) -> dict[str, Any]:
    """The keys that a head was made from; the norm's are those of the encoder."""
    settings = vars(head)["settings"]
    activation: Activation = settings.get("activation") or settings.get("dense") or "identity"
    keys: dict[str, Any] = {
        "classifier_activation": NAME_OF_ACTIVATION[activation],
        "classifier_bias": settings["bias"] in ("all", "dense"),
    }
    return keys | {"classifier_pooling": settings["pooling"]} if "pooling" in settings else keys


def _with_decoder_bias(keys: ConfigKeys) -> None:
    """Refuse a masked-LM head whose output has no bias; None: the names are the usual ones."""
    if not keys.flag("decoder_bias", True):
        raise UnsupportedModelError(
            f"{keys.place}: decoder_bias is false; only an output layer with bias is built here"
        )


_HEAD = {"head.dense": "dense", "head.norm": "norm"}
_CLASSIFIER = NameTable({**_HEAD, "classifier": "output"})

MODERNBERT = FamilySpec(
    model_type="modernbert",
    title="ModernBERT",
    prefix="model.",
    bare="ModernBertModel",
    read=read,
    write=write,
    names=NameTable(
        {
            "embeddings.tok_embeddings": "embeddings.words",
            "embeddings.norm": "embeddings.norm",
            "layers.{i}.attn_norm": "layers.{i}.attention_norm",
            "layers.{i}.attn.Wqkv": Fused(
                tuple(f"layers.{{i}}.attention.{part}" for part in ("query", "key", "value"))
            ),
            "layers.{i}.attn.Wo": "layers.{i}.attention.output",
            "layers.{i}.mlp_norm": "layers.{i}.feedforward_norm",
            "layers.{i}.mlp.Wi": Fused(
                ("layers.{i}.feedforward.input", "layers.{i}.feedforward.gate")
            ),
            "layers.{i}.mlp.Wo": "layers.{i}.feedforward.output",
            "final_norm": "norm",
        },
        optional=frozenset({"layers.{i}.attn_norm"}),  # with one layer there is none
        ignored={r"rotary_emb\..*inv_freq": "angles that are computed, not stored"},
    ),
    heads={
        "ModernBertForSequenceClassification": HeadSpec(
            "sequence", _CLASSIFIER, _text_head, keys=_head_keys
        ),
        "ModernBertForTokenClassification": HeadSpec(
            "token", _CLASSIFIER, _token_head, keys=_head_keys
        ),
        "ModernBertForQuestionAnswering": HeadSpec(
            "answer", _CLASSIFIER, _token_head, 2, _head_keys
        ),
        "ModernBertForMultipleChoice": HeadSpec("choice", _CLASSIFIER, _text_head, 1, _head_keys),
        "ModernBertForMaskedLM": HeadSpec(
            "masked_lm",
            NameTable(
                {**_HEAD, "decoder.weight": "output.weight", "decoder.bias": "output.bias"},
                tied={"output.weight": "embeddings.words.weight"},
            ),
            _masked_lm_head,
            0,
            _head_keys,
            layouts=_with_decoder_bias,
        ),
    },
    tokenizer=TokenizerRecipe(
        kind="byte_bpe",
        cls="[CLS]",
        sep="[SEP]",
        pad="[PAD]",
        mask="[MASK]",
        unknown="[UNK]",
        single="[CLS] A [SEP]",
        pair="[CLS] A [SEP] B [SEP]",
    ),
    unread=frozenset({"position_embedding_type"}),
    description=(
        "BERT rebuilt with what was learned in six years: twice as fast on long texts and 8,192 "
        "tokens of them, trained on 2 trillion tokens of English and code (mmBERT and others: of "
        "many languages). For speed, for length, and for retrieval."
    ),
    changes=(
        "rotary positions and no position table; two of three layers see 64 tokens each way, with "
        "an angle base of their own; norms before each sub-layer and after the last; gated gelu; "
        "no biases, types or pooler; 8,192 tokens"
    ),
)
