"""What a model takes: measured numbers go together, and paper is arithmetic on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.errors import UsageError
from bothways.training.estimate import forward_flops
from bothways.training.plan import DEVICES, USUAL, PlanSettings
from bothways.training.plan_use import UsePlan, plan_use
from bothways.training.runtime import Runtime

TEXTS = [f"text {number} about nothing much " + "and so on " * (number % 7) for number in range(40)]


@pytest.fixture(scope="module")
def plan(minilm: Path) -> UsePlan:
    from bothways.inference.model import load

    model = load(minilm)
    settings = PlanSettings(device="h100x2", examples=5000, epochs=4, price=1.5)
    return plan_use(model, TEXTS, settings, policy=model.policy(64), runtime=Runtime(device="cpu"))


def test_every_rate_is_within_its_range_and_gives_its_hours_and_cost(plan: UsePlan) -> None:
    assert [(rate.work, rate.where) for rate in plan.rates] == [
        ("inference", "here"),
        ("finetune", "here"),
        ("inference", "h100x2"),
        ("finetune", "h100x2"),
    ]
    for rate in plan.rates:
        texts = 5000 * (4 if rate.work == "finetune" else 1)
        price = 1.5 * (1 if rate.where == "here" else 2)
        assert 0 < rate.low <= rate.texts_per_hour <= rate.high
        assert rate.hours == pytest.approx(texts / rate.texts_per_hour)
        assert rate.cost == pytest.approx(rate.hours * price)


def test_learning_from_a_text_takes_longer_than_reading_it(plan: UsePlan) -> None:
    reading, learning, reading_there, learning_there = plan.rates
    assert learning.texts_per_hour < reading.texts_per_hour
    assert reading_there.texts_per_hour == pytest.approx(3 * learning_there.texts_per_hour)


def test_paper_is_flops_over_peak(plan: UsePlan, minilm: Path) -> None:
    from bothways.inference.model import load

    model = load(minilm)
    lengths = [len(row) for row in model.tokenizer.encode_ids(TEXTS, policy=None)[0]]
    flops = forward_flops(model.encoder.config, lengths) / len(TEXTS)
    assert plan.sample == len(TEXTS)
    assert plan.tokens_per_text == pytest.approx(sum(lengths) / len(TEXTS))
    assert plan.flops_per_text == pytest.approx(flops)
    expected = 3600 * 2 * DEVICES["h100"].peak * USUAL / flops
    assert plan.rates[2].texts_per_hour == pytest.approx(expected)


def test_windows_are_refused(minilm: Path) -> None:
    from bothways.inference.model import load

    model = load(minilm)
    with pytest.raises(UsageError, match="windows"):
        plan_use(
            model,
            TEXTS,
            PlanSettings(),
            policy=model.policy(64, "windows"),
            runtime=Runtime(device="cpu"),
        )
