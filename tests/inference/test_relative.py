"""Fast paths under attention of other kinds: relative terms, rotary positions, windows."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from bothways.inference import prepacked
from bothways.inference.invariance import is_bit_invariant
from bothways.model.config import EncoderConfig, RelativeConfig, RotaryConfig
from bothways.model.encoder import Encoder
from bothways.model.sentence import Pool, SentenceVector
from tests.inference.encoders import config, encoder, gated, threads
from tests.inference.test_prepacked import ROUNDING, check_fresh, copies, part, plain, states
from tests.inference.test_same_bits import THREADS, changed


def relative(axis: RelativeConfig, width: int = 48) -> EncoderConfig:
    base = config(width)
    attention = dataclasses.replace(base.attention, kind="disentangled")
    return dataclasses.replace(base, attention=attention, relative=axis)


def rotary(width: int = 48) -> EncoderConfig:
    """Local and global layers with gates."""
    base = gated(config(width, layers=2))
    attention = dataclasses.replace(
        base.attention, rotary=RotaryConfig(), layer_kinds=("global", "local"), window=20
    )
    return dataclasses.replace(base, attention=attention)


RELATIVE = {
    "own": RelativeConfig(max_distance=9),
    "shared": RelativeConfig(max_distance=256, buckets=8, shared_projections=True, normalised=True),
    "c2p": RelativeConfig(max_distance=9, terms=("c2p",), key_bias=False),
    "p2c": RelativeConfig(max_distance=300, terms=("p2c",)),
}


@pytest.fixture(params=RELATIVE.values(), ids=list(RELATIVE))
def model(request: pytest.FixtureRequest) -> Encoder:
    """An encoder with fast paths whose copies are made."""
    made = encoder(relative(request.param))
    prepacked.install(made)
    states(made)
    path = part(made, "layers.1.attention.relative").__dict__["project"]
    assert isinstance(path, prepacked.FastRelative)
    assert path._packed is not None
    return made


def test_the_numbers_are_those_of_the_plain_modules(model: Encoder) -> None:
    torch.testing.assert_close(states(model), plain(model), atol=ROUNDING, rtol=ROUNDING)


def test_the_projected_table_is_really_read(model: Encoder) -> None:
    path = part(model, "layers.0.attention.relative").__dict__["project"]
    before = states(model)
    path._packed = tuple(None if rows is None else -rows for rows in path._packed)
    assert not torch.allclose(states(model), before, atol=1e-3)


def test_a_changed_table_or_projection_is_seen(model: Encoder) -> None:
    names = [name for name, _ in model.named_parameters() if "relative" in name]
    # What all keys of a row have in common does not show, as the bias of relative keys.
    shared = "layers.0.attention.query.weight"
    for name in [*(n for n in names if not n.endswith("relative.key.bias")), shared]:
        before = states(model)
        with torch.no_grad():
            parameter = model.get_parameter(name)
            parameter.copy_(torch.randn_like(parameter))
        check_fresh(model, before)


def test_training_drops_the_copies(model: Encoder) -> None:
    model.train()
    with torch.no_grad():
        model_copies = copies(model)
        states(model)
    assert model_copies > 0
    assert copies(model) == 0


def test_dropout_that_a_user_turned_on_is_heard(model: Encoder) -> None:
    """Monte-Carlo dropout: evaluation with the dropout modules in training."""
    before = states(model)
    for index in range(2):
        part(model, f"layers.{index}.attention.relative.dropout").train()
    assert not torch.equal(states(model), before)


def test_adapters_on_the_content_projections_reach_the_distances() -> None:
    """Where they are shared, another query layer projects the distances too."""
    made = encoder(relative(RELATIVE["shared"]))
    prepacked.install(made)
    before = states(made)
    layer, wrapped = part(made, "layers.0.attention"), nn.Linear(48, 48)
    wrapped.load_state_dict(layer.query.state_dict())
    layer.query = nn.Sequential(nn.Identity(), wrapped)
    torch.testing.assert_close(states(made), before, atol=ROUNDING, rtol=ROUNDING)
    with torch.no_grad():
        wrapped.weight.mul_(2)
    check_fresh(made, before)


@pytest.mark.parametrize("count", THREADS)
@pytest.mark.parametrize(
    "shape", [relative(RELATIVE["shared"], 384), rotary(384)], ids=["relative", "rotary"]
)
def test_a_text_has_the_same_bits_in_any_batch(shape: EncoderConfig, count: int) -> None:
    """Also of texts longer than the rows that are worked on together, and than windows."""
    made = encoder(shape)
    prepacked.install(made)
    vector = SentenceVector(Pool(["mean"]))
    with threads(count):
        assert is_bit_invariant(made, vector)
        assert changed(made, vector) == [0]
