"""DistilBERT: its own keys, no types and no pooler, positions that a file may have frozen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt, new_head
from bothways.checkpoints.save import save_parts
from bothways.families.distilbert import DISTILBERT
from bothways.families.presets import preset
from bothways.families.registry import family_of
from bothways.model.block import Block
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.embeddings import sinusoidal_table
from bothways.model.encoder import Encoder
from bothways.model.heads import describe_head
from bothways.model.layout import Batch, Layout
from tests.parity.families import Row, make_pair

# Each key at a value that is no default, so that none is right by luck.
KEYS: dict[str, Any] = {
    "vocab_size": 41,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 50,
    "activation": "relu",
    "max_position_embeddings": 33,
    "sinusoidal_pos_embds": True,
    "pad_token_id": 5,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "seq_classif_dropout": 0.4,
    "qa_dropout": 0.15,
    "initializer_range": 0.05,
}
SIZES = ("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim")
TABLE = "distilbert.embeddings.position_embeddings.weight"


def row(**keys: Any) -> Row:
    return Row("distilbert", "test", {**KEYS, **keys})


def batch(types: bool = False) -> Batch:
    """Two packed texts."""
    ids = torch.tensor([7, 8, 9, 7, 6])
    return Batch(ids, Layout.packed([3, 2]), torch.tensor([0, 1, 1, 0, 1]) if types else None)


def test_every_key_is_read() -> None:
    assert DISTILBERT.read_config(KEYS) == EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(
            41, 24, positions="sinusoidal", max_positions=33, num_types=0, pad_id=5
        ),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(50, activation="relu"),
        norm=NormConfig(eps=1e-12),
        dropout=DropoutConfig(0.2, 0.3, 0.4, attention_output=0.0),
        initializer_range=0.05,
    )


def test_absent_keys_have_the_published_defaults() -> None:
    config = DISTILBERT.read_config({name: KEYS[name] for name in SIZES})
    assert config.embeddings == EmbeddingsConfig(41, 24, num_types=0)
    assert config.dropout == DropoutConfig(0.1, 0.1, 0.2, attention_output=0.0)
    assert config.feedforward.activation == "gelu"


def test_the_positions_of_the_file_count_and_stay_fixed(tmp_path: Path) -> None:
    """What a file holds under this name is used, whatever a formula would give."""
    make_pair(row(), "DistilBertForMaskedLM", tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    assert not torch.allclose(tensors[TABLE], sinusoidal_table(33, 24))
    save_file({**tensors, TABLE: tensors[TABLE] * 3}, path, {"format": "pt"})
    parts = load_parts(tmp_path / "theirs")
    positions = parts.encoder.embeddings.positions
    assert positions is not None
    assert torch.equal(positions.weight, tensors[TABLE] * 3)
    assert not positions.weight.requires_grad
    parts.encoder(batch()).last_hidden.sum().backward()
    assert positions.weight.grad is None
    save_parts(parts, tmp_path / "ours")
    assert torch.equal(load_file(tmp_path / "ours" / "model.safetensors")[TABLE], positions.weight)


def test_new_sinusoids_are_those_of_transformers() -> None:
    config = transformers.DistilBertConfig(**KEYS)
    theirs = transformers.DistilBertModel(config).embeddings.position_embeddings.weight
    ours = Encoder(DISTILBERT.read_config(KEYS)).embeddings.positions
    assert ours is not None
    torch.testing.assert_close(ours.weight, theirs.detach(), rtol=0.0, atol=1e-6)


def test_the_second_text_of_a_pair_looks_like_the_first() -> None:
    encoder = Encoder(DISTILBERT.read_config(KEYS)).eval()
    assert torch.equal(encoder(batch(types=True)).last_hidden, encoder(batch()).last_hidden)


def test_dropout_is_where_it_was_in_pretraining() -> None:
    """Not on the output of attention; transformers has none there either."""
    encoder = Encoder(DISTILBERT.read_config(KEYS))
    block = encoder.layers[0]
    assert isinstance(block, Block)
    assert (block.attention_dropout.rate, block.dropout.rate, block.attention.rate) == (0, 0.2, 0.3)
    assert encoder.embeddings.dropout.rate == 0.2


@pytest.mark.parametrize(
    ("name", "dropout", "dense_dropout"),
    [
        ("DistilBertForSequenceClassification", 0.4, 0.0),
        ("DistilBertForMultipleChoice", 0.4, 0.0),
        ("DistilBertForTokenClassification", 0.2, None),
        ("DistilBertForQuestionAnswering", 0.15, None),
    ],
)
def test_each_head_has_the_rate_of_its_key(
    name: str, dropout: float, dense_dropout: float | None, tmp_path: Path
) -> None:
    head = make_pair(row(), name, tmp_path).ours.head
    assert head is not None
    described = describe_head(head)
    assert described["dropout"] == dropout
    assert described.get("dense_dropout") == dense_dropout


def test_another_rate_of_a_head_is_written_under_its_key(tmp_path: Path) -> None:
    parts = make_pair(row(), "DistilBertModel", tmp_path / "theirs").ours
    head = new_head(parts, "answer", 2)
    changed = type(head)(24, 2, dropout=0.35)
    save_parts(adapt(parts, changed, kind="answer"), tmp_path / "answer")
    keys = json.loads((tmp_path / "answer" / "config.json").read_text())
    assert keys["architectures"] == ["DistilBertForQuestionAnswering"]
    assert (keys["qa_dropout"], keys["seq_classif_dropout"]) == (0.35, 0.4)
    again = load_parts(tmp_path / "answer").head
    assert again is not None
    assert describe_head(again)["dropout"] == 0.35


def test_keys_of_old_files_are_kept(tmp_path: Path) -> None:
    parts = make_pair(row(tie_weights_=True, output_past=True), "DistilBertModel", tmp_path).ours
    save_parts(parts, tmp_path / "ours")
    keys = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert keys["tie_weights_"] is True
    assert keys["output_past"] is True


def test_only_what_the_keys_can_say_is_of_this_family() -> None:
    config = DISTILBERT.read_config(KEYS)
    assert DISTILBERT.expresses(config)
    assert family_of(config) is DISTILBERT
    others = [
        dataclasses.replace(config, norm=NormConfig(eps=1e-5)),
        dataclasses.replace(config, dropout=DropoutConfig(0.2, 0.3, 0.4)),
        dataclasses.replace(config, embeddings=EmbeddingsConfig(41, 24)),
        dataclasses.replace(config, pooler=True),
        preset("tiny"),
    ]
    assert not any(DISTILBERT.expresses(other) for other in others)
