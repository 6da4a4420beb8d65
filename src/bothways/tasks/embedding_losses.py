"""Losses of embedders, as functions of vectors: what a batch of pairs or triplets says of them.

Each returns a sum, so that parts of a batch and ranks add up. Vectors are compared by their cosine
whatever their length. `BatchLoss` takes a batch apart into anchors, positives and negatives, and
sees to it that no copy of a positive counts as a negative. Computing the vectors of a large batch
in little memory is in `training/pieces.py`.

Dimension letters: A anchors, C candidates, D dimensions, N pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Windows of an example; its negatives come after them.
ANCHOR, POSITIVE = 0, 1


@dataclass(frozen=True)
class BatchLoss:
    """The sum of a loss over the vectors of a batch.

    Attributes:
        kind: `negatives`, `triplet`, `cosent` or `cosine`.
        scale: of the cosines in `negatives` and `cosent`.
        margin: of `triplet`.
        score_range: least and greatest score, for `cosine`.
        positives: for an anchor, by its id, all texts that belong to it; where one does only, it
            may be left out.
    """

    kind: str
    scale: float
    margin: float
    score_range: tuple[float, float] | None
    positives: Mapping[int, tuple[int, ...]]

    def __call__(self, vectors: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """The sum.

        Args:
            vectors: (sequences, D); those of an example stand together, the anchor first.
            targets: for each sequence its `window`, the id of its `text` and, for scored pairs,
                the `score` of its example.
        """
        window = targets["window"]
        anchor, positive = window == ANCHOR, window == POSITIVE
        text = targets["text"]
        if self.kind == "triplet":
            negative = window > POSITIVE
            owner = (anchor.cumsum(0) - 1)[negative]
            blocked = self.blocked(text[anchor], text[positive], text[negative])
            kept = ~blocked.gather(0, owner[None])[0]
            owner, far = owner[kept], vectors[negative][kept]
            near = vectors[positive][owner]
            return triplet_loss(vectors[anchor][owner], near, far, margin=self.margin)
        first = vectors[anchor]
        if self.kind == "negatives":
            own = positive[~anchor].nonzero().squeeze(1)
            blocked = self.blocked(text[anchor], text[positive], text[~anchor])
            return in_batch_loss(first, vectors[~anchor], own, blocked, scale=self.scale)
        second, scores = vectors[positive], targets["score"][anchor]
        if self.kind == "cosent":
            return cosent_loss(first, second, scores, scale=self.scale)
        assert self.score_range is not None, "`fit` finds the range of scores"
        low, high = self.score_range
        return cosine_loss(first, second, (scores - low) / (high - low))

    def blocked(self, anchors: Tensor, positives: Tensor, candidates: Tensor) -> Tensor:
        """(A, C) which candidates are no negatives of an anchor, all given by the ids of texts.

        They are copies of its positive or of itself, and its other positives.
        """
        found = (candidates == positives[:, None]) | (candidates == anchors[:, None])
        for row, anchor in enumerate(anchors.tolist()):
            partners = self.positives.get(anchor)
            if partners is not None:
                found[row] |= torch.isin(candidates, candidates.new_tensor(partners))
        return found


def in_batch_loss(
    anchors: Tensor, candidates: Tensor, own: Tensor, blocked: Tensor, *, scale: float
) -> Tensor:
    """Sum over the anchors of the cross-entropy of the own candidate among all of the batch.

    Args:
        anchors: (A, D).
        candidates: (C, D).
        own: (A,) which candidate is the anchor's positive.
        blocked: (A, C) candidates that are no negatives of the anchor, such as copies of its
            positive; the own candidate counts whatever stands there.
        scale: of the cosines; the inverse of a temperature.

    Source: Henderson et al. 2017, equation 4, over scaled cosines.
    """
    scores = scale * F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    blocked = blocked.scatter(1, own[:, None], False)
    return F.cross_entropy(scores.masked_fill(blocked, float("-inf")), own, reduction="sum")


def triplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, *, margin: float) -> Tensor:
    """Sum of what is missing until each positive is nearer than its negative, by a margin.

    Args:
        anchors, positives, negatives: (N, D), row by row.
        margin: wanted difference of the cosines.

    Source: Schroff et al. 2015, equation 2, over cosines.
    """
    near = F.cosine_similarity(anchors, positives, dim=-1)
    far = F.cosine_similarity(anchors, negatives, dim=-1)
    return (margin + far - near).clamp(min=0.0).sum()


def cosine_loss(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """Sum of the squared differences of the cosines, (N,), from the scores, (N,), of 0 to 1."""
    return ((F.cosine_similarity(first, second, dim=-1) - scores) ** 2).sum()


def cosent_loss(first: Tensor, second: Tensor, scores: Tensor, *, scale: float) -> Tensor:
    """Pairs times log(1 + sum of exp(scale * (c_j - c_i))) over all pairs i scored above j.

    Only the order of the scores counts, so it does not matter what they run from and to. The
    factor makes batches of different sizes count by their pairs.

    Args:
        first, second: (N, D).
        scores: (N,) in any unit.
        scale: of the cosines.

    Source: Su 2022, "CoSENT".
    """
    cosines = scale * F.cosine_similarity(first, second, dim=-1)
    differences = cosines[None, :] - cosines[:, None]  # [i, j]: how much j is above i
    wrong = differences[scores[:, None] > scores[None, :]]
    return len(scores) * torch.logsumexp(torch.cat([wrong, wrong.new_zeros(1)]), dim=0)
