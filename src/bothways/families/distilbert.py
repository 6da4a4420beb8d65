"""DistilBERT (Sanh et al. 2019): BERT with every second layer, learned from BERT's outputs."""

from __future__ import annotations

from typing import Any

from torch import nn

from bothways.families import bert, heads
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.heads import TokenHead

_EPS = 1e-12  # of every norm; no key of the configuration says so


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a DistilBERT configuration sets.

    The classifier's dropout is `seq_classif_dropout`; there is none on the output of attention.
    """
    hidden_size = keys.whole("dim")
    num_heads = keys.whole("n_heads")
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=keys.layers("n_layers"),
        embeddings=EmbeddingsConfig(
            vocab_size=keys.whole("vocab_size"),
            size=hidden_size,
            positions="sinusoidal" if keys.flag("sinusoidal_pos_embds", False) else "learned",
            max_positions=keys.whole("max_position_embeddings", 512),
            num_types=0,
            pad_id=keys.index("pad_token_id", 0),
        ),
        attention=AttentionConfig(num_heads, keys.head_size(hidden_size, num_heads)),
        feedforward=FeedForwardConfig(
            keys.whole("hidden_dim"), activation=keys.activation("activation")
        ),
        norm=NormConfig(eps=_EPS),
        dropout=DropoutConfig(
            hidden=keys.number("dropout", 0.1),
            attention=keys.number("attention_dropout", 0.1),
            classifier=keys.number("seq_classif_dropout", 0.2),
            attention_output=0.0,
        ),
        initializer_range=keys.number("initializer_range", 0.02),
    )


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a DistilBERT configuration."""
    return {
        "vocab_size": config.embeddings.vocab_size,
        "dim": config.hidden_size,
        "n_layers": config.num_layers,
        "n_heads": config.attention.num_heads,
        "hidden_dim": config.feedforward.size,
        "activation": NAME_OF_ACTIVATION[config.feedforward.activation],
        "max_position_embeddings": config.embeddings.max_positions,
        "sinusoidal_pos_embds": config.embeddings.positions == "sinusoidal",
        "pad_token_id": config.embeddings.pad_id,
        "dropout": config.dropout.hidden,
        "attention_dropout": config.dropout.attention,
        "seq_classif_dropout": config.dropout.classifier,
        "initializer_range": config.initializer_range,
    }


def _token_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del keys
    return TokenHead(config.hidden_size, num_outputs, dropout=config.dropout.hidden)


def _answer_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    return TokenHead(config.hidden_size, num_outputs, dropout=keys.number("qa_dropout", 0.1))


def _answer_keys(head: nn.Module) -> dict[str, Any]:
    return {"qa_dropout": vars(head)["settings"]["dropout"]}


_LAYER = "transformer.layer.{i}"
_TYPES = "embeddings.token_type_embeddings"
_CLASSIFIER = NameTable({"pre_classifier": "dense", "classifier": "output"})

DISTILBERT = FamilySpec(
    model_type="distilbert",
    title="DistilBERT",
    prefix="distilbert.",
    bare="DistilBertModel",
    read=read,
    write=write,
    names=NameTable(
        {
            **{name: ours for name, ours in bert.EMBEDDING_NAMES.items() if name != _TYPES},
            f"{_LAYER}.attention.q_lin": "layers.{i}.attention.query",
            f"{_LAYER}.attention.k_lin": "layers.{i}.attention.key",
            f"{_LAYER}.attention.v_lin": "layers.{i}.attention.value",
            f"{_LAYER}.attention.out_lin": "layers.{i}.attention.output",
            f"{_LAYER}.sa_layer_norm": "layers.{i}.attention_norm",
            f"{_LAYER}.ffn.lin1": "layers.{i}.feedforward.input",
            f"{_LAYER}.ffn.lin2": "layers.{i}.feedforward.output",
            f"{_LAYER}.output_layer_norm": "layers.{i}.feedforward_norm",
        },
        ignored=bert.IGNORED_BUFFERS,
    ),
    heads={
        "DistilBertForSequenceClassification": HeadSpec(
            "sequence", _CLASSIFIER, heads.sequence("cls", dense="relu", dense_dropout=0.0)
        ),
        "DistilBertForTokenClassification": HeadSpec(
            "token", NameTable({"classifier": "output"}), _token_head
        ),
        "DistilBertForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), _answer_head, 2, _answer_keys
        ),
        "DistilBertForMultipleChoice": HeadSpec(
            "choice", _CLASSIFIER, heads.sequence("cls", dense="relu", dense_dropout=0.0), 1
        ),
        "DistilBertForMaskedLM": HeadSpec(
            "masked_lm",
            NameTable(
                {
                    "vocab_transform": "dense",
                    "vocab_layer_norm": "norm",
                    "vocab_projector": "output",
                },
                tied={"output.weight": "embeddings.words.weight"},
            ),
            heads.masked_lm(),
            0,
        ),
    },
    tokenizer=TokenizerRecipe(
        kind="wordpiece",
        cls="[CLS]",
        sep="[SEP]",
        pad="[PAD]",
        mask="[MASK]",
        unknown="[UNK]",
        single="[CLS] A [SEP]",
        pair="[CLS] A [SEP] B [SEP]",
    ),
    description=(
        "Half of BERT's layers, trained to give BERT's outputs: 40 % smaller and 60 % faster, with "
        "97 % of its score on GLUE by its authors' count. For classification where time matters."
    ),
    changes=(
        "half the layers; no segment types and no pooler, so the classifier has a dense layer with "
        "relu over the first token; no dropout on the output of attention"
    ),
)
