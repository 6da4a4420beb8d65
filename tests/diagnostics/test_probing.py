"""Probes, neighbours and the geometry of vectors, beside scikit-learn and numbers known before."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from bothways.diagnostics import probing
from bothways.diagnostics.probing import (
    FOLDS,
    folds_of,
    geometry,
    neighbour_votes,
    probe,
    similarities,
)
from bothways.evaluation.intervals import Units

COUNT, WIDTH = 90, 12


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    draw = np.random.default_rng(0)
    return (draw.normal(size=(COUNT, WIDTH)) * np.arange(1, WIDTH + 1) + 3).astype(np.float32)


@pytest.fixture(scope="module")
def targets(vectors: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).normal(size=COUNT)
    return np.eye(3)[np.digitize(vectors[:, 4] + noise, [0, 5])]


def test_groups_lie_in_one_fold_and_folds_are_even() -> None:
    groups = [number // 3 for number in range(120)]
    folds = folds_of(Units.of(120, groups), np.random.default_rng(0))
    assert all(len(set(folds[3 * number : 3 * number + 3])) == 1 for number in range(40))
    assert np.bincount(folds).tolist() == [12] * FOLDS


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_the_probe_is_ridge_regression_learned_without_the_fold(
    vectors: np.ndarray, targets: np.ndarray, strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "STRENGTHS", (strength,))
    folds = folds_of(Units.of(COUNT), np.random.default_rng(0))
    found = probe(vectors, targets, folds)
    scaled = StandardScaler().fit_transform(vectors)
    for fold in range(FOLDS):
        inside = folds == fold
        model = Ridge(alpha=strength * COUNT).fit(scaled[~inside], targets[~inside])
        np.testing.assert_allclose(found[inside], model.predict(scaled[inside]), atol=1e-4)


def test_the_strength_with_the_least_held_out_error_is_taken(targets: np.ndarray) -> None:
    noise = np.random.default_rng(2).normal(size=(COUNT, 60)).astype(np.float32)
    folds = folds_of(Units.of(COUNT), np.random.default_rng(0))
    assert np.abs(probe(noise, targets, folds) - targets.mean(0)).max() < 0.3
    assert (probe(targets.astype(np.float32), targets, folds).argmax(1) == targets.argmax(1)).all()


def test_vectors_that_are_all_alike_tell_nothing(targets: np.ndarray) -> None:
    folds = folds_of(Units.of(COUNT), np.random.default_rng(0))
    found = probe(np.ones((COUNT, 5), np.float32), targets, folds)
    for fold in range(FOLDS):
        np.testing.assert_allclose(
            found[folds == fold], np.tile(targets[folds != fold].mean(0), (9, 1)), atol=1e-5
        )


def test_neighbours_are_those_of_scikit_learn_outside_the_fold(
    vectors: np.ndarray, targets: np.ndarray
) -> None:
    folds = folds_of(Units.of(COUNT), np.random.default_rng(0))
    votes = neighbour_votes(similarities(vectors), targets, folds)
    for fold in range(FOLDS):
        inside = folds == fold
        model = KNeighborsClassifier(probing.NEIGHBOURS, metric="cosine")
        model.fit(vectors[~inside], targets[~inside].argmax(1))
        np.testing.assert_allclose(votes[inside], model.predict_proba(vectors[inside]), atol=1e-6)


def test_isotropic_vectors_have_no_common_direction_and_fill_their_dimensions() -> None:
    draw = np.random.default_rng(0)
    even = draw.normal(size=(600, 20)).astype(np.float32)
    found = geometry(even, similarities(even))
    assert abs(found.cosine) < 0.01
    assert 19 < found.dimensions <= 20
    flat = even * np.r_[np.ones(2), np.full(18, 0.01)].astype(np.float32)
    assert geometry(flat, similarities(flat)).dimensions == pytest.approx(2, abs=0.05)
    apart = even + 5
    assert geometry(apart, similarities(apart)).cosine == pytest.approx(25 / 26, abs=0.01)
    # In many dimensions what lies near the mean is near to all: hubs.
    assert found.hubness < 1.5
    wide = draw.normal(size=(600, 200)).astype(np.float32)
    assert geometry(wide, similarities(wide + 5)).hubness > found.hubness
