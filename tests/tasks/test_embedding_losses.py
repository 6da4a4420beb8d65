"""Losses of embedders beside those of sentence-transformers, and what is no negative."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from bothways.tasks.embedding_losses import BatchLoss

ANCHORS, NEGATIVES, WIDTH = 5, 2, 8
WIDE_RANGE = (0.0, 5.0)


def vectors(rows: int) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(rows))


def targets(
    windows: int, *, texts: list[int] | None = None, scores: list[float] | None = None
) -> dict[str, Tensor]:
    count = ANCHORS * windows
    found = {
        "window": torch.arange(windows).repeat(ANCHORS),
        "text": torch.arange(count) if texts is None else torch.tensor(texts),
    }
    if scores is not None:
        found["score"] = torch.tensor(scores).repeat_interleave(windows)
    return found


def by_column(rows: Tensor, windows: int) -> list[Tensor]:
    return [rows[window::windows] for window in range(windows)]


def loss(kind: str, **given: Any) -> BatchLoss:
    settings = {"scale": 20.0, "margin": 0.3, "score_range": WIDE_RANGE, "positives": {}}
    return BatchLoss(kind, **{**settings, **given})


@pytest.mark.parametrize("windows", [2, 2 + NEGATIVES])
def test_in_batch_negatives_are_those_of_sentence_transformers(windows: int) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    theirs: Any = MultipleNegativesRankingLoss(None)  # type: ignore[arg-type]
    rows = vectors(ANCHORS * windows)
    expected = theirs.compute_loss_from_embeddings(by_column(rows, windows), None)
    torch.testing.assert_close(loss("negatives")(rows, targets(windows)) / ANCHORS, expected)


@pytest.mark.parametrize("kind", ["cosent", "cosine"])
def test_scored_pairs_are_those_of_sentence_transformers(kind: str) -> None:
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss, CosineSimilarityLoss

    scores = [3.0, 0.0, 5.0, 3.0, 1.5]
    theirs: Any = (CoSENTLoss if kind == "cosent" else CosineSimilarityLoss)(None)  # type: ignore[arg-type]
    rows = vectors(ANCHORS * 2)
    share = torch.tensor(scores) / 5.0
    expected = theirs.compute_loss_from_embeddings(by_column(rows, 2), share)
    torch.testing.assert_close(
        loss(kind)(rows, targets(2, scores=scores)) / ANCHORS, expected, rtol=1e-5, atol=1e-6
    )


def test_triplets_have_each_negative_beside_their_positive() -> None:
    from sentence_transformers.sentence_transformer.losses import TripletLoss

    rows = vectors(ANCHORS * 4)
    theirs: Any = TripletLoss(
        None,  # type: ignore[arg-type]
        distance_metric=lambda a, b: 1 - torch.cosine_similarity(a, b),
        triplet_margin=0.3,
    )
    first, near, *far = by_column(rows, 4)
    expected = sum(theirs.compute_loss_from_embeddings([first, near, each], None) for each in far)
    torch.testing.assert_close(loss("triplet")(rows, targets(4)) / ANCHORS, expected)


@pytest.mark.parametrize("negatives", [(0, 1), (1, 5)])
def test_copies_and_other_positives_make_no_triplet(negatives: tuple[int, int]) -> None:
    """The negatives of the first example are its anchor, its positive, and another positive."""
    rows, texts = vectors(ANCHORS * 4), list(range(ANCHORS * 4))
    whole = targets(4, texts=[0, 1, *negatives, *texts[4:]])
    others = {name: values[4:] for name, values in whole.items()}
    measure = loss("triplet", positives={0: (1, 5)}, margin=2.0)
    torch.testing.assert_close(measure(rows, whole), measure(rows[4:], others))


def test_copies_and_other_positives_are_no_negatives() -> None:
    """sentence-transformers#608: duplicates in a batch were negatives of each other.

    Texts, two an example: 0 and 1 belong together, and so do 0 and 3; 1 stands there twice.
    """
    texts = [0, 1, 2, 1, 0, 3, 4, 5, 6, 0]
    measure = loss("negatives", positives={0: (1, 3, 6)})
    text = torch.tensor(texts)
    found = measure.blocked(text[0::2], text[1::2], text[1::2]).tolist()
    assert found == [
        [True, True, True, False, True],  # 0: its positives 1, 1, 3, and itself
        [True, True, False, False, False],  # 2: its own positive and the copy of it
        [True, True, True, False, True],
        [False, False, False, True, False],
        [False, False, False, False, True],
    ]
    # An anchor of which everything else is blocked learns nothing; the others do.
    rows = vectors(10).requires_grad_()
    loss("negatives", positives={0: (1, 3, 5, 6)})(rows, targets(2, texts=texts)).backward()
    assert rows.grad is not None
    assert rows.grad[0].abs().max() == 0.0
    assert rows.grad[2].abs().max() > 0.0


def test_scores_in_one_order_cost_little_and_ties_nothing() -> None:
    rows = vectors(ANCHORS * 2)
    assert float(loss("cosent")(rows, targets(2, scores=[2.0] * ANCHORS))) == 0.0
    cosines = torch.cosine_similarity(rows[0::2], rows[1::2])
    right = float(loss("cosent", scale=1e4)(rows, targets(2, scores=cosines.tolist())))
    wrong = float(loss("cosent", scale=1e4)(rows, targets(2, scores=(-cosines).tolist())))
    assert right < 1e-3 < wrong
