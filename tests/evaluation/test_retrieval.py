"""Judging embedders on retrieval sets and on pairs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import bothways
from bothways.data.retrieval import RetrievalSet
from bothways.evaluation.embedding import embedding_parts, shared_words
from bothways.evaluation.retrieval import bm25, evaluate_retrieval, rankings
from bothways.tasks.embed import EmbedTask
from bothways.tasks.embed_examples import EmbedExample
from bothways.tasks.results import ScoreResult
from tests.training.tiny import save_tiny_model

DOCUMENTS = {"a": "the film was great", "b": "a long story", "c": "it ended", "d": "a dull film"}
QUERIES = {"1": "great film", "2": "a story", "3": "nothing of this"}
FOUND = RetrievalSet(DOCUMENTS, QUERIES, {"1": {"a": 2.0, "d": 1.0}, "2": {"b": 1.0, "c": 0.0}})


def test_all_documents_are_ranked_by_cosine(tmp_path: Path) -> None:
    """Scores are those of the rankings that the vectors of `embed` give; one query has none."""
    model = bothways.load(save_tiny_model(tmp_path / "model"))
    report = evaluate_retrieval(model, FOUND, resamples=50)
    scores = model.similarity(list(QUERIES.values()), list(DOCUMENTS.values()))
    ranks = [[sorted(-row).index(-row[at]) + 1 for at in range(4)] for row in scores]
    dcg = 2 / math.log2(ranks[0][0] + 1) + 1 / math.log2(ranks[0][3] + 1)
    ideal = 2 + 1 / math.log2(3)
    expected = (dcg / ideal + 1 / math.log2(ranks[1][1] + 1)) / 2
    assert report.metrics["ndcg_at_10"].value == pytest.approx(expected)
    mrr = (1 / min(ranks[0][0], ranks[0][3]) + 1 / ranks[1][1]) / 2
    assert report.metrics["mrr_at_10"].value == pytest.approx(mrr)
    assert report.metrics["recall_at_100"].value == 1.0
    assert (report.task, report.count, report.ledger.texts) == ("embed", 2, 6)
    assert report.baselines["bm25"]["ndcg_at_10"].value == 1.0


def test_bm25_is_the_formula() -> None:
    queries, documents = bm25(["story story x"], list(DOCUMENTS.values()))
    (best,) = rankings(queries, documents, list(DOCUMENTS))
    mean = (4 + 3 + 2 + 3) / 4
    rarity = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    weight = rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / mean))
    assert best.documents[0] == "b"
    assert best.scores[0] == pytest.approx(2 * weight)  # the query says it twice
    assert best.scores[1:] == (0.0, 0.0, 0.0)


def test_bm25_of_documents_without_words_finds_nothing() -> None:
    (best,) = rankings(*bm25(["a"], ["...", ""]), ["x", "y"])
    assert best.scores == (0.0, 0.0)


def test_shared_words_and_shortened_vectors_stand_in_the_report() -> None:
    task = EmbedTask(dimensions=(3, 1)).fit([EmbedExample("a", "b"), EmbedExample("c", "d")])
    examples = [EmbedExample("red car", "a red car"), EmbedExample("big dog", "the big dog")]
    vectors = np.eye(3, dtype=np.float32)[[[0, 0], [1, 1]]]
    results = [ScoreResult(1.0, rows) for rows in vectors]
    parts = embedding_parts(task, examples, results)
    assert task.metrics(parts.rivals["shared_words"], examples)["mrr_at_10"] == 1.0
    (table,) = parts.tables
    assert [row[0] for row in table.rows] == [3, 1]
    whole, first = (row[table.columns.index("mrr_at_10")] for row in table.rows)
    assert whole == 1.0
    assert isinstance(first, float)
    assert first < 1.0  # the first number alone does not tell the second pair
    assert shared_words([EmbedExample("!", "?")], with_vectors=True) == []


def test_the_real_encoder_finds_more_than_shared_words(minilm: Path, real_data: Path) -> None:
    """Judged on a part of Cranfield: the first queries, and what is judged for them."""
    from bothways.data.retrieval import read_retrieval_set

    folder = real_data / "cranfield"
    found = read_retrieval_set(folder / "cran.all.1400", folder / "cran.qry", folder / "cranqrel")
    some = found.of_queries(found.answerable[:15])
    judged = {document for gains in some.gains.values() for document in gains}
    part = RetrievalSet(
        {d: t for d, t in some.documents.items() if d in judged}, some.queries, some.gains
    )
    report = evaluate_retrieval(bothways.load(minilm), part, resamples=50, max_length=64)
    assert report.metrics["ndcg_at_10"].value > 0.5
    assert report.ledger.texts_cut > 0
