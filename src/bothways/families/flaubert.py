"""FlauBERT (Le et al. 2020): a French encoder in the names and with the blocks of XLM.

Its texts begin with a piece of their own and end with `</s>`. transformers looks token types up in
the table of words and adds what it finds; the models were trained without, so nothing is added
here, as there when no types are given.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bothways.errors import UnsupportedModelError
from bothways.families import heads
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import (
    Activation,
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.heads import ClassificationHead, MaskedLMHead, SummaryHead, TokenHead

_WIDENING = 4  # the feed-forward network's width in hidden sizes; no key says so
_NUM_LABELS = 2  # where config.json names no labels
_BEAM_SEARCH = "FlaubertForQuestionAnswering"


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a FlauBERT configuration sets.

    Raises:
        UnsupportedModelError: with everything that is not built here.
    """
    reasons = _refusals(keys)
    if reasons:
        raise UnsupportedModelError(
            f"{keys.place} asks for what is not supported:\n  " + "\n  ".join(reasons)
        )
    hidden_size = keys.whole(_present(keys, "emb_dim", "hidden_size"))
    num_heads = keys.whole(_present(keys, "n_heads", "num_attention_heads"))
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=keys.layers(_present(keys, "n_layers", "num_hidden_layers")),
        embeddings=EmbeddingsConfig(
            vocab_size=keys.whole(_present(keys, "vocab_size", "n_words")),
            size=hidden_size,
            positions="sinusoidal" if keys.flag("sinusoidal_embeddings", False) else "learned",
            max_positions=keys.whole("max_position_embeddings", 512),
            num_types=0,
            pad_id=keys.index(_present(keys, "pad_token_id", "pad_index"), 2),
        ),
        attention=AttentionConfig(num_heads, keys.head_size(hidden_size, num_heads)),
        feedforward=FeedForwardConfig(
            _WIDENING * hidden_size,
            activation="gelu" if keys.flag("gelu_activation", True) else "relu",
        ),
        norm=NormConfig(
            placement="pre" if keys.flag("pre_norm", False) else "post",
            eps=keys.number("layer_norm_eps", 1e-12),
        ),
        dropout=DropoutConfig(
            hidden=keys.number("dropout", 0.1),
            attention=keys.number("attention_dropout", 0.1),
            classifier=keys.number("summary_first_dropout", 0.1),
            layer=keys.number("layerdrop", 0.0),
        ),
        initializer_range=keys.number("init_std", 0.02),
    )


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a FlauBERT configuration."""
    return {
        "vocab_size": config.embeddings.vocab_size,
        "emb_dim": config.hidden_size,
        "n_layers": config.num_layers,
        "n_heads": config.attention.num_heads,
        "gelu_activation": config.feedforward.activation == "gelu",
        "max_position_embeddings": config.embeddings.max_positions,
        "sinusoidal_embeddings": config.embeddings.positions == "sinusoidal",
        "pad_token_id": config.embeddings.pad_id,
        "pre_norm": config.norm.placement == "pre",
        "layer_norm_eps": config.norm.eps,
        "dropout": config.dropout.hidden,
        "attention_dropout": config.dropout.attention,
        "summary_first_dropout": config.dropout.classifier,
        "layerdrop": config.dropout.layer,
        "init_std": config.initializer_range,
    }


def _present(keys: ConfigKeys, name: str, other: str) -> str:
    """The one of two names for the same that a file has."""
    return other if name not in keys.raw and other in keys.raw else name


def _refusals(keys: ConfigKeys) -> list[str]:
    reasons = []
    if keys.whole("n_langs", 1) > 1 and keys.flag("use_lang_emb", True):
        reasons.append(
            f"n_langs is {keys.raw['n_langs']} and use_lang_emb is true: a vector for the language "
            "of each token is not built here; for many languages take XLM-R"
        )
    if keys.flag("causal", False) or not keys.flag("is_encoder", True):
        reasons.append("causal or is_encoder: the model reads one way; an encoder reads both ways")
    if keys.flag("asm", False):
        reasons.append(
            "asm: an adaptive softmax over the vocabulary is not built here; supported: false"
        )
    if _BEAM_SEARCH in keys.words("architectures"):
        reasons.append(
            f"architectures: {_BEAM_SEARCH} searches its answers by beams; fine-tune "
            f"{_BEAM_SEARCH}Simple instead, or name FlaubertModel to load the encoder alone"
        )
    return reasons


def _summary(keys: ConfigKeys) -> Activation:
    """The activation of a summary of the first token.

    Raises:
        UnsupportedModelError: for a summary of other tokens, or in another width than the labels.
    """
    kind = keys.text("summary_type", "first")
    projected = all(
        keys.flag(name, True) for name in ("summary_use_proj", "summary_proj_to_labels")
    )
    if kind != "first" or not projected:
        raise UnsupportedModelError(
            f"{keys.place}: summary_type is {kind!r}, summary_use_proj and summary_proj_to_labels "
            f"are {keys.raw.get('summary_use_proj', True)} and "
            f"{keys.raw.get('summary_proj_to_labels', True)}; only a projection of the first token "
            "to the labels is built here: 'first', true and true"
        )
    # Null and the empty word are no activation, and so is an absent key.
    return (
        keys.activation("summary_activation") if keys.raw.get("summary_activation") else "identity"
    )


def _sequence_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """The classifier: the summary is the logits.

    Raises:
        UnsupportedModelError: where an activation would bend the logits.
    """
    activation = _summary(keys)
    if activation != "identity" or keys.number("summary_last_dropout", 0.0):
        raise UnsupportedModelError(
            f"{keys.place}: summary_activation is {keys.raw.get('summary_activation')!r} and "
            f"summary_last_dropout {keys.raw.get('summary_last_dropout', 0.0)}, which would change "
            "the logits of a classifier; expected null and 0"
        )
    return ClassificationHead(
        config.hidden_size, num_outputs, pooling="cls", dropout=config.dropout.classifier
    )


def _choice_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """A summary as wide as there are labels, and a score of it."""
    named = keys.raw.get("id2label")
    return SummaryHead(
        config.hidden_size,
        num_outputs,
        len(named) if named else keys.whole("num_labels", _NUM_LABELS),
        activation=_summary(keys),
        dropout=config.dropout.classifier,
        summary_dropout=keys.number("summary_last_dropout", 0.0),
    )


def _choice_keys(head: nn.Module) -> dict[str, Any]:
    settings = vars(head)["settings"]
    activation = settings["activation"]
    return {
        **_FIRST_TOKEN,
        "summary_activation": None if activation == "identity" else NAME_OF_ACTIVATION[activation],
        "summary_first_dropout": settings["dropout"],
        "summary_last_dropout": settings["summary_dropout"],
    }


def _token_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del keys
    return TokenHead(config.hidden_size, num_outputs, dropout=config.dropout.hidden)


def _masked_lm_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del keys, num_outputs
    size = config.hidden_size
    return MaskedLMHead(size, size, config.embeddings.vocab_size, activation=None)


_FIRST_TOKEN = {
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_proj_to_labels": True,
}

FLAUBERT = FamilySpec(
    model_type="flaubert",
    title="FlauBERT",
    prefix="transformer.",
    bare="FlaubertModel",
    read=read,
    write=write,
    names=NameTable(
        {
            "embeddings": "embeddings.words",
            "position_embeddings": "embeddings.positions",
            "layer_norm_emb": "embeddings.norm",
            "attentions.{i}.q_lin": "layers.{i}.attention.query",
            "attentions.{i}.k_lin": "layers.{i}.attention.key",
            "attentions.{i}.v_lin": "layers.{i}.attention.value",
            "attentions.{i}.out_lin": "layers.{i}.attention.output",
            "layer_norm1.{i}": "layers.{i}.attention_norm",
            "ffns.{i}.lin1": "layers.{i}.feedforward.input",
            "ffns.{i}.lin2": "layers.{i}.feedforward.output",
            "layer_norm2.{i}": "layers.{i}.feedforward_norm",
        },
        ignored={r"position_ids": "a list of numbers that is counted, not stored"},
    ),
    heads={
        "FlaubertForSequenceClassification": HeadSpec(
            "sequence",
            NameTable({"sequence_summary.summary": "output"}),
            _sequence_head,
            keys=lambda _: {**_FIRST_TOKEN, "summary_activation": None},
        ),
        "FlaubertForTokenClassification": HeadSpec(
            "token", NameTable({"classifier": "output"}), _token_head
        ),
        "FlaubertForQuestionAnsweringSimple": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        "FlaubertForMultipleChoice": HeadSpec(
            "choice",
            NameTable({"sequence_summary.summary": "summary.output", "logits_proj": "output"}),
            _choice_head,
            1,
            _choice_keys,
        ),
        "FlaubertWithLMHeadModel": HeadSpec(
            "masked_lm",
            NameTable(
                {"pred_layer.proj": "output"},
                tied={"output.weight": "embeddings.words.weight"},
            ),
            _masked_lm_head,
            0,
        ),
    },
    tokenizer=TokenizerRecipe(
        kind="moses_bpe",
        cls="</s>",
        sep="</s>",
        pad="<pad>",
        mask="<special1>",
        unknown="<unk>",
        single="<s> A </s>",
        pair="<s> A </s> B </s>",
    ),
    description=(
        "A French encoder in three sizes, trained on 71 GB of cleaned text; the largest has its "
        "norms before the sub-layers. CamemBERT is read by more tools and needs no Moses; take "
        "FlauBERT where it scores better on your data."
    ),
    changes=(
        "Moses' words, then merged pairs of characters; no segment types and no pooler, so the "
        "classifier is one layer over the first token; norms before the sub-layers in the large "
        "model; whole layers may be left out in training"
    ),
)
