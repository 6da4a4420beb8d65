"""Embedding: what is read, what is refused, and how rankings are scored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bothways.data.retrieval import RetrievalSet
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError
from bothways.tasks.embed import EmbedTask
from bothways.tasks.embed_examples import EmbedExample, known_positives, text_id
from bothways.tasks.registry import make_task, task_from_state
from bothways.tasks.results import ScoreResult, as_dict
from bothways.tasks.task import Columns
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import load_tokenizer


def rows(*cells: dict[str, str]) -> list[Row]:
    return [Row(each, "a.jsonl", number) for number, each in enumerate(cells, start=1)]


def scored(**rest: Any) -> EmbedTask:
    return EmbedTask(columns=Columns("a", "b", "s"), **rest)


@pytest.mark.parametrize(
    ("first", "second"),
    [("anchor", "positive"), ("Query", "document"), ("question", "answer"), ("text_a", "text_b")],
)
def test_pairs_are_found_by_their_usual_names(first: str, second: str) -> None:
    (example,) = EmbedTask().read(rows({first: "one", second: "two", "score": "3"}))
    assert (example.text, example.pair, example.score) == ("one", "two", None)


def test_negatives_are_found_by_name_and_empty_ones_left_out() -> None:
    cells = {
        "anchor": "a",
        "positive": "p",
        "negative_1": "n",
        "negative_2": " ",
        "negatively": "x",
    }
    (example,) = EmbedTask().read(rows(cells))
    assert example.texts == ("a", "p", "n")
    (example,) = EmbedTask(negative=("negatively",)).read(rows(cells))
    assert example.negatives == ("x",)
    (example,) = EmbedTask().read(rows(cells), labelled=False)
    assert example.negatives == ()


@pytest.mark.parametrize(
    ("task", "cells", "parts"),
    [
        (EmbedTask(), {"text": "a"}, ["--text-pair", "'text'"]),
        (EmbedTask(negative=("no",)), {"anchor": "a", "positive": "p"}, ["--negative 'no'"]),
        (scored(), {"a": "x", "b": "y", "s": "much"}, ["no numbers: 1", "line 1: 'much'"]),
        (scored(), {"a": "x", "b": "y", "s": "inf"}, ["no numbers: 1"]),
        (scored(), {"a": "x", "b": "y", "s": ""}, ["without a label"]),
    ],
)
def test_rows_that_cannot_be_read_are_refused(
    task: EmbedTask, cells: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(DataError) as refused:
        task.read(rows(cells))
    assert all(part in str(refused.value) for part in parts)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"loss_function": "cosent"}, "--label"),
        ({"loss_function": "triplet", "columns": Columns(label="s")}, "pairs without scores"),
        ({"negative": ("n",), "columns": Columns(label="s")}, "leave --label away"),
        ({"loss_function": "infonce"}, "negatives"),
        ({"scale": 0.0}, "--scale is 0.0"),
        ({"margin": 3.0}, "--margin is 3.0"),
        ({"dimensions": (0,)}, "--dimensions"),
        ({"pooling": "pooler"}, "--pooling"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        make_task("embed", **settings)


@pytest.mark.parametrize(
    ("task", "examples", "part"),
    [
        (EmbedTask(), [], "no training examples"),
        (EmbedTask(), [EmbedExample("a")], "without a second text: 1"),
        (EmbedTask(), [EmbedExample("a", "p"), EmbedExample("b", "P ")], "all second texts"),
        (EmbedTask(loss_function="triplet"), [EmbedExample("a", "p")], "without a negative: 1"),
        (scored(), [EmbedExample("a", "b", score=2.0)] * 2, "all 2 scores"),
        (scored(), [EmbedExample("a", "b")], "without a score: 1"),
    ],
)
def test_examples_that_teach_nothing_are_refused(
    task: EmbedTask, examples: Sequence[EmbedExample], part: str
) -> None:
    with pytest.raises(DataError, match=part):
        task.fit(examples)


def test_texts_that_belong_to_an_anchor_are_known_from_both_sides() -> None:
    pairs = [EmbedExample("a", "p"), EmbedExample("A", "q"), EmbedExample("r", "a")]
    one = text_id("a")
    assert known_positives(pairs) == {one: tuple(sorted(map(text_id, "pqr")))}


def test_a_retrieval_set_is_a_pair_a_relevant_document() -> None:
    found = RetrievalSet({"1": "d", "2": "e"}, {"x": "q"}, {"x": {"1": 2.0, "2": 0.0}}, {"x": "f"})
    (example,) = EmbedTask().read_retrieval(found)
    assert example == EmbedExample("q", "d", place="f", group="x")
    with pytest.raises(UsageError, match="no scores of pairs"):
        scored().read_retrieval(found)


def test_each_text_is_a_window_and_single_ones_are_refused(minilm: Path) -> None:
    tokenizer = load_tokenizer(minilm)
    example = EmbedExample("a b", "c", ("d", "e"))
    windows = EmbedTask().encode(example, tokenizer, CutPolicy(16))
    assert [tokenizer.encode(text).ids for text in example.texts] == [w.ids for w in windows]
    with pytest.raises(TaskError, match="bothways embed"):
        EmbedTask().encode(EmbedExample("a"), tokenizer, CutPolicy(16))
    with pytest.raises(UsageError, match="one vector a text"):
        EmbedTask().encode(example, tokenizer, CutPolicy(16, "windows", 4))


def test_what_a_folder_stores_makes_the_task_again() -> None:
    examples = [EmbedExample("a", "b", score=1.0), EmbedExample("c", "d", score=4.0)]
    task = scored(loss_function="cosine", dimensions=(8, 4)).fit(examples)
    again = task_from_state(json.loads(json.dumps(task.state())))
    assert again == dataclasses.replace(task, loss_function="auto")


def test_a_query_counts_once_and_copies_of_it_are_not_ranked() -> None:
    """Anchor x has two positives and a negative; document x is a copy of it, and would be first."""
    examples = [
        EmbedExample("x", "p", ("n",)),
        EmbedExample("x", "q"),
        EmbedExample("y", "x"),
    ]
    at = {"x": 0.0, "p": 0.1, "n": 0.2, "q": 0.3, "y": 1.5}
    results = [
        ScoreResult(
            0.0,
            np.array([[np.cos(at[t]), np.sin(at[t])] for t in each.texts], dtype=np.float32),
        )
        for each in examples
    ]
    task = EmbedTask()
    scores = task.metrics(results, examples)
    # x: p, n, q in this order; y: q, n, p, x, so its only positive comes last.
    first = (1 + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert scores["ndcg_at_10"] == pytest.approx((first + 1 / np.log2(5)) / 2)
    assert scores["mrr_at_10"] == pytest.approx((1 + 1 / 4) / 2)
    units = task.units(examples)
    assert units is not None
    assert len(set(units)) == 2
    with pytest.raises(TaskError, match="scores only"):
        task.metrics([ScoreResult(0.5)] * 3, examples)
    assert as_dict(results[0]) == {"score": 0.0}
