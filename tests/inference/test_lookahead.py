"""How much attention goes to later positions."""

from __future__ import annotations

import pytest
import torch

from bothways.inference.lookahead import lookahead
from bothways.inference.model import Model
from bothways.tokenization.encoding import Encoding
from tests.inference.encoders import config, encoder

# Shares are sums of float32 weights that add up to 1.
ROUNDING = 1e-5


def encoding(length: int) -> Encoding:
    ids = list(range(5, 5 + length))
    return Encoding(ids, [0] * length, [(0, 0)] * length, [None] * length, [False] * length)


def test_the_shares_of_each_layer_add_up() -> None:
    layers = lookahead(encoder(config(layers=3)), encoding(9))
    assert [each.layer for each in layers] == [1, 2, 3]
    for each in layers:
        assert each.later + each.itself + each.earlier == pytest.approx(1, abs=ROUNDING)
        assert min(each.later, each.itself, each.earlier) > 0


def test_uniform_attention_looks_both_ways_alike() -> None:
    model = encoder(config(layers=1))
    with torch.no_grad():
        for parameter in model.get_submodule("layers.0.attention.query").parameters():
            parameter.zero_()
    (layer,) = lookahead(model, encoding(8))
    assert layer.itself == pytest.approx(1 / 8, abs=ROUNDING)
    assert layer.later == pytest.approx(layer.earlier, abs=ROUNDING)


def test_one_token_sees_itself() -> None:
    for layer in lookahead(encoder(), encoding(1)):
        assert (layer.later, layer.itself, layer.earlier) == (0.0, 1.0, 0.0)


def test_the_mode_of_the_encoder_stays() -> None:
    model = encoder().train()
    once, again = (lookahead(model, encoding(6)) for _ in range(2))
    assert once == again, "dropout was on"
    assert model.training


def test_a_real_encoder_looks_ahead(real: Model) -> None:
    text = "The animal did not cross the street because it was too tired."
    layers = lookahead(real.encoder, real.tokenizer.encode(text))
    assert len(layers) == 6
    assert all(layer.later > 0.1 for layer in layers)
