"""Reranking: reading, both losses by hand, scores by query, batches that keep queries whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bothways.data.collate import Source, collate
from bothways.data.retrieval import RetrievalSet
from bothways.data.rows import Row
from bothways.errors import DataError, UsageError
from bothways.model.layout import Batch
from bothways.tasks.regress import scores_of
from bothways.tasks.rerank import RerankExample, RerankTask, lists_of
from bothways.tasks.results import ScoreResult
from bothways.tasks.task import Task
from tests.tasks.tiny import encoding


def examples(*lists: tuple[float, ...]) -> list[RerankExample]:
    """A query a tuple, a passage a grade."""
    return [
        RerankExample(f"query {number}", f"passage {place}", grade, group=f"q{number}")
        for number, grades in enumerate(lists)
        for place, grade in enumerate(grades)
    ]


def batch(task: RerankTask, given: list[RerankExample], *owners: int) -> Batch:
    """One sequence an owner; an owner that comes again has windows."""
    sources = [
        Source(owner, owners[:place].count(owner), encoding()) for place, owner in enumerate(owners)
    ]
    return collate(sources, task.targets(given, sources))


def results(*values: float) -> list[ScoreResult]:
    return [ScoreResult(value) for value in values]


def test_it_is_a_task() -> None:
    task: Task[RerankExample] = RerankTask()
    assert task.metric_directions[task.main_metric] == 1


def test_rows_of_the_usual_columns() -> None:
    row = Row({"query": "why", "passage": "so", "grade": "2"}, "a.tsv", 2)
    (example,) = RerankTask().read([row])
    assert example == RerankExample("why", "so", 2.0, "a.tsv, line 2", "text: why")
    (new,) = RerankTask().read([Row({"query": "why", "text": "so"}, "b.tsv", 2)], labelled=False)
    assert (new.pair, new.label) == ("so", None)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"query": "a", "passage": "b", "label": "good"}, "0 or more: 1\n  a.tsv, line 2: 'good'"),
        ({"query": "a", "passage": "b", "label": "-1"}, "0 or more: 1\n  a.tsv, line 2: '-1'"),
        ({"query": "a", "reply": "b", "label": "1"}, "column of the passage is not obvious"),
    ],
)
def test_wrong_rows(cells: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        RerankTask().read([Row(cells, "a.tsv", 2)])


def test_a_retrieval_set_gives_each_query_its_candidates() -> None:
    found = RetrievalSet(
        documents={"d1": "one", "d2": "two", "d3": "three"},
        queries={"q1": "first", "q2": "second"},
        gains={"q1": {"d1": 2.0}, "q2": {"d2": 1.0, "d3": 0.0}},
        places={"q1": "q, line 1"},
        candidates={"q1": {"d1": 0.9, "d3": 0.4}},
    )
    made = RerankTask().read_retrieval(found)
    assert made[:2] == [
        RerankExample("first", "one", 2.0, "q, line 1, document 'd1'", "q1", 0.9),
        RerankExample("first", "three", 0.0, "q, line 1, document 'd3'", "q1", 0.4),
    ]
    assert [(each.pair, each.label, each.first_score) for each in made[2:]] == [
        ("two", 1.0, None),
        ("three", 0.0, None),
    ]


def test_single_texts_cannot_be_ranked() -> None:
    with pytest.raises(UsageError, match="pairs of a query and a passage"):
        RerankTask().examples(["a text"])


def test_one_grade_teaches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match="all 3 passages have the grade 1"):
        RerankTask().fit(examples((1, 1), (1,)))
    assert RerankTask().fit(examples((2, 0), (0, 0))).best_grade == 2
    assert "1 of 2 queries have passages of one grade only" in caplog.text
    with pytest.raises(DataError, match="no passage of 2 is relevant"):
        RerankTask().check(examples((0, 0)))


def test_the_pointwise_loss_wants_shares_of_the_best_grade() -> None:
    given = examples((2, 0), (1,))
    task = RerankTask().fit(given)
    logits = torch.tensor([[3.0], [-1.0], [0.5]])
    loss, count = task.loss(logits, batch(task, given, 0, 1, 2))
    wanted = F.binary_cross_entropy(logits.sigmoid()[:, 0], torch.tensor([1.0, 0, 0.5]))
    assert [float(loss), count] == pytest.approx([3 * float(wanted), 3])
    assert task.lists(given) is None


def test_the_listwise_loss_is_a_choice_among_the_passages_of_a_query() -> None:
    given = examples((1, 0, 0), (3, 1), (0, 0))
    task = RerankTask(ranking_loss="listwise").fit(given)
    assert task.lists(given) == [[0, 1, 2], [3, 4], [5, 6]]
    logits = torch.tensor([[2.0], [1.0], [0.0], [0.0], [1.0], [7.0], [8.0]])
    loss, count = task.loss(logits, batch(task, given, *range(7)))
    first = math.log(math.exp(2) + math.exp(1) + 1) - 2
    both = math.log(1 + math.exp(1))
    second = 0.75 * both + 0.25 * (both - 1)
    assert [float(loss), count] == pytest.approx([first + second, 3])
    # The loss of a query does not depend on who else is in the batch.
    alone, _ = task.loss(logits[3:5], batch(task, given, 3, 4))
    assert float(alone) == pytest.approx(second)


@pytest.mark.parametrize("ranking_loss", ["pointwise", "listwise"])
def test_a_long_passage_counts_as_its_best_window(ranking_loss: str) -> None:
    given = examples((1, 0))
    task = RerankTask(ranking_loss=ranking_loss).fit(given)  # type: ignore[arg-type]
    made = batch(task, given, 0, 0, 1)
    logits = torch.tensor([[-3.0], [2.0], [1.0]])
    assert scores_of(task.decode(logits, made)).tolist() == [2.0, 1.0]
    whole, _ = task.loss(logits[1:], batch(task, given, 0, 1))
    assert float(task.loss(logits, made)[0]) == pytest.approx(float(whole))


def test_scores_that_a_sigmoid_would_make_equal_stay_apart() -> None:
    given = examples((1, 0))
    logits = torch.tensor([[40.0], [41.0]])
    assert torch.equal(logits.sigmoid()[0], logits.sigmoid()[1])
    task = RerankTask()
    found = task.decode(logits, batch(RerankTask(best_grade=1), given, 0, 1))
    assert task.metrics(found, given)["mrr_at_10"] == 0.5


def test_scores_by_query() -> None:
    given = examples((0, 1), (2, 0, 1), (0, 0))
    task = RerankTask()
    found = results(0.2, 0.1, 5, 4, 3, 1, 2)
    second = (2 + 1 / math.log2(4)) / (2 + 1 / math.log2(3))
    whole = {"ndcg_at_10": (1 / math.log2(3) + second) / 2, "mrr_at_10": 0.75}
    assert task.metrics(found, given) == pytest.approx(whole)
    score = task.scorer(found, given)
    # The first query twice, the second once, as a resample of queries has it.
    twice = score(np.array([0, 1, 0, 1, 2, 3, 4, 5, 6]))
    assert twice["mrr_at_10"] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert math.isnan(score(np.array([5, 6]))["mrr_at_10"])
    assert task.units(given) == ["q0"] * 2 + ["q1"] * 3 + ["q2"] * 2


def test_queries_of_one_text_are_one_list() -> None:
    given = [RerankExample("a", "x"), RerankExample("b", "x"), RerankExample("a", "y")]
    assert lists_of(given) == [[0, 2], [1]]


def test_the_state_makes_the_task_again() -> None:
    task = RerankTask(ranking_loss="listwise", candidates_from="model").fit(examples((3, 0)))
    assert RerankTask.from_state(task.state()) == task


@pytest.mark.parametrize("wrong", [{"ranking_loss": "listwize"}, {"candidates": -1}])
def test_wrong_settings(wrong: dict[str, str | int]) -> None:
    with pytest.raises(UsageError):
        RerankTask(**wrong)  # type: ignore[arg-type]
