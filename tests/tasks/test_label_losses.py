"""Losses over labels beside torch's own and hand-computed ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from bothways.errors import UsageError
from bothways.tasks.label_losses import LabelLoss, classifier_fields

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, 0.3]])
TRUTH = torch.tensor([0, 2])
COUNTS = {"a": 1, "b": 2, "c": 3}


def of_one(**settings: Any) -> float:
    loss = LabelLoss(**settings).fitted(COUNTS)
    return float(loss.of_one(LOGITS.log_softmax(-1), TRUTH))


def test_plain_is_torch_s_cross_entropy() -> None:
    assert of_one() == pytest.approx(float(F.cross_entropy(LOGITS, TRUTH, reduction="sum")))


def test_smoothing_and_weights_are_torch_s() -> None:
    """transformers#35061, #1755: class weights need a subclass there."""
    weights = torch.tensor([2.0, 1.0, 2 / 3])
    expected = F.cross_entropy(LOGITS, TRUTH, weight=weights, label_smoothing=0.1, reduction="sum")
    found = of_one(class_weights=("balanced",), smoothing=0.1)
    assert found == pytest.approx(float(expected))


def test_balanced_weights_make_labels_equal_and_keep_the_size_of_the_loss() -> None:
    weights = LabelLoss(class_weights=("balanced",)).fitted(COUNTS).weights
    shares = [weight * count for weight, count in zip(weights, COUNTS.values(), strict=True)]
    assert shares == pytest.approx([2.0, 2.0, 2.0])


def test_named_weights_have_the_mean_one_over_the_texts() -> None:
    loss = LabelLoss(class_weights=("c=3",)).fitted(COUNTS)
    assert loss.weights == pytest.approx((0.5, 0.5, 1.5))


def test_focal_charges_by_what_is_missing() -> None:
    probabilities = LOGITS.softmax(-1)
    chosen = [float(probabilities[0, 0]), float(probabilities[1, 2])]
    expected = sum(-math.log(p) * (1 - p) ** 2 for p in chosen)
    assert of_one(kind="focal") == pytest.approx(expected)
    assert of_one(kind="focal", gamma=0.0) == pytest.approx(of_one())


def test_sets_are_charged_label_by_label() -> None:
    truth = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    plain = float(LabelLoss().of_sets(LOGITS, truth))
    assert plain == pytest.approx(2 * float(F.binary_cross_entropy_with_logits(LOGITS, truth)))
    loss = LabelLoss(class_weights=("balanced",)).fitted_to_sets(COUNTS, 4)
    assert loss.weights == (3.0, 1.0, 1 / 3)
    p = torch.sigmoid(LOGITS)
    right = truth * p + (1 - truth) * (1 - p)
    focal = float((-(right.log()) * (1 - right) ** 2).mean(1).sum())
    assert float(LabelLoss(kind="focal").of_sets(LOGITS, truth)) == pytest.approx(focal)


def test_certain_logits_have_finite_losses_and_gradients() -> None:
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    for kind in ("cross-entropy", "focal"):
        loss = LabelLoss(kind=kind)
        single = loss.of_one(logits.log_softmax(-1), torch.tensor([1]))
        several = loss.of_sets(logits, torch.tensor([[0.0, 1.0]]))
        (gradient,) = torch.autograd.grad(single + several, logits)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": -1.0}, "--focal-gamma is -1.0"),
        ({"smoothing": 1.0}, "--label-smoothing is 1.0"),
        ({"kind": "focal", "smoothing": 0.1}, "--loss focal or --label-smoothing"),
        ({"gamma": 3.0}, "--focal-gamma is for --loss focal"),
        ({"class_weights": ("balancd",)}, "'balancd'; expected balanced, or label=weight"),
        ({"class_weights": ("a=0",)}, "'a=0'"),
    ],
)
def test_what_cannot_be_is_refused_by_its_flag(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LabelLoss(**settings)


def test_a_weight_of_a_label_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match=r"names 'aa'.*did you mean 'a'"):
        LabelLoss(class_weights=("aa=2",)).fitted({"a": 1, "b": 1})


def test_the_settings_say_which_task_classifies() -> None:
    flags: dict[str, object] = {
        "multi_label": False,
        "label_separator": "|",
        "class_weights": (),
        "loss": "focal",
        "focal_gamma": 1.0,
        "label_smoothing": 0.0,
    }
    assert classifier_fields(flags) == ("classify", {"label_loss": LabelLoss("focal", 1.0)})
    name, fields = classifier_fields(flags | {"multi_label": True})
    assert (name, fields["label_separator"]) == ("multi-label", "|")
