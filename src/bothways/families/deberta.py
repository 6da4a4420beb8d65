"""DeBERTa, version 1 (He et al. 2021): attention between content and relative position.

What the second version shares (the reading of most keys, the heads) is here too; the rest of it
is in `deberta_v2.py`.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bothways.errors import UnsupportedModelError
from bothways.families import bert, heads
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import Fused, NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import (
    AttentionBias,
    AttentionConfig,
    ConvolutionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    RelativeConfig,
    RelativeTerm,
)
from bothways.model.heads import ClassificationHead, TokenHead

_TERMS: tuple[RelativeTerm, ...] = ("c2p", "p2c")


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a configuration of version 1 sets."""
    return read_common(
        keys, RelativeConfig(max_distance(keys), terms=terms(keys), key_bias=False), bias="no_key"
    )


def read_common(
    keys: ConfigKeys,
    relative: RelativeConfig,
    *,
    bias: AttentionBias,
    convolution: ConvolutionConfig | None = None,
) -> EncoderConfig:
    """The axes that both versions name alike, around what they do not."""
    hidden_size, num_heads = keys.whole("hidden_size"), keys.whole("num_attention_heads")
    head_size = keys.head_size(hidden_size, num_heads)
    _refuse(keys, hidden_size, head_size)
    rate = keys.number("hidden_dropout_prob", 0.1)
    return EncoderConfig(
        hidden_size,
        keys.layers("num_hidden_layers"),
        EmbeddingsConfig(
            keys.whole("vocab_size"),
            hidden_size,
            positions="learned" if keys.flag("position_biased_input", True) else "none",
            max_positions=keys.whole("max_position_embeddings", 512),
            num_types=keys.whole("type_vocab_size", 0, minimum=0),
            pad_id=keys.index("pad_token_id", 0),
        ),
        AttentionConfig(num_heads, head_size, kind="disentangled", bias=bias),
        FeedForwardConfig(keys.whole("intermediate_size"), keys.activation("hidden_act")),
        NormConfig(eps=keys.number("layer_norm_eps", 1e-7)),
        DropoutConfig(
            rate,
            keys.number("attention_probs_dropout_prob", 0.1),
            keys.number("cls_dropout", rate),
        ),
        relative=relative,
        convolution=convolution,
        initializer_range=keys.number("initializer_range", 0.02),
    )


def max_distance(keys: ConfigKeys) -> int:
    """Distances beyond this one share a vector."""
    given = keys.whole("max_relative_positions", -1, minimum=-1)
    return given if given > 0 else keys.whole("max_position_embeddings", 512)


def terms(keys: ConfigKeys) -> tuple[RelativeTerm, ...]:
    """The cross terms, in one order however the file names them."""
    return tuple(term for term in _TERMS if term in _named_terms(keys))


def _named_terms(keys: ConfigKeys) -> list[str]:
    given = keys.raw.get("pos_att_type") or []
    return [word.strip() for word in given.lower().split("|")] if isinstance(given, str) else given


def _refuse(keys: ConfigKeys, hidden_size: int, head_size: int) -> None:
    """Refuse what the published code has branches for and no published checkpoint uses."""
    named, norm = _named_terms(keys), keys.text("norm_rel_ebd", "none").lower()
    reasons = []
    if not keys.flag("relative_attention", False):
        reasons.append("relative_attention is false: what is left is the attention of BERT")
    if not named or not set(named) <= set(_TERMS):
        reasons.append(f"pos_att_type is {named}: built here are 'c2p' and 'p2c', at least one")
    if keys.flag("talking_head", False):
        reasons.append("talking_head is true: attention heads are not mixed here")
    if norm not in ("layer_norm", "none"):
        reasons.append(f"norm_rel_ebd is {norm!r}: built here are 'layer_norm' and 'none'")
    for name, expected in (
        ("embedding_size", hidden_size),
        ("pooler_hidden_size", hidden_size),
        ("attention_head_size", head_size),
    ):
        size = keys.whole(name, expected)
        if size != expected:
            reasons.append(f"{name} is {size}: with this hidden size only {expected} is built here")
    if reasons:
        raise UnsupportedModelError(
            f"{keys.place} asks for what no published checkpoint has:\n  " + "\n  ".join(reasons)
        )


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a configuration of version 1."""
    relative = config.relative or RelativeConfig()
    common = bert.write(config)
    for foreign in ("classifier_dropout", "position_embedding_type"):
        del common[foreign]
    return {
        **common,
        "relative_attention": config.relative is not None,
        "max_relative_positions": relative.max_distance,
        "pos_att_type": list(relative.terms),
        "position_biased_input": config.embeddings.positions == "learned",
        "cls_dropout": config.dropout.classifier,
    }


def pooled_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """Labels of a text: the first token through a dense layer of the head's own."""
    return ClassificationHead(
        config.hidden_size,
        num_outputs,
        pooling="cls",
        dropout=config.dropout.classifier,
        dense=keys.activation("pooler_hidden_act"),
        dense_dropout=keys.number("pooler_dropout", 0.0),
    )


def pooled_keys(head: nn.Module) -> dict[str, Any]:
    """The keys that such a head was made from."""
    settings = vars(head)["settings"]
    first = settings["dense_dropout"]
    return {
        "pooler_hidden_act": NAME_OF_ACTIVATION[settings["dense"] or "identity"],
        "pooler_dropout": settings["dropout"] if first is None else first,
    }


def _token_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del keys
    return TokenHead(config.hidden_size, num_outputs, dropout=config.dropout.hidden)


_TIED = {"output.weight": "embeddings.words.weight"}
_MASKED_LM = NameTable(
    {
        "cls.predictions.transform.dense": "dense",
        "cls.predictions.transform.LayerNorm": "norm",
        "cls.predictions.decoder.weight": "output.weight",
        "cls.predictions.bias": "output.bias",
    },
    tied=_TIED,
    # What the first releases hold, beside a configuration that says nothing of it.
    aliases={
        r"^lm_predictions\.lm_head\.(dense|LayerNorm)": r"cls.predictions.transform.\1",
        r"^lm_predictions\.lm_head\.bias": "cls.predictions.bias",
    },
    copies={"cls.predictions.decoder.bias": "cls.predictions.bias"},
)
# The layout of the authors' code, which `legacy: false` asks for; its output is always tied.
_AUTHORS_MASKED_LM = NameTable(
    {
        "lm_predictions.lm_head.dense": "dense",
        "lm_predictions.lm_head.LayerNorm": "norm",
        "lm_predictions.lm_head.decoder.weight": "output.weight",
        "lm_predictions.lm_head.bias": "output.bias",
    },
    tied=_TIED,
)


def _masked_lm_names(keys: ConfigKeys) -> NameTable | None:
    return None if keys.flag("legacy", True) else _AUTHORS_MASKED_LM


POOLED = NameTable({"pooler.dense": "dense", "classifier": "output"})


def head_specs(name: str) -> dict[str, HeadSpec]:
    """The heads that both versions publish, under classes that start with a version's name."""
    return {
        f"{name}ForSequenceClassification": HeadSpec(
            "sequence", POOLED, pooled_head, keys=pooled_keys
        ),
        f"{name}ForTokenClassification": HeadSpec(
            "token", NameTable({"classifier": "output"}), _token_head
        ),
        f"{name}ForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        f"{name}ForMaskedLM": HeadSpec(
            "masked_lm", _MASKED_LM, heads.masked_lm(), 0, layouts=_masked_lm_names
        ),
    }


# Without the projections of queries, keys and values, which the versions call differently.
_CONTENT = {f"layers.{{i}}.attention.{part}" for part in ("query", "key", "value")}
COMMON_NAMES = {
    **bert.EMBEDDING_NAMES,
    "encoder.rel_embeddings": "relative.vectors",
    **{theirs: ours for theirs, ours in bert.LAYER_NAMES.items() if ours not in _CONTENT},
}
OPTIONAL_NAMES = frozenset({"embeddings.position_embeddings", "embeddings.token_type_embeddings"})
IGNORED_NAMES = {
    **bert.IGNORED_BUFFERS,
    r"embeddings\.position_embeddings\.weight": "positions are not added to the input "
    "(position_biased_input is false); only pretraining read them",
    r"lm_predictions\..*": "a masked-LM head, which architectures in config.json does not name",
    r"mask_predictions\..*": "a replaced-token head, which architectures in config.json does not "
    "name (ReplacedTokenDetectionModel)",
}
_SELF = "encoder.layer.{i}.attention.self"
_OURS = "layers.{i}.attention"

DEBERTA = FamilySpec(
    model_type="deberta",
    title="DeBERTa",
    prefix="deberta.",
    bare="DebertaModel",
    read=read,
    write=write,
    names=NameTable(
        {
            **COMMON_NAMES,
            f"{_SELF}.in_proj.weight": Fused(
                tuple(f"{_OURS}.{part}.weight" for part in ("query", "key", "value")), by="heads"
            ),
            f"{_SELF}.q_bias": f"{_OURS}.query.bias",
            f"{_SELF}.v_bias": f"{_OURS}.value.bias",
            f"{_SELF}.pos_proj": f"{_OURS}.relative.key",
            f"{_SELF}.pos_q_proj": f"{_OURS}.relative.query",
        },
        optional=OPTIONAL_NAMES | {f"{_SELF}.pos_proj", f"{_SELF}.pos_q_proj"},
        ignored=IGNORED_NAMES,
    ),
    heads=head_specs("Deberta"),
    tokenizer=TokenizerRecipe(
        kind="byte_bpe",
        cls="[CLS]",
        sep="[SEP]",
        pad="[PAD]",
        mask="[MASK]",
        unknown="[UNK]",
        single="[CLS] A [SEP]",
        pair="[CLS] A [SEP] B [SEP]",
        typed=True,
    ),
    description=(
        "A token's content and its distance to the other each have vectors, and attention adds "
        "the products between them. For English; its successors, with a larger vocabulary and "
        "better pretraining, are the ones to take for something new."
    ),
    changes=(
        "attention scores add content-to-position and position-to-content terms over relative "
        "distances; no absolute positions in the input; keys have no bias; byte-level BPE pieces; "
        "no pooler"
    ),
)
