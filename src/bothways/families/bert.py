"""BERT (Devlin et al. 2019): the family that the others are described against."""

from __future__ import annotations

from typing import Any

from bothways.families import heads
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


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a BERT configuration sets."""
    hidden_size = keys.whole("hidden_size")
    num_heads = keys.whole("num_attention_heads")
    hidden_dropout = keys.number("hidden_dropout_prob", 0.1)
    return EncoderConfig(
        hidden_size=hidden_size,
        num_layers=keys.layers("num_hidden_layers"),
        embeddings=EmbeddingsConfig(
            vocab_size=keys.whole("vocab_size"),
            size=hidden_size,
            max_positions=keys.whole("max_position_embeddings", 512),
            num_types=keys.whole("type_vocab_size", 2),
            pad_id=keys.index("pad_token_id", 0),
        ),
        attention=AttentionConfig(num_heads, keys.head_size(hidden_size, num_heads)),
        feedforward=FeedForwardConfig(
            keys.whole("intermediate_size"), activation=keys.activation("hidden_act")
        ),
        norm=NormConfig(eps=keys.number("layer_norm_eps", 1e-12)),
        dropout=DropoutConfig(
            hidden=hidden_dropout,
            attention=keys.number("attention_probs_dropout_prob", 0.1),
            classifier=keys.number("classifier_dropout", hidden_dropout),
        ),
        pooler=True,
        initializer_range=keys.number("initializer_range", 0.02),
    )


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a BERT configuration."""
    return {
        "vocab_size": config.embeddings.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.attention.num_heads,
        "intermediate_size": config.feedforward.size,
        "hidden_act": NAME_OF_ACTIVATION[config.feedforward.activation],
        "max_position_embeddings": config.embeddings.max_positions,
        "type_vocab_size": config.embeddings.num_types,
        "pad_token_id": config.embeddings.pad_id,
        "position_embedding_type": "absolute",
        "layer_norm_eps": config.norm.eps,
        "hidden_dropout_prob": config.dropout.hidden,
        "attention_probs_dropout_prob": config.dropout.attention,
        "classifier_dropout": config.dropout.classifier,
        "initializer_range": config.initializer_range,
    }


# Files converted from the first release call a norm's weight and bias gamma and beta.
_OLD_NAMES = {r"\.gamma$": ".weight", r"\.beta$": ".bias"}

# Names that other families took over.
EMBEDDING_NAMES = {
    "embeddings.word_embeddings": "embeddings.words",
    "embeddings.position_embeddings": "embeddings.positions",
    "embeddings.token_type_embeddings": "embeddings.types",
    "embeddings.LayerNorm": "embeddings.norm",
}
_LAYER = "encoder.layer.{i}"
LAYER_NAMES = {
    f"{_LAYER}.attention.self.query": "layers.{i}.attention.query",
    f"{_LAYER}.attention.self.key": "layers.{i}.attention.key",
    f"{_LAYER}.attention.self.value": "layers.{i}.attention.value",
    f"{_LAYER}.attention.output.dense": "layers.{i}.attention.output",
    f"{_LAYER}.attention.output.LayerNorm": "layers.{i}.attention_norm",
    f"{_LAYER}.intermediate.dense": "layers.{i}.feedforward.input",
    f"{_LAYER}.output.dense": "layers.{i}.feedforward.output",
    f"{_LAYER}.output.LayerNorm": "layers.{i}.feedforward_norm",
}
POOLER_NAMES = {"pooler.dense": "pooler.dense"}
IGNORED_BUFFERS = {
    r"embeddings\.position_ids": "a list of numbers that is counted, not stored",
    r"embeddings\.token_type_ids": "a list of zeros that is made, not stored",
}

_ENCODER = NameTable(
    {**EMBEDDING_NAMES, **LAYER_NAMES, **POOLER_NAMES},
    optional=frozenset(POOLER_NAMES),
    aliases=_OLD_NAMES,
    ignored=IGNORED_BUFFERS,
)

_MASKED_LM = {
    "cls.predictions.transform.dense": "dense",
    "cls.predictions.transform.LayerNorm": "norm",
    "cls.predictions.decoder.weight": "output.weight",
    "cls.predictions.bias": "output.bias",
}
# The bias of the output layer stands under a second name where nothing was left out on saving.
_COPIES = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
_TIED = {"output.weight": "embeddings.words.weight"}
_CLASSIFIER = NameTable({"classifier": "output"})

BERT = FamilySpec(
    model_type="bert",
    title="BERT",
    prefix="bert.",
    bare="BertModel",
    read=read,
    write=write,
    names=_ENCODER,
    heads={
        "BertForSequenceClassification": HeadSpec("sequence", _CLASSIFIER, heads.sequence()),
        "BertForTokenClassification": HeadSpec("token", _CLASSIFIER, heads.token()),
        "BertForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        "BertForMultipleChoice": HeadSpec("choice", _CLASSIFIER, heads.sequence(), 1),
        "BertForMaskedLM": HeadSpec(
            "masked_lm",
            NameTable(
                _MASKED_LM,
                tied=_TIED,
                aliases=_OLD_NAMES,
                copies=_COPIES,
                ignored={
                    r"cls\.seq_relationship\..*": "the next-sentence head, which the class that "
                    "config.json names does not have"
                },
            ),
            heads.masked_lm(),
            0,
        ),
        "BertForPreTraining": HeadSpec(
            "masked_lm",
            NameTable(
                {**_MASKED_LM, "cls.seq_relationship": "relation.output"},
                tied=_TIED,
                aliases=_OLD_NAMES,
                copies=_COPIES,
            ),
            heads.masked_lm(),
            2,
        ),
        "BertForNextSentencePrediction": HeadSpec(
            "relation",
            NameTable({"cls.seq_relationship": "output"}),
            heads.sequence(dropout=0.0),
            2,
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
        typed=True,
    ),
    description=(
        "The first of the line, pretrained by masked language modelling and next-sentence "
        "prediction; learned positions, normalisation after each residual sum. There is one for "
        "every language and domain, so it is the safe choice where no newer one fits."
    ),
    changes="nothing: the others are described against it",
)
