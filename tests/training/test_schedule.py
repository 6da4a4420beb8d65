"""The learning rate as a function of the step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.errors import UsageError
from bothways.training.schedule import linear


def test_the_curve_by_hand() -> None:
    rate = linear(steps=10, warmup=0.2)
    assert [rate(step) for step in range(11)] == [
        0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0,
    ]  # fmt: skip


@given(st.integers(1, 500), st.floats(0.0, 0.99))
def test_no_step_is_wasted_and_the_peak_is_reached(steps: int, warmup: float) -> None:
    rate = linear(steps=steps, warmup=warmup)
    rates = [rate(step) for step in range(steps)]
    assert all(0.0 < value <= 1.0 for value in rates)
    assert max(rates) == 1.0
    peak = rates.index(1.0)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rate(steps) == 0.0


def test_the_default_warms_up_six_in_a_hundred() -> None:
    rate = linear(steps=100)
    assert rate(5) == 1.0
    assert rate(4) < 1.0


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"warmup is 1\.0"):
        linear(steps=10, warmup=1.0)
    with pytest.raises(UsageError, match="0 steps"):
        linear(steps=0)
