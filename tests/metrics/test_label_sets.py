"""Scores of sets of labels beside scikit-learn's, and the thresholds that suit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, log_loss

from bothways.metrics.label_sets import LabelSets, best_threshold


def drawn(count: int, labels: int, seed: int) -> LabelSets:
    """Random sets; probabilities of one decimal, so that many are equal."""
    random = np.random.default_rng(seed)
    truth = random.random((count, labels)) < 0.3
    probabilities = np.round(random.random((count, labels)), 1)
    return LabelSets(truth, probabilities >= 0.6, probabilities)


@pytest.mark.parametrize("resampled", [False, True])
def test_scores_are_scikit_learn_s_also_of_resamples(resampled: bool) -> None:
    sets = drawn(60, 5, seed=1)
    some = np.random.default_rng(2).integers(0, 60, 60) if resampled else np.arange(60)
    truth, predicted = sets.truth[some], sets.predicted[some]
    scores = sets.scores(some if resampled else None)
    assert truth.any(0).all()  # a label without examples is left out here and counts as 0 there
    expected = {
        "average_precision": average_precision_score(truth, sets.probabilities[some]),
        "f1_micro": f1_score(truth, predicted, average="micro"),
        "f1_macro": f1_score(truth, predicted, average="macro"),
        "accuracy": accuracy_score(truth, predicted),
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


def test_the_loss_is_the_mean_over_texts_and_labels() -> None:
    sets = drawn(20, 3, seed=3)
    clipped = np.clip(sets.probabilities, 1e-12, 1 - 1e-12)
    inside = LabelSets(sets.truth, sets.predicted, clipped)
    expected = log_loss(sets.truth.ravel(), clipped.ravel(), labels=[False, True])
    assert inside.scores()["loss"] == pytest.approx(expected)


def test_labels_that_do_not_occur_are_left_out_of_means() -> None:
    truth = np.array([[True, False], [True, False]])
    sets = LabelSets(truth, truth, truth.astype(float))
    assert sets.scores()["average_precision"] == 1.0
    assert sets.scores()["f1_macro"] == 1.0
    assert np.isnan(sets.label_average_precision()[1])
    assert sets.counts().tolist() == [[2, 0], [2, 0], [2, 0]]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5001, 0.9]), st.booleans()), min_size=1)
)
def test_no_threshold_has_a_better_f1(rows: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in rows])
    truth = np.array([true for _, true in rows])

    def f1(threshold: float) -> float:
        said = scores >= threshold
        return float(2 * (said & truth).sum() / max(said.sum() + truth.sum(), 1))

    chosen = best_threshold(scores, truth)
    if not truth.any():
        assert chosen == 0.5
    assert f1(chosen) == max(f1(t) for t in (0.0, 0.1, 0.3, 0.5, 0.50005, 0.7, 1.0))


def test_where_half_is_as_good_it_stays_half() -> None:
    assert best_threshold(np.array([0.1, 0.9]), np.array([False, True])) == 0.5
