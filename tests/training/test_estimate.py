"""FLOPs counted by hand, and the machine's peak."""

from __future__ import annotations

import dataclasses

import torch

from bothways.model.config import RotaryConfig, build_config
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import ClassifyTask
from bothways.training.estimate import forward_flops, matrix_peak
from bothways.training.freezing import freeze
from bothways.training.objectives import TaskObjective
from tests.training.runs import Texts

CONFIG = build_config(vocab_size=10, hidden_size=8, num_heads=2, num_layers=3)


def test_by_hand() -> None:
    # A layer and token: 4 projections of 8 x 8, 2 of 8 x 32; scores and mixing 2 x 8 a pair.
    products = 5 * (4 * 8 * 8 + 2 * 8 * 32) + 2 * 8 * (2 * 2 + 3 * 3)
    assert forward_flops(CONFIG, [2, 3]) == 2 * 3 * products


def test_gated_and_local_layers() -> None:
    attention = dataclasses.replace(
        CONFIG.attention, layer_kinds=("global", "local", "local"), window=1, rotary=RotaryConfig()
    )
    gated = dataclasses.replace(
        CONFIG,
        attention=attention,
        feedforward=dataclasses.replace(CONFIG.feedforward, gated=True),
    )
    products = 10 * (4 * 8 * 8 + 3 * 8 * 32) * 3 + 2 * 8 * (10 * 10 + 2 * 10 * 3)
    assert forward_flops(gated, [10]) == 2 * products


def test_shared_layers_are_counted_each_time_they_run() -> None:
    shared = dataclasses.replace(CONFIG, num_layer_groups=1)
    assert forward_flops(shared, [4]) == forward_flops(CONFIG, [4])


def test_a_backward_pass_is_twice_a_forward_one_where_it_goes() -> None:
    batch = Texts.draw(3).batch([0, 1, 2])
    once = forward_flops(CONFIG, batch.layout.lengths)

    def flops(what: str | None) -> float:
        encoder = Encoder(CONFIG)
        freeze(encoder, what)
        head = ClassificationHead(8, 2, pooling="mean")
        return TaskObjective(encoder, head, ClassifyTask(labels=("a", "b"))).flops(batch)

    assert flops(None) == 3 * once
    assert flops("2") == once * (1 + 2 / 3)


def test_the_peak_is_measured_once_and_draws_no_random_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    peak = matrix_peak(torch.device("cpu"))
    assert torch.equal(torch.rand(1), expected)
    assert peak > 1e8  # any machine that runs this
    assert matrix_peak(torch.device("cpu")) == peak
