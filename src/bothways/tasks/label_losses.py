"""Losses over labels: cross-entropy, with weights, smoothing or focus on hard texts.

One label a text (softmax) and several (sigmoid) side by side. Losses only train: scores, the loss
among them, never see weights. Balancing by what is drawn instead of by weight is in
`training/balanced.py`.

Dimension letters: T texts, C labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.errors import UsageError, nearest

LossKind = Literal["cross-entropy", "focal"]
BALANCED = "balanced"


@dataclass(frozen=True)
class LabelLoss:
    """How a wrong label is charged for.

    Attributes:
        kind: cross-entropy, or focal, which charges less for texts that are right already.
        gamma: how much less: a text whose truth has probability p counts (1 - p) ** gamma.
        smoothing: share of the truth that is spread over all labels.
        class_weights: `balanced`, or label=weight each; empty for none.
        weights: of each label, in the task's order; empty before `fit` and where there are none.

    Source: Lin et al. 2017 (focal); Szegedy et al. 2016 (smoothing).
    """

    kind: LossKind = "cross-entropy"
    gamma: float = 2.0
    smoothing: float = 0.0
    class_weights: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if not 0.0 <= self.gamma < float("inf"):
            problems.append(f"--focal-gamma is {self.gamma}; expected 0 or more")
        if not 0.0 <= self.smoothing < 1.0:
            problems.append(
                f"--label-smoothing is {self.smoothing}; expected a share from 0 up to below 1"
            )
        if self.kind == "focal" and self.smoothing:
            problems.append(
                "give --loss focal or --label-smoothing: one trusts what is right, one does not"
            )
        if self.kind != "focal" and self.gamma != LabelLoss.gamma:
            problems.append("--focal-gamma is for --loss focal")
        if self.class_weights != (BALANCED,):
            for given in self.class_weights:
                label, _, value = given.rpartition("=")
                if not label or not _is_weight(value):
                    problems.append(
                        f"--class-weights has {given!r}; expected {BALANCED}, or label=weight with "
                        "weights above 0, as in spam=5,ham=1"
                    )
        if problems:
            raise UsageError("; ".join(problems))

    def fitted(self, counts: Mapping[str, int]) -> LabelLoss:
        """With the weight of each label: their mean over the training texts is 1.

        So the loss keeps its size, and learning rates their meaning.

        Args:
            counts: training texts of each label, in the task's order.

        Raises:
            UsageError: for a weight of a label that there is not.

        Example:
            >>> LabelLoss(class_weights=("balanced",)).fitted({"no": 1, "yes": 3}).weights
            (2.0, 0.6666666666666666)
        """
        if not self.class_weights:
            return self
        total = sum(counts.values())
        weights = {label: total / (len(counts) * count) for label, count in counts.items()}
        if self.class_weights != (BALANCED,):
            weights = self._named(counts)
            mean = sum(weights[label] * count for label, count in counts.items()) / total
            weights = {label: weight / mean for label, weight in weights.items()}
        return dataclasses.replace(self, weights=tuple(weights.values()))

    def fitted_to_sets(self, counts: Mapping[str, int], texts: int) -> LabelLoss:
        """With the weight of each label's presence, its absence counting 1.

        Balanced, both weigh the same in all: (texts without) / (texts with).

        Args:
            counts: training texts that have each label.
            texts: training texts in all.

        Raises:
            UsageError: as `fitted`.
        """
        if not self.class_weights:
            return self
        weights = {label: max(texts - count, 1) / count for label, count in counts.items()}
        if self.class_weights != (BALANCED,):
            weights = self._named(counts)
        return dataclasses.replace(self, weights=tuple(weights.values()))

    def _named(self, labels: Mapping[str, int]) -> dict[str, float]:
        named = {}
        for given in self.class_weights:
            label, _, value = given.rpartition("=")
            if label not in labels:
                raise UsageError(
                    f"--class-weights names {label!r}, which no training text has; "
                    f"{nearest(label, labels)}"
                )
            named[label] = float(value)
        return {label: named.get(label, 1.0) for label in labels}

    def of_one(self, scores: Tensor, truth: Tensor) -> Tensor:
        """Sum over texts with one label each.

        Args:
            scores: log-probabilities, (T, C).
            truth: index of each label, (T,).
        """
        weights = self._tensor(scores)
        if self.kind == "focal":
            losses = F.nll_loss(scores, truth, weight=weights, reduction="none")
            chosen = scores.gather(1, truth[:, None])[:, 0]
            return (losses * (1.0 - chosen.exp()).clamp(min=0.0) ** self.gamma).sum()
        # The softmax of log-probabilities is what they came from.
        return F.cross_entropy(
            scores, truth, weight=weights, label_smoothing=self.smoothing, reduction="sum"
        )

    def of_sets(self, logits: Tensor, truth: Tensor) -> Tensor:
        """Sum over texts of the mean over labels.

        Args:
            logits: (T, C).
            truth: 1 where a text has a label, else 0, (T, C), of the logits' type.
        """
        smooth = truth * (1.0 - self.smoothing) + self.smoothing / 2.0
        losses = F.binary_cross_entropy_with_logits(
            logits, smooth, pos_weight=self._tensor(logits), reduction="none"
        )
        if self.kind == "focal":
            signs = 2.0 * truth - 1.0
            losses = losses * torch.sigmoid(-signs * logits) ** self.gamma
        return losses.mean(1).sum()

    def _tensor(self, like: Tensor) -> Tensor | None:
        return like.new_tensor(self.weights) if self.weights else None


def classifier_fields(settings: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Which task classifies, and its fields, from what the settings of classification say.

    Args:
        settings: by the names of their flags.
    """
    fields = dict(settings)
    multi_label = fields.pop("multi_label")
    separator = fields.pop("label_separator")
    names = {"loss": "kind", "focal_gamma": "gamma", "label_smoothing": "smoothing"}
    names["class_weights"] = "class_weights"
    loss = {ours: fields.pop(flag) for flag, ours in names.items()}
    fields["label_loss"] = LabelLoss(**loss)  # type: ignore[arg-type]
    if not multi_label:
        return "classify", fields
    return "multi-label", {**fields, "label_separator": separator}


def weights_words(labels: Sequence[str], loss: LabelLoss) -> str:
    """The weights in a line, for the log."""
    return ", ".join(
        f"{label} {weight:.3g}" for label, weight in zip(labels, loss.weights, strict=True)
    )


def _is_weight(value: str) -> bool:
    try:
        return 0.0 < float(value) < float("inf")
    except ValueError:
        return False
