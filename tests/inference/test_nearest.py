"""Exact nearest neighbours, against sorting everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bothways.errors import UsageError
from bothways.inference.nearest import nearest

Matrix = NDArray[np.float32]


def brute(queries: Matrix, corpus: Matrix, k: int) -> tuple[Matrix, NDArray[np.int64]]:
    """All products, sorted, the smaller index first in a tie."""
    scores = queries @ corpus.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), order


@st.composite
def problems(draw: st.DrawFn) -> tuple[Matrix, Matrix, int]:
    """Small whole numbers, whose products are exact and often equal."""
    width, rows = draw(st.integers(1, 3)), draw(st.integers(1, 30))
    entries = st.integers(-2, 2)
    corpus = draw(st.lists(st.lists(entries, min_size=width, max_size=width), min_size=rows))
    queries = draw(
        st.lists(st.lists(entries, min_size=width, max_size=width), min_size=1, max_size=5)
    )
    k = draw(st.integers(1, 40))
    return np.array(queries, dtype=np.float32), np.array(corpus, dtype=np.float32), k


@given(problems(), st.integers(1, 8), st.integers(1, 3))
def test_the_best_are_found_whatever_the_blocks(
    problem: tuple[Matrix, Matrix, int], corpus_block: int, query_block: int
) -> None:
    queries, corpus, k = problem
    scores, indices = nearest(
        queries, corpus, k=k, query_block=query_block, corpus_block=corpus_block
    )
    expected, order = brute(queries, corpus, k)
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(indices, order)


def test_real_numbers_over_more_than_one_block() -> None:
    draw = np.random.default_rng(0)
    corpus = draw.standard_normal((70_000, 8), dtype=np.float32)
    queries = draw.standard_normal((300, 8), dtype=np.float32)
    scores, indices = nearest(queries, corpus, k=3)
    assert [scores.dtype.name, indices.dtype.name] == ["float32", "int64"]
    _, order = brute(queries[:20], corpus, 3)
    np.testing.assert_array_equal(indices[:20], order)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert indices.max() > 65_536


def test_a_memory_mapped_corpus_in_half_precision(tmp_path: Path) -> None:
    corpus = np.eye(5, dtype=np.float16)
    np.save(tmp_path / "corpus.npy", corpus)
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    _, indices = nearest(np.eye(5, dtype=np.float32)[[3, 1]], mapped, k=1)
    assert indices.tolist() == [[3], [1]]


def test_more_than_there_are_and_none_at_all() -> None:
    one = np.ones((1, 2), dtype=np.float32)
    none = np.empty((0, 2), dtype=np.float32)
    assert nearest(one, one, k=9)[1].tolist() == [[0]]
    assert nearest(one, none, k=9)[0].shape == (1, 0)
    assert nearest(none, one, k=9)[1].shape == (0, 1)


def test_what_is_no_number_does_not_hide_the_rest() -> None:
    corpus = np.array([[np.nan], [1.0], [2.0]], dtype=np.float32)
    scores, indices = nearest(np.ones((1, 1), dtype=np.float32), corpus, k=2)
    assert indices.shape == (1, 2)
    assert np.isnan(scores).sum() <= 1


@pytest.mark.parametrize(
    ("queries", "corpus", "k", "expected"),
    [
        ((2, 3), (4, 5), 1, r"\(2, 3\).*\(4, 5\)"),
        ((3,), (4, 3), 1, r"\(3,\)"),
        ((2, 3), (4, 3), 0, "k is 0"),
    ],
)
def test_what_does_not_fit_is_refused(
    queries: tuple[int, ...], corpus: tuple[int, ...], k: int, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        nearest(np.ones(queries, dtype=np.float32), np.ones(corpus, dtype=np.float32), k=k)
