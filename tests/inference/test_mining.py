"""Hard negatives and texts that are alike, on vectors whose cosines are known."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bothways.errors import UsageError
from bothways.inference.mining import Mined, NegativeMiner, NegativeSettings, earlier_neighbours
from bothways.tasks.embed_examples import EmbedExample, known_positives

# Cosines of the documents with every anchor, the first of which is the positive's.
COSINES = {"good": 0.9, "Good ": 0.9, "twin": 0.85, "near": 0.8, "mid": 0.6, "far": 0.1}
ANCHOR = np.array([[1.0, 0.0]], dtype=np.float32)


def at(cosine: float) -> NDArray[np.float32]:
    return np.array([cosine, (1 - cosine**2) ** 0.5], dtype=np.float32)


def mined(examples: list[EmbedExample] | None = None, **settings: Any) -> Mined:
    examples = examples or [EmbedExample("query", "good")]
    documents = [*COSINES, "query"]
    vectors = np.stack([*map(at, COSINES.values()), ANCHOR[0]])
    miner = NegativeMiner(documents, vectors, NegativeSettings(**settings))
    anchors = ANCHOR.repeat(len(examples), 0)
    positives = np.stack([at(0.9)] * len(examples))
    return next(miner.mine(examples, anchors, positives, known_positives(examples)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"count": 2}, ("twin", "near")),
        ({"count": 9}, ("twin", "near", "mid", "far")),
        ({"count": 2, "skip": 1}, ("near", "mid")),
        ({"count": 1, "depth": 1}, ("twin",)),
        ({"highest": 0.7}, ("mid", "far")),
        ({"least_gap": 0.2}, ("mid", "far")),
        ({"relative_gap": 0.07}, ("near", "mid", "far")),
        ({"least_gap": 0.07, "highest": 0.1, "skip": 1}, ("far",)),
        ({"highest": -1.0}, ()),
    ],
)
def test_negatives_are_the_nearest_that_are_allowed(
    settings: dict[str, Any], expected: tuple[str, ...]
) -> None:
    """Neither the anchor itself nor its positive, nor a copy of it in other letters."""
    found = mined(**settings)
    assert found.example.negatives == expected
    assert found.positive == pytest.approx(0.9)
    assert found.negatives == pytest.approx([COSINES[text] for text in expected])


def test_other_positives_of_the_anchor_are_no_negatives() -> None:
    """sentence-transformers#608: what belongs to the same query was pushed away from it."""
    pairs = [EmbedExample("query", "good"), EmbedExample("Query", "twin")]
    assert mined(pairs, count=1).example.negatives == ("near",)


def test_a_choice_by_chance_is_the_same_each_time_and_ranked() -> None:
    first, again = (mined(count=2, pick="random") for _ in range(2))
    assert first == again
    assert all(one > other for one, other in pairwise(first.negatives))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"depth": 5, "skip": 3}, {"relative_gap": 1.0}])
def test_settings_that_find_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        mined(**wrong)


@pytest.mark.parametrize(("row_block", "column_block"), [(256, 65_536), (7, 5), (1, 3)])
def test_neighbours_are_those_of_the_whole_matrix(row_block: int, column_block: int) -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(40, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    products = vectors @ vectors.T
    found = {
        row: dict(zip(others.tolist(), cosines.tolist(), strict=True))
        for row, others, cosines in earlier_neighbours(
            vectors, 0.7, row_block=row_block, column_block=column_block
        )
    }
    expected = {
        row: {other: products[row, other] for other in range(row) if products[row, other] >= 0.7}
        for row in range(40)
    }
    assert found.keys() == {row for row, others in expected.items() if others}
    for row, others in found.items():
        assert others == pytest.approx(expected[row])
