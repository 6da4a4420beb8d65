"""Runs on paper: published ones come out right, and impossible ones are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bothways.cli.commands import plan as command
from bothways.errors import UsageError
from bothways.families.presets import PRESETS, generator_of, preset
from bothways.training.estimate import forward_flops
from bothways.training.plan import (
    DEVICES,
    HIGH,
    LOW,
    PlanSettings,
    parse_count,
    parse_device,
    plan_run,
    training_flops,
)


def test_modernbert_base_takes_the_published_hours() -> None:
    """Warner et al. 2024: 1.72 trillion tokens on 8 H100 in 191 hours; about 26 % of peak."""
    plan = plan_run(PlanSettings("modern-base", "1.72T", "h100x8", length=1024, utilisation=LOW))
    assert plan.run.hours == pytest.approx(191, rel=0.03)
    assert plan.run.hours_low == plan.run.hours == plan.run.hours_high


def test_bert_large_reaches_the_published_share_of_peak() -> None:
    """NVIDIA's phase 1: 580 sequences of 128 tokens a second on an A100; 15 % masked."""
    flops = training_flops(preset("bert-large"), 128, 0.15)
    share = 580 * 128 * flops / DEVICES["a100"].peak
    assert share == pytest.approx(HIGH, rel=0.03)


def test_the_numbers_of_a_run_go_together() -> None:
    plan = plan_run(PlanSettings("bert-base", "3.3B", device="h200x8", price=4.0))
    assert plan.run.tokens == 3.3e9
    assert plan.run.flops == pytest.approx(3.3e9 * plan.flops_per_token)
    assert plan.run.hours_low < plan.run.hours < plan.run.hours_high
    assert plan.run.cost == pytest.approx(plan.run.hours * 8 * 4.0)
    assert plan.parameters == pytest.approx(109.5e6, rel=1e-3)
    assert plan.state_bytes == plan.parameters * 16
    one = plan_run(PlanSettings("bert-base", "3.3B", device="h200", price=4.0))
    assert one.run.hours == pytest.approx(8 * plan.run.hours)
    assert one.run.cost == pytest.approx(plan.run.cost)


def test_memory_decides_what_fits() -> None:
    settings = PlanSettings("bert-large", "3.3B", device="t4x8", batch_tokens=8192, length=128)
    plan = plan_run(settings)
    assert (plan.fits, plan.fits_sharded) == (True, True)
    wide = plan_run(dataclasses.replace(settings, batch_tokens=14_000))
    assert (wide.fits, wide.fits_sharded) == (False, True)
    wider = plan_run(dataclasses.replace(settings, batch_tokens=65_536))
    assert (wider.fits, wider.fits_sharded) == (False, False)


def test_detection_counts_the_generator_and_masks_count_the_vocabulary() -> None:
    config = preset("electra-small")
    both = [forward_flops(each, [128]) for each in (config, generator_of(config))]
    one = 3 * (sum(both) + 2 * 19 * 128 * (64 + 30_522 + 192)) / 128
    assert training_flops(config, 128, 0.15) == pytest.approx(one, rel=0.01)
    base = preset("bert-base")
    more = training_flops(base, 128, 0.3) - training_flops(base, 128, 0.15)
    tokens = round(128 * 0.3) - round(128 * 0.15)
    assert more == pytest.approx(3 * 2 * tokens / 128 * 768 * (768 + 30_522))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_plan(name: str) -> None:
    plan = plan_run(PlanSettings(name, "1B", device="l4"))
    assert plan.run.hours > 0


def test_what_fine_tuning_would_take_stands_beside_it() -> None:
    output = command.run(
        command.Settings("bert-base", "3.3B", device="a100x4", compare_finetune=True)
    )
    assert isinstance(output.text, str)
    assert "utilisation between that of ModernBERT-base" in output.text
    assert "times the work of fine-tuning a published encoder" in output.text
    assert isinstance(output.data, dict)
    finetune = output.data["finetune"]
    assert finetune["tokens"] == 10_000 * 3 * 512
    assert output.data["run"]["hours"] > 100 * finetune["hours"]
    assert "finetune" not in str(command.run(command.Settings("bert-base", "3.3B")).text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3.3B", 3.3e9), ("500M", 5e8), ("1.72t", 1.72e12), ("10k", 1e4), ("1_000", 1e3)],
)
def test_numbers_of_tokens(text: str, value: float) -> None:
    assert parse_count(text) == value


@pytest.mark.parametrize(
    ("text", "kind", "count"),
    [("h200x8", "h200", 8), ("A100", "a100", 1), ("rtx4090x2", "rtx4090", 2)],
)
def test_devices(text: str, kind: str, count: int) -> None:
    assert parse_device(text) == (kind, count, DEVICES[kind])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"preset": "bert_base"}, "did you mean 'bert-base'"),
        ({"tokens": "3.3X"}, "no number of tokens"),
        ({"tokens": "0"}, "no number of tokens"),
        ({"device": "h20x8"}, "did you mean 'h200'"),
        ({"device": "h200x0"}, "no device"),
        ({"length": 1024}, "reads at most 512"),
        ({"mask_share": 1.0, "epochs": 0}, r"--epochs is 0.*--mask-share is 1\.0"),
        ({"utilisation": 35.0}, "--utilisation is 35"),
        ({"price": -1.0}, "--price is -1"),
    ],
)
def test_impossible_plans_are_refused(changes: dict[str, Any], told: str) -> None:
    settings = dataclasses.replace(PlanSettings("bert-base", "3.3B"), **changes)
    with pytest.raises(UsageError, match=told):
        plan_run(settings)
