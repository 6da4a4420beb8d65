"""RoBERTa, XLM-R and CamemBERT: where positions begin, and how many of them can be used."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.errors import ConfigError, LengthError
from bothways.families.bert import BERT
from bothways.families.registry import FAMILIES, family_of
from bothways.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from bothways.families.spec import FamilySpec
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout
from tests.parity.families import Row, make_pair

# Each key at a value that is no default, so that none is right by luck.
KEYS: dict[str, Any] = {
    "vocab_size": 41,
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
# The sizes of the published base model that positions depend on.
PUBLISHED = {**KEYS, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
# float32, sums of a few dozen terms.
ATOL = 1e-5

three = pytest.mark.parametrize(
    "spec", [ROBERTA, XLM_ROBERTA, CAMEMBERT], ids=lambda spec: spec.model_type
)


def batch(*lengths: int) -> Batch:
    """Packed texts of token 7."""
    return Batch(torch.full((sum(lengths),), 7), Layout.packed(lengths))


@three
def test_every_key_is_read(spec: FamilySpec) -> None:
    config = spec.read_config(KEYS)
    assert config == EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(
            41, 24, max_positions=33, position_start=6, num_types=3, pad_id=5
        ),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(50, activation="relu"),
        norm=NormConfig(eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4),
        pooler=True,
        initializer_range=0.05,
    )
    assert spec.expresses(config)


def test_an_absent_padding_id_is_the_published_one() -> None:
    keys = {key: value for key, value in KEYS.items() if key != "pad_token_id"}
    embeddings = ROBERTA.read_config(keys).embeddings
    assert (embeddings.pad_id, embeddings.position_start) == (1, 2)


def test_of_514_position_rows_512_can_be_used() -> None:
    """transformers#1363, #10736, #11242: users pass 514 tokens and crash, or fear a row unused."""
    config = ROBERTA.read_config(PUBLISHED)
    assert config.embeddings.usable_positions == 512
    encoder = Encoder(config).eval()
    with torch.no_grad():
        assert encoder(batch(512, 3)).last_hidden.isfinite().all()
        with pytest.raises(
            LengthError, match=r"513 tokens .*514 position rows.* usable length 512"
        ):
            encoder(batch(513))


def test_a_text_of_thousands_of_tokens_gets_a_remedy() -> None:
    """explosion/curated-transformers#359: 4k tokens raised a bare IndexError."""
    encoder = Encoder(ROBERTA.read_config(PUBLISHED)).eval()
    with pytest.raises(LengthError, match=r"first 2 are reserved.* cut it with max_length=512"):
        encoder(batch(4000))


@pytest.mark.parametrize(("pad_id", "usable"), [(0, 32), (1, 31), (5, 27), (31, 1)])
def test_the_usable_length_follows_from_the_padding_id(pad_id: int, usable: int) -> None:
    config = ROBERTA.read_config({**KEYS, "pad_token_id": pad_id})
    assert config.embeddings.usable_positions == usable
    Encoder(config)(batch(usable))
    with pytest.raises(LengthError):
        Encoder(config)(batch(usable + 1))


@pytest.mark.parametrize(("pad_id", "problem"), [(None, "is null"), (32, "position_start is 33")])
def test_a_padding_id_without_a_row_after_it_is_refused(pad_id: int | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: .*{problem}"):
        ROBERTA.read_config({**KEYS, "pad_token_id": pad_id})


def test_the_rows_before_the_first_position_are_never_read() -> None:
    encoder = Encoder(ROBERTA.read_config(PUBLISHED)).eval()
    encoder(batch(4, 2)).last_hidden.square().sum().backward()
    assert encoder.embeddings.positions is not None
    gradient = encoder.embeddings.positions.weight.grad
    assert gradient is not None
    read = gradient.abs().sum(1).nonzero().flatten()
    assert read.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_counts_as_in_transformers(side: str, tmp_path: Path) -> None:
    pair = make_pair(
        Row("roberta", "padded", {**KEYS, "pad_token_id": 1}), "RobertaModel", tmp_path
    )
    mask = torch.arange(9) < torch.tensor([9, 4, 1])[:, None]
    mask = mask.flip(1) if side == "left" else mask
    ids = torch.randint(5, 41, (3, 9), generator=torch.Generator().manual_seed(1))
    ids = torch.where(mask, ids, 1)
    with torch.no_grad():
        theirs = pair.theirs(ids, attention_mask=mask.long()).last_hidden_state
        ours = pair.ours.encoder.padded(ids, mask).last_hidden
    torch.testing.assert_close(ours[mask], theirs[mask], rtol=0.0, atol=ATOL)


def make_older(folder: Path, **more: Tensor) -> None:
    """Rewrite a folder's weights as older versions did, with copies and buffers."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.decoder.weight"] = tensors["roberta.embeddings.word_embeddings.weight"].clone()
    tensors["lm_head.decoder.bias"] = tensors["lm_head.bias"].clone()
    tensors["roberta.embeddings.position_ids"] = torch.arange(33)[None]
    save_file({**tensors, **more}, path, {"format": "pt"})


@three
def test_files_of_older_versions_are_accounted_for(spec: FamilySpec, tmp_path: Path) -> None:
    name = spec.head_of_kind("masked_lm")
    assert name is not None
    before = make_pair(Row(spec.model_type, "old", KEYS), name, tmp_path).ours
    pooler = {
        "roberta.pooler.dense.weight": torch.eye(24),
        "roberta.pooler.dense.bias": torch.zeros(24),
    }
    make_older(tmp_path, **pooler)
    after = load_parts(tmp_path)
    report = after.report
    assert set(report.ignored) == {"lm_head.decoder.bias", "roberta.embeddings.position_ids"}
    assert "lm_head.decoder.weight" in report.loaded
    assert report.tied == {"output.weight": "embeddings.words.weight"}
    assert (report.unexpected, report.missing) == ((), {})
    assert after.encoder.pooler is not None
    with torch.no_grad():
        logits = [
            parts.head(parts.encoder(batch(5, 2)), batch(5, 2))
            for parts in (before, after)
            if parts.head is not None
        ]
    assert torch.equal(*logits)


def test_an_encoder_is_of_this_family_when_its_positions_start_after_the_padding_id() -> None:
    config = ROBERTA.read_config(PUBLISHED)
    assert family_of(config) is ROBERTA
    assert not BERT.expresses(config)
    moved = dataclasses.replace(config.embeddings, position_start=3)
    assert not ROBERTA.expresses(dataclasses.replace(config, embeddings=moved))


@three
def test_the_three_share_a_prefix_and_not_their_class_names(spec: FamilySpec) -> None:
    assert spec.prefix == "roberta."
    others = {name for other in FAMILIES.values() if other is not spec for name in other.heads}
    assert not others & set(spec.heads)
    assert {head.kind for head in spec.heads.values()} == {
        "sequence",
        "token",
        "answer",
        "choice",
        "masked_lm",
    }
