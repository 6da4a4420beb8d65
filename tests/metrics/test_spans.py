"""Scores of spans, beside seqeval and nervaluate."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from nervaluate import Evaluator
from seqeval.metrics import classification_report, f1_score
from seqeval.scheme import IOB2

from bothways.metrics.spans import Span, SpanCounts, precision_recall_f1, span_errors
from bothways.tasks.schemes import SCHEMES

BIO = SCHEMES["bio"]


def sentences(seed: int, count: int = 40) -> list[list[str]]:
    draw = random.Random(seed)
    tags = BIO.tags(["A", "B", "C"])
    return [draw.choices(tags, k=draw.randint(0, 9)) for _ in range(count)]


def well_formed(tags: list[list[str]]) -> list[list[str]]:
    return [BIO.write(BIO.lenient(each), len(each)) for each in tags]


def counts(truth: list[list[str]], said: list[list[str]], *, strict: bool) -> SpanCounts:
    read = BIO.strict if strict else BIO.lenient
    return SpanCounts([read(tags) for tags in truth], [read(tags) for tags in said])


@pytest.mark.parametrize("seed", range(4))
def test_f1_strict_and_lenient_are_the_modes_of_seqeval(seed: int) -> None:
    truth = well_formed(sentences(seed))
    said = [tags[: len(true)] + ["O"] * (len(true) - len(tags))
            for true, tags in zip(truth, sentences(seed + 100), strict=True)]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about types without predictions
        strict = f1_score(truth, said, mode="strict", scheme=IOB2)
        lenient = f1_score(truth, said)
        report = classification_report(truth, said, output_dict=True)
    assert counts(truth, said, strict=True).f1() == pytest.approx(strict)
    ours = counts(truth, said, strict=False)
    assert ours.f1() == pytest.approx(lenient)
    assert strict != lenient
    for kind, row in zip(ours.kinds, ours.by_kind(), strict=True):
        theirs = report[kind]
        expected = (theirs["precision"], theirs["recall"], theirs["f1-score"])
        assert precision_recall_f1(row) == pytest.approx(expected)


def test_any_sentences_can_be_scored_also_several_times() -> None:
    right, wrong = [(0, 1, "A")], [(1, 2, "A")]
    counted = SpanCounts([right, right], [right, wrong])
    assert counted.f1() == 0.5
    assert counted.f1(np.array([0, 0, 0])) == 1.0
    assert counted.f1(np.array([0, 0, 1])) == pytest.approx(2 / 3)
    assert counted.kind_f1(np.array([1])).tolist() == [0.0]


def test_where_there_is_no_span_f1_is_0() -> None:
    assert SpanCounts([[]], [[]]).f1() == 0.0


@pytest.mark.parametrize(
    ("truth", "said", "outcome"),
    [
        ([(0, 2, "A")], [(0, 2, "A")], {"A": {"right": 1}}),
        ([(0, 2, "A")], [(0, 2, "B")], {"A": {"type": 1}}),
        ([(0, 2, "A")], [(1, 4, "A")], {"A": {"boundary": 1}}),
        ([(0, 2, "A")], [(1, 4, "B")], {"A": {"boundary and type": 1}}),
        ([(0, 2, "A")], [(2, 3, "A")], {"A": {"missed": 1, "invented": 1}}),
        # One long prediction over two true spans is one mistake; the other span is missed.
        ([(0, 1, "A"), (1, 2, "A")], [(0, 2, "A")], {"A": {"boundary": 1, "missed": 1}}),
        # The prediction of the right type is the nearer one.
        ([(0, 3, "A")], [(0, 1, "B"), (2, 3, "A")], {"A": {"boundary": 1}, "B": {"invented": 1}}),
        ([], [], {}),
    ],
)
def test_each_mistake_has_one_kind(
    truth: list[Span], said: list[Span], outcome: dict[str, dict[str, int]]
) -> None:
    assert span_errors(truth, said) == outcome


def test_mistakes_are_those_of_nervaluate() -> None:
    """Where each span shares words with one other at most; beyond that its matching is its own."""
    truth = [["B-A", "I-A", "O", "B-B", "O", "B-C", "O"], ["O", "B-A", "O", "B-B", "I-B"]]
    said = [["B-A", "O", "O", "B-B", "O", "B-A", "O"], ["B-C", "O", "O", "B-A", "I-A"]]
    found = [
        span_errors(BIO.lenient(true), BIO.lenient(given))
        for true, given in zip(truth, said, strict=True)
    ]
    total = {
        outcome: sum(kinds.get(outcome, 0) for each in found for kinds in each.values())
        for outcome in ("right", "type", "boundary", "boundary and type", "missed", "invented")
    }
    theirs = Evaluator(truth, said, tags=["A", "B", "C"], loader="list").evaluate()["overall"]
    strict, exact, kind = theirs["strict"], theirs["exact"], theirs["ent_type"]
    assert strict.correct == total["right"] == 1
    assert strict.missed == total["missed"] == 1
    assert strict.spurious == total["invented"] == 1
    assert exact.correct == total["right"] + total["type"] == 3
    assert kind.correct == total["right"] + total["boundary"] == 2
    assert strict.incorrect == total["type"] + total["boundary"] + total["boundary and type"]
