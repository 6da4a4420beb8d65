"""Dropout, judged by its statistics: rate, scale, independence, seed, gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from bothways.model.dropout import Dropout, dropout, keep_mask

COUNT = 400_000
# A share of COUNT independent draws is this many deviations off once in 3 million tries.
DEVIATIONS = 5.0
STEP = 1 / 65_536  # rates are multiples of it


def kept(rate: float, count: int = COUNT) -> Tensor:
    return keep_mask(torch.ones(count), rate) > 0


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.15, 0.5, 0.9, 0.999])
def test_the_share_dropped_is_the_rate(rate: float) -> None:
    tolerance = DEVIATIONS * math.sqrt(rate * (1 - rate) / COUNT) + STEP
    assert abs((~kept(rate)).double().mean().item() - rate) < tolerance


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_each_of_the_four_numbers_cut_from_one_draw_has_the_rate(rate: float) -> None:
    lanes = kept(rate).view(-1, 4).double().mean(0)
    tolerance = DEVIATIONS * math.sqrt(rate * (1 - rate) / (COUNT / 4)) + STEP
    assert ((1 - lanes) - rate).abs().max() < tolerance


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_decisions_are_independent_of_their_neighbours_and_of_the_next_call(rate: float) -> None:
    first, second = kept(rate).double(), kept(rate).double()
    tolerance = DEVIATIONS / math.sqrt(COUNT)
    pairs = {lag: (first[:-lag], first[lag:]) for lag in (1, 2, 3, 4, 5, 8, 64, 1024)}
    pairs[0] = (first, second)
    for lag, (left, right) in pairs.items():
        correlation = torch.corrcoef(torch.stack([left, right]))[0, 1].item()
        assert abs(correlation) < tolerance, lag


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.75])
def test_what_is_kept_is_scaled_so_that_the_expectation_stays(rate: float) -> None:
    values = torch.full((1_000,), 3.0, dtype=torch.float64)
    result = dropout(values, rate)
    steps = round(rate / STEP)
    exact = 3.0 / (1 - steps * STEP)
    assert torch.allclose(result[result > 0], torch.tensor(exact, dtype=torch.float64))
    assert exact == pytest.approx(3.0 / (1 - rate), rel=STEP / (1 - rate))


def test_the_gradient_is_the_mask_of_the_forward_pass() -> None:
    values = torch.randn(7, 11, 3, requires_grad=True)
    result = dropout(values, 0.4)
    torch.autograd.backward(result.sum())
    assert values.grad is not None
    assert torch.equal(values.grad * values.detach(), result.detach())
    assert 0 < (values.grad == 0).sum() < values.numel()


def test_masks_follow_the_global_seed() -> None:
    values = torch.ones(1_000)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append((dropout(values, 0.5), dropout(values, 0.5)))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[2][0])
    assert not torch.equal(results[0][0], results[0][1])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 5), (0,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_any_shape_and_type(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    result = dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert result.shape == shape
    assert result.dtype == dtype
    assert set(result.flatten().tolist()) <= {0.0, 2.0}


def test_values_that_do_not_lie_in_order_are_dropped_in_place() -> None:
    values = torch.arange(1.0, 13.0).view(3, 4).T
    result = dropout(values, 0.5)
    assert result.shape == (4, 3)
    assert torch.equal(result[result > 0], 2 * values[result > 0])


def test_rate_zero_draws_nothing() -> None:
    values = torch.ones(3)
    state = torch.get_rng_state()
    assert dropout(values, 0.0) is values
    assert torch.equal(torch.get_rng_state(), state)


def test_a_rate_next_to_one_is_finite() -> None:
    assert dropout(torch.ones(100_000), 1 - 1e-9).isfinite().all()


def test_the_module_acts_in_training_only() -> None:
    module = Dropout(0.5)
    values = torch.ones(1_000)
    assert module.eval()(values) is values
    share = (module.train()(values) == 0).double().mean()
    assert 0.4 < share < 0.6
    assert "0.5" in repr(module)
