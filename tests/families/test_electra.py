"""ELECTRA: projected embeddings, two activations, and the summary that scores candidates."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt
from bothways.checkpoints.save import save_parts
from bothways.errors import UnsupportedModelError
from bothways.families.bert import BERT
from bothways.families.electra import ELECTRA
from bothways.families.keys import ConfigKeys
from bothways.families.registry import family_of
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead, describe_head
from tests.parity.families import Row, make_pair

# Each key at a value that is no default, so that none is right by luck.
KEYS: dict[str, Any] = {
    "vocab_size": 41,
    "embedding_size": 16,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 50,
    "hidden_act": "relu",
    "max_position_embeddings": 33,
    "type_vocab_size": 3,
    "pad_token_id": 5,
    "layer_norm_eps": 1e-6,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.4,
    "initializer_range": 0.05,
}
CHOICE = "ElectraForMultipleChoice"


def row(**keys: Any) -> Row:
    return Row("electra", "test", {**KEYS, **keys})


def choice(**keys: Any) -> dict[str, Any]:
    """The multiple-choice head that a configuration describes."""
    config = ELECTRA.read_config(KEYS)
    return describe_head(ELECTRA.heads[CHOICE].build(config, ConfigKeys({**KEYS, **keys}), 1))


def test_every_key_is_read() -> None:
    assert ELECTRA.read_config(KEYS) == EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(41, 16, max_positions=33, num_types=3, pad_id=5),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(50, activation="relu"),
        norm=NormConfig(eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4),
        initializer_range=0.05,
    )


@pytest.mark.parametrize(("size", "projected"), [(16, True), (24, False), (40, True)])
def test_embeddings_are_projected_where_the_sizes_differ(size: int, projected: bool) -> None:
    encoder = Encoder(ELECTRA.read_config({**KEYS, "embedding_size": size}))
    assert (encoder.embeddings.projection is not None) == projected
    assert encoder.pooler is None


@pytest.mark.parametrize(
    ("name", "activation", "rates"),
    [
        # Only the discriminator has the encoder's activation.
        ("ElectraForPreTraining", "relu", (0.0,)),
        ("ElectraForSequenceClassification", "gelu", (0.4, None)),
        ("ElectraForTokenClassification", None, (0.4,)),
        ("ElectraForQuestionAnswering", None, (0.0,)),
        (CHOICE, "gelu", (0.1, 0.0)),
    ],
)
def test_each_head_has_its_activation_and_its_dropout(
    name: str, activation: str | None, rates: tuple[float | None, ...], tmp_path: Path
) -> None:
    head = make_pair(row(), name, tmp_path).ours.head
    assert head is not None
    described = describe_head(head)
    assert described["dense"] == activation
    assert [described[key] for key in ("dropout", "dense_dropout")[: len(rates)]] == list(rates)


def test_the_generator_has_gelu_whatever_the_encoder_has(tmp_path: Path) -> None:
    head = make_pair(row(), "ElectraForMaskedLM", tmp_path).ours.masked_lm
    assert head is not None
    assert head.activation == "gelu"
    assert head.output.weight.shape == (41, 16)


@pytest.mark.parametrize(
    ("keys", "activation"),
    [
        ({}, "gelu"),
        ({"summary_activation": "tanh"}, "tanh"),
        ({"summary_activation": None}, "identity"),
        ({"summary_activation": ""}, "identity"),
    ],
)
def test_the_summary_has_the_activation_that_the_file_names(
    keys: dict[str, Any], activation: str
) -> None:
    assert choice(**keys)["dense"] == activation


def test_the_summary_has_its_dropout_on_either_side() -> None:
    described = choice(summary_first_dropout=0.6, summary_last_dropout=0.7)
    assert (described["dense_dropout"], described["dropout"]) == (0.6, 0.7)


@pytest.mark.parametrize(
    "keys", [{"summary_type": "last"}, {"summary_type": "mean"}, {"summary_use_proj": False}]
)
def test_a_summary_of_other_tokens_is_refused(keys: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"config\.json: summary_type is .*'first'"):
        make_pair(row(**keys), CHOICE, tmp_path)


def test_a_summary_that_no_head_reads_does_not_matter(tmp_path: Path) -> None:
    parts = make_pair(row(summary_type="mean"), "ElectraForMaskedLM", tmp_path / "theirs").ours
    save_parts(parts, tmp_path / "ours")
    assert load_parts(tmp_path / "ours").architecture == "ElectraForMaskedLM"


def test_another_summary_is_written_under_its_keys(tmp_path: Path) -> None:
    parts = make_pair(row(), "ElectraModel", tmp_path / "theirs").ours
    head = ClassificationHead(
        24, 1, pooling="cls", dropout=0.25, dense="gelu_tanh", dense_dropout=0.5
    )
    save_parts(adapt(parts, head, kind="choice"), tmp_path / "ours")
    keys = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert keys["architectures"] == [CHOICE]
    assert keys["summary_activation"] == "gelu_new"
    assert (keys["summary_first_dropout"], keys["summary_last_dropout"]) == (0.5, 0.25)
    assert keys["classifier_dropout"] == 0.4
    again = load_parts(tmp_path / "ours").head
    assert again is not None
    assert describe_head(again) == describe_head(head)


def test_narrow_embeddings_without_a_pooler_are_of_this_family() -> None:
    config = ELECTRA.read_config(KEYS)
    assert family_of(config) is ELECTRA
    assert not BERT.expresses(config)
    assert not ELECTRA.expresses(dataclasses.replace(config, pooler=True))


def test_the_discriminator_says_for_each_token_whether_it_was_replaced(tmp_path: Path) -> None:
    pair = make_pair(row(), "ElectraForPreTraining", tmp_path)
    assert pair.ours.labels == ()
    assert pair.kind == "replaced"
    ids = torch.tensor([[7, 8, 9]])
    with torch.no_grad():
        assert pair.theirs(ids).logits.shape == (1, 3)
