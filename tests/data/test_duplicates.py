"""Near duplicates: what is alike is found, what is not stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bothways.data.duplicates import BAND_SIZE, NUM_HASHES, candidates, near_duplicates, signatures
from bothways.tokenization.documents import read_documents
from bothways.tokenization.tokenizer import load_tokenizer

CHANCE = np.random.default_rng(0)


def text(length: int) -> np.ndarray:
    return CHANCE.integers(0, 5000, length).astype(np.uint32)


def changed(ids: np.ndarray, share: float) -> np.ndarray:
    """A copy with a run of tokens replaced."""
    copy = ids.copy()
    count = int(share * len(ids))
    copy[10 : 10 + count] = text(count)
    return copy


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """Jaccard's measure over runs of five tokens."""
    sets = [{tuple(ids[i : i + 5]) for i in range(len(ids) - 4)} for ids in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6])
def test_signatures_estimate_how_alike_texts_are(share: float) -> None:
    one = text(400)
    other = changed(one, share)
    estimate = (np.equal(*signatures([one, other]))).mean()
    true = likeness(one, other)
    assert abs(estimate - true) < 4 * np.sqrt(true * (1 - true) / NUM_HASHES) + 0.01


def test_a_signature_does_not_depend_on_its_company() -> None:
    texts = [text(length) for length in (1, 3, 5, 6, 200)]
    together = signatures(texts)
    assert together.shape == (5, NUM_HASHES)
    for index, one in enumerate(texts):
        assert np.array_equal(signatures([one])[0], together[index])


def test_the_first_of_alike_texts_stays() -> None:
    one, two, short = text(300), text(300), text(3)
    texts = [one, two, changed(one, 0.03), short, one, text(300), changed(two, 0.7), short]
    assert near_duplicates(signatures(texts)).tolist() == [
        False, False, True, False, True, False, False, True,
    ]  # fmt: skip


def test_texts_that_begin_alike_are_no_duplicates() -> None:
    one = text(100)
    texts = [np.concatenate([one, text(300)]) for _ in range(20)]
    assert not near_duplicates(signatures(texts)).any()


def test_nothing_is_no_duplicate() -> None:
    assert near_duplicates(signatures([])).tolist() == []


def test_planted_copies_in_real_text(real_data: Path, minilm: Path) -> None:
    blocks = (real_data / "rawtext" / "us_speeches_pd.txt").read_text().split("\n\n")
    blocks = [block for block in blocks if len(block.split()) > 60][:200]
    copies = [block.replace("the", "a", 1) for block in blocks[:30]]
    read, _ = read_documents(load_tokenizer(minilm), [*blocks, *copies])
    found = near_duplicates(signatures([document.ids for document in read]))
    assert found[200:].mean() > 0.9
    assert found[:200].mean() < 0.05


def test_candidates_are_the_pairs_with_a_band_in_common() -> None:
    known, new = (CHANCE.integers(0, 2, (size, NUM_HASHES), dtype=np.uint32) for size in (60, 40))
    known[:, :64], new[:, :64] = 1, 2
    bands = range(0, NUM_HASHES, BAND_SIZE)
    expected = [
        (row, other)
        for row in range(40)
        for other in range(60)
        if any(
            (new[row, at : at + BAND_SIZE] == known[other, at : at + BAND_SIZE]).all()
            for at in bands
        )
    ]
    found = list(zip(*(side.tolist() for side in candidates(known, new)), strict=True))
    assert len(expected) > 20
    assert found == expected


def test_of_a_crowd_in_one_band_the_first_are_paired() -> None:
    crowd = np.repeat(signatures([text(50)]), 100, axis=0)
    rows, others = candidates(crowd, crowd[:2], most=3)
    assert list(zip(rows.tolist(), others.tolist(), strict=True)) == [
        (row, other) for row in range(2) for other in range(3)
    ]
    assert [len(side) for side in candidates(crowd[:0], crowd)] == [0, 0]
