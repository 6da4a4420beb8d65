"""What the learning curve answers."""

from __future__ import annotations

import pytest

from bothways.evaluation.result import Metric
from bothways.ladder.deciding import Bar
from bothways.ladder.more_labels import more_labels
from bothways.training.curve import CurvePoint

BAR = Bar("accuracy", 0.9, 1, 1)


def curve(*values: float, margin: float = 0.01) -> list[CurvePoint]:
    return [
        CurvePoint(
            share, int(share * 1000), "accuracy", Metric(value, value - margin, value + margin)
        )
        for share, value in zip((0.25, 0.5, 1.0), values, strict=True)
    ]


def test_gains_that_do_not_shrink_reach_the_target() -> None:
    found = more_labels(curve(0.70, 0.77, 0.84), BAR)
    assert "0.9 is reached at about 2,000 examples" in found.text
    assert found.numbers["foretold"] == pytest.approx(0.91)


def test_gains_that_shrink_fast_do_not() -> None:
    found = more_labels(curve(0.60, 0.70, 0.72), BAR)
    # 0.02 times 0.2, 0.04 and 0.008.
    assert found.numbers["foretold"] == pytest.approx(0.72 + 0.02 * 0.248)
    assert "not to 0.9" in found.text
    assert "8,000 examples" in found.text


def test_no_gain_is_said() -> None:
    assert "not seen to help" in more_labels(curve(0.7, 0.8, 0.8), BAR).text


def test_a_gain_within_chance_is_called_so() -> None:
    assert "may be chance" in more_labels(curve(0.7, 0.75, 0.77, margin=0.05), BAR).text


def test_errors_that_fall_are_gains_too() -> None:
    points = [
        CurvePoint(share, int(share * 100), "mae", Metric(value))
        for share, value in ((0.25, 1.0), (0.5, 0.8), (1.0, 0.6))
    ]
    found = more_labels(points, Bar("mae", 0.5, -1, 1))
    assert "0.5 is reached at about 200 examples" in found.text
