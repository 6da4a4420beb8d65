"""The official score of SemEval-2010 task 8, on predictions worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bothways.metrics.relations import Relations, relation_of

A1, A2, B1, B2 = "A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "B(e2,e1)"
LABELS = [A1, A2, B1, B2, "Other"]


def test_relations_without_their_direction() -> None:
    assert [relation_of(label) for label in (*LABELS, "C")] == ["A", "A", "B", "B", "Other", "C"]


def test_the_official_score_by_hand() -> None:
    truth = [A1, A1, A2, A2, B1, B1, B2, "Other", "Other", "Other"]
    said = [A1, A2, A2, "Other", B1, A1, B2, "Other", B2, A1]
    found = Relations(truth, said, LABELS)
    # A: 2 right (a turned one is not), 5 predicted, 4 true. B: 2 right, 3 predicted, 3 true.
    assert found.f1().tolist() == pytest.approx([2 * 2 / (5 + 4), 2 * 2 / (3 + 3)])
    assert found.score() == pytest.approx((4 / 9 + 2 / 3) / 2)


def test_right_in_all_and_wrong_in_all() -> None:
    truth = [A1, B2, "Other"]
    assert Relations(truth, truth, LABELS).score() == 1.0
    assert Relations(truth, [A2, B1, A1], LABELS).score() == 0.0


def test_a_relation_that_does_not_occur_counts_as_nothing_found() -> None:
    assert Relations([A1], [A1], LABELS).score() == 0.5
    assert math.isnan(Relations(["Other"], ["Other"], ["Other"]).score())


def test_without_directions_it_is_the_macro_f1_without_other() -> None:
    generator = np.random.default_rng(0)
    labels = ["A", "B", "C", "Other"]
    truth, said = (generator.choice(labels, 80).tolist() for _ in range(2))
    expected = f1_score(truth, said, labels=labels[:3], average="macro")
    assert Relations(truth, said, labels).score() == pytest.approx(expected)
    some = generator.integers(0, 80, 80)
    again = Relations([truth[i] for i in some], [said[i] for i in some], labels)
    assert Relations(truth, said, labels).score(some) == again.score()
