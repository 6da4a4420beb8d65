"""New weights, judged by their statistics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from bothways.model.embeddings import SinusoidalPositions, sinusoidal_table
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead
from bothways.model.init import initialise

DEVIATION = 0.05
# Mean and spread of n normal numbers are this many standard errors off once in 3 million tries.
ERRORS = 5.0


def test_weights_are_normal_biases_zero_and_norms_one() -> None:
    module = nn.ModuleDict(
        {
            "linear": nn.Linear(300, 200),
            "table": nn.Embedding(300, 200, padding_idx=7),
            "norm": nn.LayerNorm(200),
            "plain": nn.Linear(200, 100, bias=False),
            "bare": nn.LayerNorm(200, bias=False),
        }
    )
    initialise(module, DEVIATION)
    weights = module.state_dict()
    pad = weights["table.weight"][7]
    assert not pad.any()
    for name in ("linear", "table", "plain"):
        values = weights[f"{name}.weight"]
        values = values[values.abs().sum(1) > 0].flatten()
        count = len(values)
        assert abs(values.mean()) < ERRORS * DEVIATION / math.sqrt(count)
        assert abs(values.std() - DEVIATION) < ERRORS * DEVIATION / math.sqrt(2 * count)
        assert (values.abs() < 2 * DEVIATION).double().mean() == pytest.approx(0.954, abs=0.01)
    assert not weights["linear.bias"].any()
    assert not weights["norm.bias"].any()
    assert (weights["norm.weight"] == 1).all()
    assert (weights["bare.weight"] == 1).all()


def test_an_encoder_starts_with_the_configured_spread_and_follows_the_seed() -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(Encoder.build(vocab_size=500, hidden_size=64, num_layers=1))
    first, again, other = (encoder.state_dict() for encoder in drawn)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embeddings.words.weight"], other["embeddings.words.weight"])
    spread = first["embeddings.words.weight"].std().item()
    assert spread == pytest.approx(drawn[0].config.initializer_range, rel=0.05)


def test_a_generator_decides_alone() -> None:
    head = MaskedLMHead(8, 8, 20)
    results = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        initialise(head, DEVIATION, torch.Generator().manual_seed(9))
        assert head.dense is not None
        results.append(head.dense.weight.clone())
    assert torch.equal(results[0], results[1])


def test_sinusoids_are_as_published_and_stay_when_all_else_is_drawn_anew() -> None:
    rows, size = 9, 6
    table = SinusoidalPositions(rows, size)
    initialise(table, DEVIATION)
    for position in range(rows):
        for column in range(size):
            angle = position / 10_000 ** (2 * (column // 2) / size)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table.weight[position, column].item() == pytest.approx(expected, abs=1e-6)
    assert not table.weight.requires_grad
    assert sinusoidal_table(3, 5).shape == (3, 5)


def test_a_frozen_table_of_words_is_not_taken_for_positions() -> None:
    table = nn.Embedding(50, 6)
    table.weight.requires_grad_(False)
    initialise(table, DEVIATION)
    assert not torch.equal(table.weight, sinusoidal_table(50, 6))
