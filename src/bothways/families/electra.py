"""ELECTRA (Clark et al. 2020): an encoder that learns to tell which tokens were replaced.

The generator, a small masked LM that replaces tokens, and the discriminator, which is the model
that people use, are two checkpoints of the same family.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import nn

from bothways.errors import UnsupportedModelError
from bothways.families import bert, heads
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec
from bothways.model.config import EncoderConfig
from bothways.model.heads import ClassificationHead, TokenHead


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes: BERT's, with embeddings of a size of their own and no pooler."""
    config = bert.read(keys)
    embeddings = dataclasses.replace(config.embeddings, size=keys.whole("embedding_size"))
    return dataclasses.replace(config, embeddings=embeddings, pooler=False)


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of an ELECTRA configuration."""
    return {**bert.write(config), "embedding_size": config.embeddings.size}


def _replaced_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """The discriminator's: the encoder's activation, where the other heads have gelu."""
    del keys
    return TokenHead(
        config.hidden_size, num_outputs, dropout=0.0, dense=config.feedforward.activation
    )


def _choice_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    """A summary of the first token as the configuration spells it out, and a score of it.

    Raises:
        UnsupportedModelError: for a summary of other tokens, or without a dense layer.
    """
    kind = keys.text("summary_type", "first")
    if kind != "first" or not keys.flag("summary_use_proj", True):
        raise UnsupportedModelError(
            f"{keys.place}: summary_type is {kind!r} and summary_use_proj is "
            f"{keys.raw.get('summary_use_proj', True)}; only a dense layer over the first token is "
            "built here: 'first' and true"
        )
    # Null and the empty word are no activation, while an absent key is the default.
    named = bool(keys.raw.get("summary_activation", "gelu"))
    return ClassificationHead(
        config.hidden_size,
        num_outputs,
        pooling="cls",
        dropout=keys.number("summary_last_dropout", 0.1),
        dense=keys.activation("summary_activation") if named else "identity",
        dense_dropout=keys.number("summary_first_dropout", 0.0),
    )


def _choice_keys(head: nn.Module) -> dict[str, Any]:
    settings = vars(head)["settings"]
    first = settings["dense_dropout"]
    return {
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": NAME_OF_ACTIVATION[settings["dense"] or "identity"],
        "summary_first_dropout": settings["dropout"] if first is None else first,
        "summary_last_dropout": settings["dropout"],
    }


_PROJECTION = {"embeddings_project": "embeddings.projection"}

ELECTRA = FamilySpec(
    model_type="electra",
    title="ELECTRA",
    prefix="electra.",
    bare="ElectraModel",
    read=read,
    write=write,
    names=NameTable(
        {**bert.EMBEDDING_NAMES, **_PROJECTION, **bert.LAYER_NAMES},
        optional=frozenset(_PROJECTION),
        ignored=bert.IGNORED_BUFFERS,
    ),
    heads={
        "ElectraForSequenceClassification": HeadSpec(
            "sequence",
            NameTable({"classifier.dense": "dense", "classifier.out_proj": "output"}),
            heads.sequence("cls", dense="gelu"),
        ),
        "ElectraForTokenClassification": HeadSpec(
            "token", NameTable({"classifier": "output"}), heads.token()
        ),
        "ElectraForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        "ElectraForMultipleChoice": HeadSpec(
            "choice",
            NameTable({"sequence_summary.summary": "dense", "classifier": "output"}),
            _choice_head,
            1,
            _choice_keys,
        ),
        "ElectraForPreTraining": HeadSpec(
            "replaced",
            NameTable(
                {
                    "discriminator_predictions.dense": "dense",
                    "discriminator_predictions.dense_prediction": "output",
                }
            ),
            _replaced_head,
            1,
        ),
        "ElectraForMaskedLM": HeadSpec(
            "masked_lm",
            NameTable(
                {
                    "generator_predictions.dense": "dense",
                    "generator_predictions.LayerNorm": "norm",
                    "generator_lm_head": "output",
                },
                tied={"output.weight": "embeddings.words.weight"},
            ),
            heads.masked_lm("gelu"),
            0,
        ),
    },
    tokenizer=bert.BERT.tokenizer,
    description=(
        "Trained on every token rather than on the masked ones: a small generator replaces some, "
        "and the encoder finds out which. The best small models of its time (the small one has 14 "
        "million weights); the discriminator is the one to fine-tune."
    ),
    changes=(
        "embeddings may be narrower than the hidden states; no pooler, so the classifier has a "
        "dense layer with gelu over the first token; pretrained to detect replaced tokens"
    ),
)
