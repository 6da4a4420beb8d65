"""Each axis of a configuration is used: another value gives other weights or other numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from bothways.errors import ConfigError
from bothways.model.config import (
    AttentionConfig,
    ConvolutionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    RelativeConfig,
    RotaryConfig,
    build_config,
)
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout
from tests.contracts.cases import (
    CASES,
    NAMES,
    base_config,
    change,
    describe_names,
    make_batch,
    make_encoder,
)

pytestmark = pytest.mark.usefixtures("unchecked")

LOCAL = {"attention__layer_kinds": ("local", "global"), "attention__window": 2}
RELATIVE = {"attention__kind": "disentangled", "relative": RelativeConfig(max_distance=5)}
CONVOLUTION = {"convolution": ConvolutionConfig()}
ROTARY = {"embeddings__positions": "none", "attention__rotary": RotaryConfig()}
SHARED = {"num_layers": 4, "num_layer_groups": 2}

# A start, and what is changed from it: everything named must have an effect.
EFFECTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"hidden_size": 32}),
    ({}, {"num_layers": 3}),
    ({}, {"pooler": False}),
    ({}, {"num_layer_groups": 1}),
    (SHARED, {"layers_per_group": 2}),
    ({}, {"embeddings__vocab_size": 38}),
    ({}, {"embeddings__size": 12}),
    ({}, {"embeddings__positions": "none"}),
    ({}, {"embeddings__positions": "sinusoidal"}),
    ({}, {"embeddings__max_positions": 20}),
    ({}, {"embeddings__position_start": 2}),
    ({}, {"embeddings__num_types": 0}),
    ({}, {"embeddings__norm": False}),
    ({"embeddings__norm": False}, {"embeddings__scale": 3.0}),
    ({}, {"embeddings__projection": "always"}),
    ({}, RELATIVE),
    (RELATIVE, {"relative__max_distance": 4}),
    (RELATIVE, {"relative__buckets": 4}),
    (RELATIVE, {"relative__terms": ("c2p",)}),
    (RELATIVE, {"relative__terms": ("p2c",)}),
    (RELATIVE, {"relative__shared_projections": True}),
    (RELATIVE, {"relative__normalised": True}),
    (RELATIVE, {"relative__key_bias": False}),
    ({}, CONVOLUTION),
    (CONVOLUTION, {"convolution__kernel": 5}),
    (CONVOLUTION, {"convolution__groups": 2}),
    (CONVOLUTION, {"convolution__activation": "relu"}),
    ({}, {"attention__num_heads": 6, "attention__head_size": 4}),
    ({}, {"attention__head_size": 6}),
    ({}, {"attention__bias": "no_key"}),
    ({}, {"attention__bias": "none"}),
    ({}, {"attention__layer_kinds": ("local", "global"), "attention__window": 1}),
    (LOCAL, {"attention__layer_kinds": ("global", "local")}),
    (LOCAL, {"attention__window": 3}),
    ({}, {"attention__rotary": RotaryConfig()}),
    (ROTARY, {"attention__rotary": RotaryConfig(global_theta=100.0)}),
    ({**LOCAL, **ROTARY}, {"attention__rotary": RotaryConfig(local_theta=100.0)}),
    ({}, {"feedforward__size": 41}),
    ({}, {"feedforward__activation": "relu"}),
    ({}, {"feedforward__activation": "gelu_tanh"}),
    ({}, {"feedforward__activation": "silu"}),
    ({}, {"feedforward__activation": "tanh"}),
    ({}, {"feedforward__activation": "identity"}),
    ({}, {"feedforward__gated": True}),
    ({}, {"feedforward__bias": False}),
    ({}, {"norm__placement": "pre"}),
    ({}, {"norm__eps": 1e-2}),
    ({}, {"norm__bias": False}),
    ({"norm__placement": "pre"}, {"norm__skip_first": True}),
    ({}, {"norm__final": True}),
]

# Rates are looked at in training, everything else dropped.
RATES = ["hidden", "attention", "layer", "activation", "attention_output", "feedforward_output"]


def numbers(config: EncoderConfig, *, train: bool = False) -> torch.Tensor:
    encoder = make_encoder(config).train(train)
    torch.manual_seed(3)
    states: torch.Tensor = encoder(make_batch(config, [7, 3, 7])).last_hidden
    return states


@pytest.mark.parametrize(
    ("start", "changed"), EFFECTS, ids=["-".join(map(str, new)) for _, new in EFFECTS]
)
def test_another_value_of_an_axis_has_an_effect(
    start: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = change(base_config(), **start)
    after = change(before, **changed)
    assert after != before
    if describe_names(Encoder(before)) == describe_names(Encoder(after)):
        assert (numbers(before) - numbers(after)).abs().max() > 1e-6


@pytest.mark.parametrize("rate", RATES)
def test_each_dropout_rate_acts_in_training_only(rate: str) -> None:
    none = change(base_config(), dropout=DropoutConfig(0.0, 0.0, 0.0))
    some = change(none, **{f"dropout__{rate}": 0.9})
    assert torch.equal(numbers(none, train=True), numbers(none))
    assert torch.equal(numbers(some), numbers(none))
    assert not torch.allclose(numbers(some, train=True), numbers(none))


def test_a_dropped_layer_passes_its_input_on() -> None:
    config = change(base_config(), dropout=DropoutConfig(0.0, 0.0, 0.0, layer=1 - 1e-9))
    output = make_encoder(config).train()(make_batch(config, [5, 2]), all_hidden=True)
    assert len(output.all_hidden) == 3
    assert all(torch.equal(states, output.all_hidden[0]) for states in output.all_hidden)


def test_the_cases_put_every_field_of_every_axis_at_two_values() -> None:
    """So that a new field cannot come in without a case, and no axis is right by luck."""
    seen: dict[str, set[Any]] = {}
    for config in CASES.values():
        for field in dataclasses.fields(EncoderConfig):
            part = getattr(config, field.name)
            if dataclasses.is_dataclass(part):
                for inner in dataclasses.fields(part):
                    key = f"{field.name}.{inner.name}"
                    seen.setdefault(key, set()).add(getattr(part, inner.name))
            elif part is not None:
                seen.setdefault(field.name, set()).add(part)
    assert not {name for name, values in seen.items() if len(values) < 2}


@pytest.mark.parametrize("name", CASES)
def test_the_names_of_the_weights_are_frozen(name: str) -> None:
    """Names are a format: folders, adapters and optimizer states are read by them."""
    stored = (NAMES / f"{name}.txt").read_text(encoding="utf-8")
    assert describe_names(Encoder(CASES[name])) == stored


def test_there_is_no_stored_list_without_a_case() -> None:
    assert {path.stem for path in NAMES.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_encoder_without_memory_has_the_same_names(name: str) -> None:
    with torch.device("meta"):
        encoder = Encoder(CASES[name])
    assert describe_names(encoder) == describe_names(Encoder(CASES[name]))
    assert all(tensor.is_meta for tensor in encoder.state_dict().values())
    assert encoder.num_parameters() == sum(p.numel() for p in set(encoder.parameters()))


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (EmbeddingsConfig, {"vocab_size": 0, "size": 0}, "'vocab_size': 0, 'size': 0"),
    (EmbeddingsConfig, {"vocab_size": 9, "size": 4, "max_positions": 0}, "max_positions"),
    (EmbeddingsConfig, {"vocab_size": 9, "size": 4, "num_types": -1}, "num_types"),
    (EmbeddingsConfig, {"vocab_size": 9, "size": 4, "positions": "learnt"}, "'?learnt.*sinusoidal"),
    (EmbeddingsConfig, {"vocab_size": 9, "size": 4, "position_start": 512}, "0 to 511"),
    (EmbeddingsConfig, {"vocab_size": 9, "size": 4, "pad_id": 9}, "9 rows"),
    (AttentionConfig, {"num_heads": 0, "head_size": 4}, "num_heads"),
    (AttentionConfig, {"num_heads": 1, "head_size": 4, "window": 0}, "window"),
    (AttentionConfig, {"num_heads": 1, "head_size": 4, "kind": "linear"}, "linear.*dot_product"),
    (AttentionConfig, {"num_heads": 1, "head_size": 4, "bias": "some"}, "some.*no_key"),
    (AttentionConfig, {"num_heads": 1, "head_size": 4, "layer_kinds": ("far",)}, "far.*local"),
    (AttentionConfig, {"num_heads": 1, "head_size": 5, "rotary": RotaryConfig()}, "even"),
    (RelativeConfig, {"max_distance": 0}, "max_distance"),
    (RelativeConfig, {"buckets": -1}, "buckets"),
    (RelativeConfig, {"terms": ("p2p",)}, "p2p.*c2p"),
    (ConvolutionConfig, {"kernel": 0}, "kernel"),
    (ConvolutionConfig, {"kernel": 4}, "is 4; expected an odd number"),
    (ConvolutionConfig, {"activation": "mish"}, "mish.*gelu"),
    (RelativeConfig, {"buckets": 1}, "at least 2.*'buckets': 1"),
    (FeedForwardConfig, {"size": 0}, "size"),
    (FeedForwardConfig, {"size": 8, "activation": "mish"}, "mish.*gelu"),
    (NormConfig, {"placement": "middle"}, "middle.*post"),
    (NormConfig, {"eps": -1.0}, "eps"),
    (DropoutConfig, {"hidden": 1.0, "layer": -0.1}, "'hidden': 1.0, 'layer': -0.1"),
    (base_config, {"hidden_size": 0}, "hidden_size"),
    (base_config, {"num_layers": 0}, "num_layers"),
    (base_config, {"layers_per_group": 0}, "layers_per_group"),
    (base_config, {"num_layer_groups": -1}, "num_layer_groups"),
    (base_config, {"num_layers": 3, "num_layer_groups": 2}, "not divisible"),
    (base_config, {"convolution": ConvolutionConfig(groups=5)}, r"\(24\) is not.*\(5\)"),
    (base_config, {"attention__layer_kinds": ("local",)}, "1 layers; the encoder has 2"),
    (base_config, {"relative": RelativeConfig()}, "'dot_product' do not go together"),
    (base_config, {"attention__kind": "disentangled"}, "needs them"),
]


@pytest.mark.parametrize(("axis", "values", "expected"), REFUSED)
def test_what_cannot_be_built_is_refused_with_the_value(
    axis: Any, values: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        change(axis(), **values) if axis is base_config else axis(**values)


def test_built_from_a_few_numbers() -> None:
    """Pre-norm, final norm, learned positions; one vector out per token in."""
    encoder = Encoder.build(vocab_size=50, hidden_size=32, num_heads=4, num_layers=2)
    assert encoder(make_batch(encoder.config, [3, 5])).last_hidden.shape == (8, 32)
    assert encoder.config.norm == NormConfig(placement="pre", eps=1e-5, final=True)
    assert encoder.config.feedforward.size == 4 * 32
    assert Encoder.build(vocab_size=9).config == build_config(
        vocab_size=9, hidden_size=512, num_heads=8, num_layers=6
    )
    assert encoder.embeddings.words.padding_idx is None  # nothing is padded: 0 is a word
    with pytest.raises(ConfigError, match=r"hidden_size \(30\).*num_heads \(4\)"):
        Encoder.build(vocab_size=50, hidden_size=30, num_heads=4)


def test_the_same_encoder_over_another_vocabulary() -> None:
    config = base_config().with_vocab_size(50)
    assert change(config, embeddings__vocab_size=37) == base_config()


def test_ids_without_a_row_are_named() -> None:
    encoder = Encoder.build(vocab_size=10, hidden_size=8, num_heads=2, num_layers=1)
    layout = Layout.packed([2])
    with pytest.raises(ConfigError, match=r"token ids go from 3 to 10; .* rows 0 to 9"):
        encoder(Batch(torch.tensor([3, 10]), layout))
    typed = Encoder(change(encoder.config, embeddings__num_types=2))
    batch = Batch(torch.tensor([3, 4]), layout, torch.tensor([0, 2]))
    with pytest.raises(ConfigError, match=r"type ids go from 0 to 2; .* rows 0 to 1"):
        typed(batch)
