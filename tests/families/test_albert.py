"""ALBERT: shared layers, narrow embeddings, no dropout where the file says so."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import ConfigError
from bothways.families.albert import ALBERT
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
from bothways.model.heads import MaskedLMHead, describe_head
from bothways.model.layout import Batch, Layout
from tests.parity.families import Row, make_pair

# Each key at a value that is no default, so that none is right by luck.
KEYS: dict[str, Any] = {
    "vocab_size": 41,
    "embedding_size": 10,
    "hidden_size": 24,
    "num_hidden_layers": 6,
    "num_hidden_groups": 3,
    "inner_group_num": 2,
    "num_attention_heads": 4,
    "intermediate_size": 50,
    "hidden_act": "relu",
    "max_position_embeddings": 33,
    "type_vocab_size": 3,
    "pad_token_id": 5,
    "layer_norm_eps": 1e-6,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout_prob": 0.4,
    "initializer_range": 0.05,
}
SIZES = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)


def row(**keys: Any) -> Row:
    return Row("albert", "test", {**KEYS, **keys})


def batch() -> Batch:
    """Two packed texts."""
    return Batch(torch.tensor([7, 8, 9, 7, 6]), Layout.packed([3, 2]))


def test_every_key_is_read() -> None:
    assert ALBERT.read_config(KEYS) == EncoderConfig(
        hidden_size=24,
        num_layers=6,
        embeddings=EmbeddingsConfig(41, 10, max_positions=33, num_types=3, pad_id=5),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(50, activation="relu"),
        norm=NormConfig(eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4),
        num_layer_groups=3,
        layers_per_group=2,
        pooler=True,
        initializer_range=0.05,
    )


def test_absent_keys_have_the_published_defaults() -> None:
    config = ALBERT.read_config({name: KEYS[name] for name in SIZES})
    assert config.feedforward.activation == "gelu_tanh"
    assert config.dropout == DropoutConfig(0.0, 0.0, 0.1)
    assert (config.num_layer_groups, config.layers_per_group) == (1, 1)


def test_dropout_0_of_the_second_release_is_honoured() -> None:
    keys = {**KEYS, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    encoder = Encoder(ALBERT.read_config(keys))
    training, evaluating = encoder.train()(batch()), encoder.eval()(batch())
    assert torch.equal(training.last_hidden, evaluating.last_hidden)
    assert not torch.equal(
        Encoder(ALBERT.read_config(KEYS)).train()(batch()).last_hidden,
        Encoder(ALBERT.read_config(KEYS)).eval()(batch()).last_hidden,
    )


def test_layers_run_in_the_order_of_their_groups() -> None:
    config = ALBERT.read_config(KEYS)
    assert config.block_order == ((0, 1), (0, 1), (2, 3), (2, 3), (4, 5), (4, 5))
    assert len(Encoder(config).layers) == 6
    deeper = ALBERT.read_config({**KEYS, "num_hidden_layers": 12})
    assert Encoder(deeper).num_parameters() == Encoder(config).num_parameters()


def test_groups_that_do_not_divide_the_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_layers \(7\) is not divisible"):
        ALBERT.read_config({**KEYS, "num_hidden_layers": 7})


def test_the_names_count_groups_and_inner_layers(tmp_path: Path) -> None:
    make_pair(row(), "AlbertModel", tmp_path)
    names = {name.split(".attention")[0] for name in load_file(tmp_path / "model.safetensors")}
    place = "encoder.albert_layer_groups.{}.albert_layers.{}"
    assert {place.format(group, inner) for group in range(3) for inner in range(2)} <= names


def test_embeddings_are_projected_also_where_the_sizes_are_equal() -> None:
    narrow, square = (ALBERT.read_config({**KEYS, "embedding_size": size}) for size in (10, 24))
    for config in (narrow, square):
        assert Encoder(config).embeddings.projection is not None
        assert ALBERT.expresses(config)
    plain = dataclasses.replace(square.embeddings, projection="by_size")
    assert not ALBERT.expresses(dataclasses.replace(square, embeddings=plain))


def test_an_encoder_with_shared_layers_is_of_this_family() -> None:
    config = ALBERT.read_config(KEYS)
    assert family_of(config) is ALBERT
    assert not ALBERT.expresses(dataclasses.replace(config, num_layer_groups=0))


def test_the_sentence_order_head_is_read_with_its_dropout(tmp_path: Path) -> None:
    head = make_pair(row(), "AlbertForPreTraining", tmp_path).ours.head
    assert isinstance(head, MaskedLMHead)
    assert head.relation is not None
    assert describe_head(head.relation)["dropout"] == 0.4
    assert head.output.weight.shape == (41, 10)


def test_a_sentence_order_head_beside_a_masked_lm_is_ignored_with_a_reason(tmp_path: Path) -> None:
    make_pair(row(), "AlbertForPreTraining", tmp_path)
    path = tmp_path / "config.json"
    keys = json.loads(path.read_text())
    path.write_text(json.dumps({**keys, "architectures": ["AlbertForMaskedLM"]}))
    parts = load_parts(tmp_path)
    assert "sentence-order" in parts.report.ignored["sop_classifier.classifier.weight"]
    assert parts.report.unexpected == ()
    assert parts.masked_lm is not None
    assert parts.masked_lm.relation is None


def test_keys_of_the_first_files_are_kept(tmp_path: Path) -> None:
    parts = make_pair(row(net_structure_type=0, gap_size=0), "AlbertModel", tmp_path).ours
    save_parts(parts, tmp_path / "ours")
    keys = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert (keys["net_structure_type"], keys["gap_size"]) == (0, 0)
    assert "classifier_dropout" not in keys
