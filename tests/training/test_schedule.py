"""The learning rate as a function of the step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.errors import UsageError
from bothways.training.schedule import (
    Schedule,
    ScheduleName,
    batch_ramp,
    cosine,
    linear,
    make_schedule,
    trapezoid,
)


def test_the_curve_by_hand() -> None:
    rate = linear(steps=10, warmup=0.2)
    assert [rate(step) for step in range(11)] == [
        0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0,
    ]  # fmt: skip


SHAPES: tuple[ScheduleName, ...] = ("linear", "cosine", "trapezoid")


@pytest.mark.parametrize("name", SHAPES)
@given(st.integers(1, 500), st.floats(0.0, 0.79))
def test_no_step_is_wasted_and_the_peak_is_reached(
    name: ScheduleName, steps: int, warmup: float
) -> None:
    rate: Schedule = make_schedule(name, steps=steps, warmup=warmup)
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


def test_the_cosine_by_hand() -> None:
    rate = cosine(steps=9, warmup=1 / 9)
    assert [round(rate(step), 6) for step in (0, 1, 3, 5, 7, 9)] == [
        1.0, 1.0, 0.853553, 0.5, 0.146447, 0.0,
    ]  # fmt: skip


def test_the_trapezoid_by_hand() -> None:
    rate = trapezoid(steps=10, warmup=0.2, decay=0.4)
    assert [round(rate(step), 6) for step in range(11)] == [
        0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0,
    ]  # fmt: skip


def test_a_trapezoid_without_a_stable_part_is_the_line() -> None:
    one, other = trapezoid(steps=20, warmup=0.1, decay=0.9), linear(steps=20, warmup=0.1)
    assert [one(step) for step in range(20)] == pytest.approx([other(step) for step in range(20)])


@pytest.mark.parametrize(
    ("warmup", "decay", "told"),
    [(0.1, 0.0, "decay is 0.0"), (0.5, 0.6, "more than the whole"), (1.5, 0.2, "warmup is 1.5")],
)
def test_impossible_trapezoids_are_refused(warmup: float, decay: float, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        trapezoid(steps=10, warmup=warmup, decay=decay)


@given(st.integers(1, 300), st.floats(0.0, 1.0), st.floats(0.01, 1.0))
def test_the_batch_grows_from_its_start_to_full_and_stays(
    steps: int, ramp: float, start: float
) -> None:
    share = batch_ramp(steps=steps, ramp=ramp, start=start)
    shares = [share(step) for step in range(steps + 1)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares[0] == (pytest.approx(start) if ramp > 0.0 else 1.0)


def test_impossible_ramps_are_refused() -> None:
    for ramp, start in ((1.5, 0.5), (-0.1, 0.5), (0.5, 0.0), (0.5, 1.1)):
        with pytest.raises(UsageError, match="batch ramp"):
            batch_ramp(steps=10, ramp=ramp, start=start)
