"""ALBERT (Lan et al. 2020): layers that share weights, and a narrow token table projected up."""

from __future__ import annotations

import dataclasses
from typing import Any

from bothways.families import bert, heads
from bothways.families.keys import ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import DropoutConfig, EncoderConfig


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that an ALBERT configuration sets.

    The second release was trained without dropout and its files say so: absent rates are 0 here.
    The projection to the hidden size is there whatever the two sizes are.
    """
    config = bert.read(keys)
    size = keys.whole("embedding_size")
    embeddings = dataclasses.replace(
        config.embeddings,
        size=size,
        projection="always" if size == config.hidden_size else "by_size",
    )
    return dataclasses.replace(
        config,
        embeddings=embeddings,
        feedforward=dataclasses.replace(
            config.feedforward, activation=keys.activation("hidden_act", "gelu_new")
        ),
        dropout=DropoutConfig(
            hidden=keys.number("hidden_dropout_prob", 0.0),
            attention=keys.number("attention_probs_dropout_prob", 0.0),
            classifier=keys.number("classifier_dropout_prob", 0.1),
        ),
        num_layer_groups=keys.whole("num_hidden_groups", 1),
        layers_per_group=keys.whole("inner_group_num", 1),
    )


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of an ALBERT configuration."""
    keys = bert.write(config)
    return {
        **{key: value for key, value in keys.items() if key != "classifier_dropout"},
        "embedding_size": config.embeddings.size,
        "num_hidden_groups": config.num_layer_groups,
        "inner_group_num": config.layers_per_group,
        "classifier_dropout_prob": config.dropout.classifier,
    }


_LAYER = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"
_POOLER = {"pooler": "pooler.dense"}
_MASKED_LM = {
    "predictions.dense": "dense",
    "predictions.LayerNorm": "norm",
    "predictions.decoder.weight": "output.weight",
    "predictions.bias": "output.bias",
}
_TIED = {"output.weight": "embeddings.words.weight"}
# The bias of the output layer stands under a second name where nothing was left out on saving.
_SECOND_NAMES = {"predictions.decoder.bias": "predictions.bias"}
_CLASSIFIER = NameTable({"classifier": "output"})

ALBERT = FamilySpec(
    model_type="albert",
    title="ALBERT",
    prefix="albert.",
    bare="AlbertModel",
    read=read,
    write=write,
    names=NameTable(
        {
            **bert.EMBEDDING_NAMES,
            "encoder.embedding_hidden_mapping_in": "embeddings.projection",
            f"{_LAYER}.attention.query": "layers.{i}.attention.query",
            f"{_LAYER}.attention.key": "layers.{i}.attention.key",
            f"{_LAYER}.attention.value": "layers.{i}.attention.value",
            f"{_LAYER}.attention.dense": "layers.{i}.attention.output",
            f"{_LAYER}.attention.LayerNorm": "layers.{i}.attention_norm",
            f"{_LAYER}.ffn": "layers.{i}.feedforward.input",
            f"{_LAYER}.ffn_output": "layers.{i}.feedforward.output",
            f"{_LAYER}.full_layer_layer_norm": "layers.{i}.feedforward_norm",
            **_POOLER,
        },
        optional=frozenset(_POOLER),
        ignored=bert.IGNORED_BUFFERS,
    ),
    heads={
        "AlbertForSequenceClassification": HeadSpec("sequence", _CLASSIFIER, heads.sequence()),
        "AlbertForTokenClassification": HeadSpec("token", _CLASSIFIER, heads.token()),
        "AlbertForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        "AlbertForMultipleChoice": HeadSpec("choice", _CLASSIFIER, heads.sequence(), 1),
        "AlbertForMaskedLM": HeadSpec(
            "masked_lm",
            NameTable(
                _MASKED_LM,
                tied=_TIED,
                copies=_SECOND_NAMES,
                ignored={
                    r"sop_classifier\..*": "the sentence-order head, which the class that "
                    "config.json names does not have"
                },
            ),
            heads.masked_lm(),
            0,
        ),
        "AlbertForPreTraining": HeadSpec(
            "masked_lm",
            NameTable(
                {**_MASKED_LM, "sop_classifier.classifier": "relation.output"},
                tied=_TIED,
                copies=_SECOND_NAMES,
            ),
            heads.masked_lm(relation_dropout=None),
            2,
        ),
    },
    tokenizer=TokenizerRecipe(
        kind="sentencepiece",
        cls="[CLS]",
        sep="[SEP]",
        pad="<pad>",
        mask="[MASK]",
        unknown="<unk>",
        single="[CLS] A [SEP]",
        pair="[CLS] A [SEP] B [SEP]",
        typed=True,
    ),
    description=(
        "One block of weights that every layer uses, and tokens of 128 numbers projected up: the "
        "base model is a tenth of BERT's on disk and as slow to run, since as much is computed. "
        "For devices with little memory; trained to tell the order of two sentences."
    ),
    changes=(
        "layers share weights in groups; embeddings are narrower than the hidden states; gelu in "
        "its tanh form; no dropout in the second release; sentence order for next sentence"
    ),
)
