"""Scores of labels: by hand, and the fast counts against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.metrics.classification import (
    SMALLEST_PROBABILITY,
    Confusion,
    accuracy,
    confusion_matrix,
    f1_macro,
    f1_micro,
    label_scores,
    log_losses,
)

LABELS = ("a", "b", "c")
TRUTH = ["a", "a", "a", "b", "b", "c"]
SAID = ["a", "a", "b", "b", "c", "c"]
# The same float64 sums in another order.
ROUNDING = 1e-12


def test_scores_by_hand() -> None:
    assert accuracy(TRUTH, SAID) == pytest.approx(4 / 6)
    assert f1_micro(TRUTH, SAID) == pytest.approx(4 / 6)
    # a: P 1, R 2/3; b: P 1/2, R 1/2; c: P 1/2, R 1.
    assert f1_macro(TRUTH, SAID) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)


def test_scores_of_each_label_by_hand() -> None:
    first, second, third = label_scores(TRUTH, SAID, LABELS)
    assert (first.label, first.support) == ("a", 3)
    assert (first.precision, first.recall, first.f1) == pytest.approx((1.0, 2 / 3, 0.8))
    assert (second.precision, second.recall, second.f1) == pytest.approx((0.5, 0.5, 0.5))
    assert (third.precision, third.recall, third.f1) == pytest.approx((0.5, 1.0, 2 / 3))


def test_a_label_that_occurs_nowhere_scores_zero_without_a_warning() -> None:
    (score,) = label_scores(TRUTH, SAID, ["d"])
    assert (score.precision, score.recall, score.f1, score.support) == (0, 0, 0, 0)


def test_rows_of_the_confusion_matrix_are_true_labels() -> None:
    expected = [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert confusion_matrix(TRUTH, SAID, LABELS).tolist() == expected
    assert Confusion(TRUTH, SAID, LABELS).counts().tolist() == expected


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_fast_counts_equal_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    fast = Confusion(truth, said, LABELS)
    expected = {
        "accuracy": accuracy(truth, said),
        "f1_macro": f1_macro(truth, said),
        "f1_micro": f1_micro(truth, said),
    }
    assert fast.scores() == pytest.approx(expected, abs=ROUNDING)
    by_label = [score.f1 for score in label_scores(truth, said, LABELS)]
    assert fast.label_f1().tolist() == pytest.approx(by_label, abs=ROUNDING)


def test_fast_counts_of_a_resample_equal_scikit_learn_on_it() -> None:
    generator = np.random.default_rng(0)
    labels = [f"label {number}" for number in range(30)]
    truth = generator.choice(labels, 200).tolist()
    said = np.where(generator.random(200) < 0.6, truth, generator.choice(labels, 200)).tolist()
    fast = Confusion(truth, said, labels)
    draws = [generator.integers(0, 200, 60) for _ in range(20)]
    # The case that matters occurs: a draw without some label.
    assert any(len({truth[i] for i in some} | {said[i] for i in some}) < 30 for some in draws)
    for some in draws:
        drawn = [truth[i] for i in some], [said[i] for i in some]
        scores = fast.scores(some)
        assert scores["f1_macro"] == pytest.approx(f1_macro(*drawn), abs=ROUNDING)
        assert scores["accuracy"] == pytest.approx(accuracy(*drawn), abs=ROUNDING)


def test_an_unknown_label_is_no_silent_zero() -> None:
    with pytest.raises(KeyError, match="d"):
        Confusion(["d"], ["a"], LABELS)


def test_log_losses_are_in_nats_and_finite() -> None:
    losses = log_losses([1.0, 0.5, 0.0])
    assert losses[:2].tolist() == pytest.approx([0.0, math.log(2)])
    assert losses[2] == pytest.approx(-math.log(SMALLEST_PROBABILITY))
