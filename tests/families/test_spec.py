"""Promises that every family keeps, and what no family takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from bothways.errors import ConfigError, UnsupportedModelError
from bothways.families.bert import BERT
from bothways.families.keys import ConfigKeys
from bothways.families.own import OWN
from bothways.families.presets import PRESETS
from bothways.families.registry import FAMILIES, family_of, find_family
from bothways.families.spec import FamilySpec, refusals
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    RotaryConfig,
    build_config,
)
from bothways.model.encoder import Encoder

# Each key at a value that is no default, so that none is right by luck.
BERT_KEYS: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 41,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 50,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 33,
    "type_vocab_size": 3,
    "pad_token_id": 5,
    "layer_norm_eps": 1e-6,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.4,
    "initializer_range": 0.05,
}
ODD_CONFIG = EncoderConfig(
    hidden_size=24,
    num_layers=2,
    embeddings=EmbeddingsConfig(41, 24, positions="none", num_types=0, norm=False),
    attention=AttentionConfig(
        4, 6, bias="none", layer_kinds=("global", "local"), window=3, rotary=RotaryConfig()
    ),
    feedforward=FeedForwardConfig(50, activation="silu", gated=True, bias=False),
    norm=NormConfig("pre", bias=False, skip_first=True, final=True),
)

families = pytest.mark.parametrize("spec", FAMILIES.values(), ids=lambda spec: spec.model_type)


def test_bert_reads_every_key() -> None:
    config = BERT.read_config(BERT_KEYS)
    assert config == EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(41, 24, max_positions=33, num_types=3, pad_id=5),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(50, activation="gelu_tanh"),
        norm=NormConfig(eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4),
        pooler=True,
        initializer_range=0.05,
    )


def test_bert_takes_the_published_defaults_for_absent_keys() -> None:
    required = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    names = (*required, "intermediate_size")
    config = BERT.read_config({name: BERT_KEYS[name] for name in names})
    assert config.norm.eps == 1e-12
    assert config.embeddings == EmbeddingsConfig(41, 24)
    assert config.dropout == DropoutConfig()
    assert BERT.read_config({**BERT_KEYS, "classifier_dropout": None}).dropout.classifier == 0.2


@families
def test_what_a_family_writes_it_reads_again(spec: FamilySpec) -> None:
    for config in (*PRESETS.values(), BERT.read_config(BERT_KEYS), ODD_CONFIG):
        if spec.expresses(config):
            read = spec.read(ConfigKeys(spec.write(config)))
            assert dataclasses.replace(read, pooler=config.pooler) == config


@pytest.mark.parametrize("spec", [BERT, OWN], ids=lambda spec: spec.model_type)
def test_each_name_table_fits_the_modules_it_is_for(spec: FamilySpec) -> None:
    config = PRESETS["tiny"]
    assert spec.expresses(config)
    with torch.device("meta"):
        encoder = Encoder(config)
        slots = spec.names.bind(encoder, config)
        assert {name for slot in slots for name in slot.ours} == set(encoder.state_dict())
        for head in spec.heads.values():
            width = 3 if head.num_outputs is None else head.num_outputs
            module = head.build(config, ConfigKeys({}), width)
            slots = head.names.bind(module, config)
            assert {name for slot in slots for name in slot.ours} == set(module.state_dict())


@families
def test_each_family_says_what_it_is(spec: FamilySpec) -> None:
    assert len(spec.description.split()) > 8
    assert spec.changes
    assert FAMILIES[spec.model_type] is spec


def test_keys_that_still_hold_stay_as_they_were_written() -> None:
    raw = {**BERT_KEYS, "hidden_act": "gelu_pytorch_tanh", "use_cache": True}
    config = BERT.read_config(raw)
    assert BERT.write_config(config, raw) == raw
    wider = dataclasses.replace(config, feedforward=FeedForwardConfig(60, activation="relu"))
    written = BERT.write_config(wider, raw)
    assert (written["hidden_act"], written["intermediate_size"]) == ("relu", 60)
    assert written["use_cache"] is True


def test_a_pooler_that_a_file_lacks_does_not_rewrite_the_configuration() -> None:
    config = dataclasses.replace(BERT.read_config(BERT_KEYS), pooler=False)
    assert BERT.write_config(config, BERT_KEYS) == BERT_KEYS


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"auto_map": {"AutoModel": "modeling.Model"}}, "nothing from a model folder is executed"),
        ({"is_decoder": True}, "is_decoder: the model is a decoder"),
        ({"add_cross_attention": True}, "add_cross_attention: the model is a decoder"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder: the model is a decoder"),
        ({"pruned_heads": {"0": [1, 2]}}, "different numbers of attention heads"),
        ({"position_embedding_type": "relative_key"}, "'relative_key' is not built here"),
        ({"quantization_config": {"bits": 4}}, "the weights are not plain numbers"),
    ],
)
def test_what_no_family_supports_is_refused_with_the_reason(
    keys: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        BERT.read_config({**BERT_KEYS, **keys})


def test_all_refusals_stand_in_one_error_with_the_file() -> None:
    raw = {**BERT_KEYS, "is_decoder": True, "pruned_heads": {"0": [1]}}
    with pytest.raises(UnsupportedModelError, match=r"my/config\.json(.|\n)*decoder(.|\n)*pruned"):
        BERT.read_config(raw, "my/config.json")


def test_harmless_values_of_these_keys_are_not_refused() -> None:
    harmless = {"is_decoder": False, "pruned_heads": {}, "position_embedding_type": None}
    assert refusals({**BERT_KEYS, **harmless, "auto_map": None}) == []


def test_an_impossible_value_names_the_file() -> None:
    with pytest.raises(ConfigError, match=r"my/config\.json: embeddings\.pad_id is 99"):
        BERT.read_config({**BERT_KEYS, "pad_token_id": 99}, "my/config.json")


def test_an_unknown_model_type_names_the_nearest() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'brt' is not supported; did you mean 'bert'"):
        find_family({"model_type": "brt"})
    with pytest.raises(UnsupportedModelError, match=r"'gpt2' is not supported; known: .*bert"):
        find_family({"model_type": "gpt2"})
    with pytest.raises(UnsupportedModelError, match=r"model_type \['bert'\] is not supported"):
        find_family({"model_type": ["bert"]})
    with pytest.raises(UnsupportedModelError, match="has no model_type"):
        find_family({})


def test_a_published_family_is_preferred_to_our_own() -> None:
    assert family_of(PRESETS["tiny"]) is BERT
    assert family_of(ODD_CONFIG) is OWN
    assert family_of(build_config(vocab_size=9, hidden_size=8, num_heads=2, num_layers=1)) is OWN


def test_our_own_family_keeps_every_axis() -> None:
    assert OWN.read(ConfigKeys(OWN.write(ODD_CONFIG))) == ODD_CONFIG


def test_our_own_family_refuses_axes_it_does_not_know() -> None:
    written = OWN.write(ODD_CONFIG)
    written["encoder"]["norm"]["plcement"] = written["encoder"]["norm"].pop("placement")
    with pytest.raises(ConfigError, match=r"unknown keys 'plcement' .did you mean 'placement'"):
        OWN.read_config(written)
    del written["encoder"]["hidden_size"]
    written["encoder"]["norm"] = 3
    with pytest.raises(ConfigError, match="lacks hidden_size"):
        OWN.read_config(written)


def test_new_heads_of_a_kind_have_a_class() -> None:
    assert BERT.head_of_kind("sequence") == "BertForSequenceClassification"
    assert BERT.head_of_kind("masked_lm") == "BertForMaskedLM"
    assert OWN.head_of_kind("sequence") is None
