"""ModernBERT: two dialects of one configuration, windows, length, and heads.

That the numbers are those of transformers on short texts is in `tests/parity`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt, new_head
from bothways.checkpoints.save import save_parts
from bothways.errors import BothwaysError, ConfigError, LengthError, UnsupportedModelError
from bothways.families.keys import ConfigKeys
from bothways.families.modernbert import MODERNBERT
from bothways.families.registry import family_of
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    LayerKind,
    NormConfig,
    RotaryConfig,
)
from bothways.model.heads import describe_head
from bothways.model.kernels import band
from bothways.model.layout import Batch, Layout
from tests.checkpoints.models import edit_json
from tests.parity.families import Row, make_pair

# float32, sums of a few dozen terms of size 1.
ATOL = 1e-5
# An angle at position 8,000 is a float32 of five digits before the point and three behind it:
# its last bit turns a query by 5e-4, and both libraries round it alike, but not their sums.
FAR = 1e-4

# As published, without what says nothing of the encoder.
BASE: dict[str, Any] = {
    "model_type": "modernbert",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "decoder_bias": True,
    "embedding_dropout": 0.0,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "vocab_size": 50368,
}
# Each key at a value that is no default, so that none is right by luck.
ODD: dict[str, Any] = {
    "vocab_size": 41,
    "hidden_size": 24,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_activation": "silu",
    "max_position_embeddings": 70,
    "pad_token_id": 7,
    "attention_bias": True,
    "mlp_bias": True,
    "norm_bias": True,
    "norm_eps": 1e-3,
    "local_attention": 6,
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 700.0,
    "local_rope_theta": 30.0,
    "embedding_dropout": 0.1,
    "attention_dropout": 0.2,
    "mlp_dropout": 0.3,
    "classifier_dropout": 0.4,
    "initializer_range": 0.05,
}
SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 8192,
    "pad_token_id": 3,
    "local_attention": 16,
    "global_attn_every_n_layers": 2,
}
G: LayerKind = "global"
L: LayerKind = "local"


def row(**keys: Any) -> Row:
    return Row("modernbert", "test", {**SMALL, **keys})


def test_each_key_sets_its_axis() -> None:
    assert MODERNBERT.read_config(ODD) == EncoderConfig(
        hidden_size=24,
        num_layers=5,
        embeddings=EmbeddingsConfig(
            41, 24, positions="none", max_positions=70, num_types=0, pad_id=7
        ),
        attention=AttentionConfig(
            3,
            8,
            bias="all",
            layer_kinds=(G, L, G, L, G),
            window=3,
            rotary=RotaryConfig(700.0, 30.0),
        ),
        feedforward=FeedForwardConfig(20, activation="silu", gated=True, bias=True),
        norm=NormConfig("pre", eps=1e-3, bias=True, skip_first=True, final=True),
        dropout=DropoutConfig(
            0.1, 0.2, 0.4, activation=0.3, attention_output=0.2, feedforward_output=0.0
        ),
        initializer_range=0.05,
    )


def test_the_published_configuration() -> None:
    """Layers 0, 3, 6, ... are global; the others see 64 tokens each way."""
    config = MODERNBERT.read_config(BASE)
    kinds = config.layer_kinds
    assert [layer for layer in range(22) if kinds[layer] == "global"] == [*range(0, 22, 3)]
    assert config.attention.window == 64
    assert config.attention.rotary == RotaryConfig(160_000.0, 10_000.0)
    assert config.embeddings.usable_positions == 8192
    assert config.attention.bias == "none"
    assert config.pooler is False


def test_absent_keys_mean_what_transformers_takes() -> None:
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    shape = {name: BASE[name] for name in (*names, "intermediate_size")}
    theirs = transformers.AutoConfig.for_model("modernbert", **shape).to_dict()
    assert MODERNBERT.read_config(shape) == MODERNBERT.read_config(theirs)


def as_transformers_5(keys: dict[str, Any]) -> dict[str, Any]:
    """The same configuration in the other dialect."""
    config = transformers.AutoConfig.for_model(**{**keys, "model_type": "modernbert"})
    old = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    written: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in written.items() if key not in old}


def as_transformers_4(keys: dict[str, Any]) -> dict[str, Any]:
    """What version 4 makes of a file: these keys alone, local where the rest is not 0."""
    step = keys["global_attn_every_n_layers"]
    return {
        "kinds": tuple(L if layer % step else G for layer in range(keys["num_hidden_layers"])),
        "thetas": (keys["global_rope_theta"], keys["local_rope_theta"]),
        "reach": keys["local_attention"] // 2,
    }


@pytest.mark.parametrize("keys", [BASE, ODD], ids=["published", "odd"])
def test_both_dialects_say_the_same(keys: dict[str, Any]) -> None:
    spelled = as_transformers_5(keys)
    assert {"layer_types", "rope_parameters"} <= spelled.keys()
    assert MODERNBERT.read_config(spelled) == MODERNBERT.read_config(keys)


@pytest.mark.parametrize("keys", [BASE, ODD], ids=["published", "odd"])
def test_what_is_written_says_the_same_to_both_versions(keys: dict[str, Any]) -> None:
    config = MODERNBERT.read_config(keys)
    written = MODERNBERT.write_config(config, {})
    assert MODERNBERT.read_config(written) == config
    assert MODERNBERT.read_config(as_transformers_5(written)) == config
    rotary = config.attention.rotary
    assert rotary is not None
    assert as_transformers_4(written) == {
        "kinds": config.layer_kinds,
        "thetas": (rotary.global_theta, rotary.local_theta),
        "reach": config.attention.window,
    }
    assert family_of(config) is MODERNBERT


def test_a_file_keeps_its_dialect_while_it_holds() -> None:
    for keys in (BASE, {**as_transformers_5(BASE)}):
        config = MODERNBERT.read_config(keys)
        assert MODERNBERT.write_config(config, keys) == keys


def test_an_order_of_layers_that_the_old_dialect_cannot_say() -> None:
    """Then its key is null, which version 4 refuses rather than builds something else."""
    config = MODERNBERT.read_config(BASE)
    attention = dataclasses.replace(config.attention, layer_kinds=(L, G) * 11)
    config = dataclasses.replace(config, attention=attention)
    written = MODERNBERT.write_config(config, BASE)
    assert written["global_attn_every_n_layers"] is None
    assert MODERNBERT.read_config(written) == config
    assert MODERNBERT.read_config(as_transformers_5(written)) == config
    with pytest.raises(TypeError):
        as_transformers_4(written)


def test_where_both_dialects_stand_in_a_file_the_spelled_out_one_counts() -> None:
    """As in transformers 5."""
    both = {
        **BASE,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5.0}},
    }
    config = MODERNBERT.read_config(both)
    assert config.layer_kinds == (L, G)
    assert config.attention.rotary == RotaryConfig(5.0, 10_000.0)
    theirs = transformers.AutoConfig.for_model(**both)
    assert theirs.layer_types == both["layer_types"]
    assert theirs.rope_parameters["full_attention"]["rope_theta"] == 5.0
    assert theirs.rope_parameters["sliding_attention"]["rope_theta"] == 10_000.0


def test_a_position_kind_in_the_file_says_nothing() -> None:
    """mmBERT's says `sans_pos`; the published class reads no such key."""
    keys = {**BASE, "position_embedding_type": "sans_pos"}
    assert MODERNBERT.read_config(keys) == MODERNBERT.read_config(BASE)


REFUSED: list[tuple[dict[str, Any], type[BothwaysError], str]] = [
    (
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}},
        UnsupportedModelError,
        r"rope_parameters\.full_attention: rope_type is 'yarn'; only 'default'",
    ),
    (
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        UnsupportedModelError,
        "rope_scaling .*'linear'.*unscaled",
    ),
    ({"rope_parameters": {"rope_theta": 5.0}}, UnsupportedModelError, "rope_parameters is"),
    ({"layer_types": ["full_attention"]}, ConfigError, "1 layers; the encoder has 22"),
    ({"layer_types": ["chunked_attention"] * 22}, ConfigError, "a list of full_attention and"),
    ({"layer_types": "full_attention"}, ConfigError, "a list of full_attention and"),
    ({"local_attention": 1}, ConfigError, "local_attention is 1; .* at least 2"),
    ({"global_attn_every_n_layers": 0}, ConfigError, "global_attn_every_n_layers is 0"),
    ({"hidden_activation": "mish"}, UnsupportedModelError, "hidden_activation is 'mish'"),
    ({"num_attention_heads": 7}, ConfigError, "not divisible"),
]


@pytest.mark.parametrize(("keys", "error", "message"), REFUSED)
def test_what_is_not_built_is_refused_with_the_reason(
    keys: dict[str, Any], error: type[BothwaysError], message: str
) -> None:
    with pytest.raises(error, match=message):
        MODERNBERT.read_config({**BASE, **keys}, "my/config.json")


def test_heads_that_are_not_built_are_refused_when_they_are_asked_for(tmp_path: Path) -> None:
    make_pair(row(), "ModernBertForMaskedLM", tmp_path)
    edit_json(tmp_path / "config.json", decoder_bias=False)
    with pytest.raises(UnsupportedModelError, match=r"config\.json: decoder_bias is false"):
        load_parts(tmp_path)
    edit_json(tmp_path / "config.json", architectures=["ModernBertModel"])
    assert load_parts(tmp_path).head is None
    with pytest.raises(UnsupportedModelError, match="classifier_pooling is 'max'"):
        MODERNBERT.heads["ModernBertForSequenceClassification"].build(
            MODERNBERT.read_config(BASE), ConfigKeys({"classifier_pooling": "max"}), 2
        )


def test_a_head_of_other_values_changes_the_keys(tmp_path: Path) -> None:
    pair = make_pair(row(), "ModernBertForMaskedLM", tmp_path / "theirs")
    parts = adapt(pair.ours, new_head(pair.ours, "sequence", 3, pooling="mean"), labels="abc")
    assert parts.architecture == "ModernBertForSequenceClassification"
    save_parts(parts, tmp_path / "ours")
    again = load_parts(tmp_path / "ours")
    assert again.head is not None
    assert parts.head is not None
    assert describe_head(again.head) == describe_head(parts.head)
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["classifier_pooling"] == (
        "mean"
    )


def texts(lengths: list[int]) -> Batch:
    """Random ids, none of them the padding."""
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(4, 61, (sum(lengths),), generator=generator)
    return Batch(ids, Layout.packed(lengths))


def padded(batch: Batch) -> tuple[Tensor, Tensor]:
    rows = batch.layout.split(batch.ids)
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=3)
    return ids, (ids != 3).long()


def test_texts_of_many_windows_give_the_states_and_gradients_of_transformers(
    tmp_path: Path,
) -> None:
    """The window is 8: 100 tokens are worked on block by block, 20 with a mask, 5 without."""
    pair = make_pair(row(), "ModernBertModel", tmp_path)
    batch = texts([5, 100, 20, 33, 100, 97])
    ids, mask = padded(batch)
    theirs = pair.theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    ours = pair.ours.encoder(batch, all_hidden=True)
    assert ours.all_hidden is not None
    for mine, reference in zip(ours.all_hidden, theirs.hidden_states, strict=True):
        torch.testing.assert_close(mine, reference[mask.bool()], rtol=0, atol=ATOL)
    for states in (ours.last_hidden, theirs.last_hidden_state[mask.bool()]):
        torch.autograd.backward((states * torch.linspace(0.5, 1.5, 16)).sin().sum())
    for slot, reference, mine_of in pair.parameters():
        assert reference.grad is not None
        for name, gradient in slot.split(reference.grad).items():
            found = mine_of[name].grad
            assert found is not None
            scale = gradient.abs().max()
            torch.testing.assert_close(found / scale, gradient / scale, rtol=0, atol=ATOL)


def test_a_local_layer_reaches_64_tokens_each_way_and_no_further(tmp_path: Path) -> None:
    """On both sides of the border, in both libraries, in a text of several windows."""
    layers = {"layer_types": ["sliding_attention"], "num_hidden_layers": 1}
    pair = make_pair(row(**layers, local_attention=128), "ModernBertModel", tmp_path)
    batch = texts([400])
    middle = 200
    changed = {}
    for distance in (-65, -64, 0, 64, 65):
        ids = batch.ids.clone()
        ids[middle + distance] = (ids[middle + distance] - 3) % 57 + 4
        other = Batch(ids, batch.layout)
        with torch.no_grad():
            mine = [pair.ours.encoder(each).last_hidden[middle] for each in (batch, other)]
            reference = [
                pair.theirs(input_ids=each.ids[None]).last_hidden_state[0, middle]
                for each in (batch, other)
            ]
        changed[distance] = [not torch.equal(*mine), not torch.equal(*reference)]
    assert changed == {
        -65: [False, False],
        -64: [True, True],
        0: [True, True],
        64: [True, True],
        65: [False, False],
    }


def test_8192_tokens(tmp_path: Path) -> None:
    keys = {"num_hidden_layers": 2, "num_attention_heads": 1, "local_attention": 128}
    pair = make_pair(row(**keys), "ModernBertModel", tmp_path)
    batch = texts([8192, 3])
    theirs_model: Any = pair.theirs
    theirs_model.set_attn_implementation("sdpa")  # eager would hold all scores at once
    with torch.no_grad():
        ours = pair.ours.encoder(batch).last_hidden
        theirs = theirs_model(input_ids=batch.ids[None, :8192]).last_hidden_state[0]
    torch.testing.assert_close(ours[:8192], theirs, rtol=0, atol=FAR)
    with pytest.raises(LengthError, match="8193 tokens does not fit.*usable length 8192"):
        pair.ours.encoder(texts([8193]))


def test_no_mask_is_made_where_none_is_needed() -> None:
    """transformers#48925: a dense mask keeps the fast kernels away."""
    assert band(65, 64, torch.device("cpu")) is None
    assert band(66, 64, torch.device("cpu")) is not None
