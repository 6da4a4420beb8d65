"""Slices: what tells examples apart, which of them are behind, and what is too small to judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bothways.diagnostics import slices as module
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.slices import slices
from bothways.diagnostics.slicing import MISSING, SLICERS, find_slices, quarters
from bothways.evaluation.intervals import Units, intervals_together
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.regress import RegressExample, RegressTask
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample
from tests.diagnostics.planted import LABELS, Planted, evidence_of, sentences


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """160 examples, every eighth of which has a wrong label and says so in a column."""
    draw = np.random.default_rng(1)
    test = sentences(draw, 160, sure=1.0)
    other = dict(zip(LABELS, (*LABELS[1:], LABELS[0]), strict=True))
    test = [
        replace(e, label=other[e.label or ""]) if number % 8 == 0 else e
        for number, e in enumerate(test)
    ]
    source = tuple("bad" if number % 8 == 0 else "good" for number in range(160))
    return evidence_of(Planted(sentences(draw, 150), test, columns={"source": source}))


def with_texts(evidence: Evidence, *texts: str, pair: str | None = None) -> Evidence:
    return replace(
        evidence, examples=[ClassifyExample(text, pair, label="sad") for text in texts], columns={}
    )


def test_the_worst_slice_comes_first_and_is_no_better_than_it_is(evidence: Evidence) -> None:
    found = slices(evidence)
    worst = found.judged[0]
    assert str(worst.slice) == "source: bad"
    assert worst.slice.count == 20
    assert worst.gap is not None
    assert worst.score == pytest.approx(evidence.credit[::8].mean())
    rest = np.delete(evidence.credit, np.arange(0, 160, 8))
    assert worst.gap.value == pytest.approx(worst.score - rest.mean())
    (finding,) = found.findings()
    assert finding.severity == "alarm"
    assert finding.numbers["worst_slice"] == "source: bad"
    (table,), (figure,) = found.tables(), found.figures()
    assert table.rows[0][:3] == ("source", "bad", 20)
    assert {row[-1] for row in table.rows} >= {"lower", "higher"}
    assert figure.series[0].x[0] == "source: bad"


def test_the_same_examples_by_two_names_are_named_once(evidence: Evidence) -> None:
    twice = replace(evidence, columns={**evidence.columns, "again": evidence.columns["source"]})
    (finding,) = slices(twice).findings()
    assert finding.numbers["behind"] == 2
    assert "Lower too" not in finding.text


def test_what_is_computed_at_once_is_what_is_computed_one_by_one(evidence: Evidence) -> None:
    found = find_slices(evidence).slices
    some = np.random.default_rng(0).integers(0, 160, 160)
    quick = module._gaps(found, evidence.scorer(), evidence.credit)(some)
    slow = module._gaps(found, evidence.scorer(), None)(some)
    np.testing.assert_allclose(quick, slow)


def test_small_slices_are_shown_and_not_judged(evidence: Evidence) -> None:
    origin = tuple("few" if number < 19 else f"many {number % 2}" for number in range(160))
    found = slices(replace(evidence, columns={"origin": origin}))
    (small,) = found.small
    assert (str(small.slice), small.slice.count, small.gap) == ("origin: few", 19, None)
    assert small.verdict == "too small to judge"
    assert found.tables()[0].rows[-1][-1] == "too small to judge"
    assert "1 slice with fewer than 20" in found.findings()[0].text


def test_unique_values_tell_nothing_and_missing_ones_are_a_slice(evidence: Evidence) -> None:
    names = tuple(f"id-{number}" for number in range(160))
    holes = tuple(None if number < 30 else "  " if number < 50 else "a" for number in range(160))
    numbers = tuple(None if number < 20 else str(number / 10) for number in range(160))
    found = find_slices(replace(evidence, columns={"id": names, "part": holes, "year": numbers}))
    assert any("'id' has 160 values" in each for each in found.told)
    assert {each.kind for each in found.slices} >= {"part", "year"}
    parts = {each.name: each.count for each in found.slices if each.kind == "part"}
    assert parts == {"a": 110, MISSING: 50}
    years = {each.name: each.count for each in found.slices if each.kind == "year"}
    assert years == {
        MISSING: 20, "2 to 5.4": 35, "5.5 to 8.9": 35, "9 to 12.4": 35, "12.5 to 15.9": 35,
    }  # fmt: skip


def test_three_examples_are_not_judged(evidence: Evidence) -> None:
    (finding,) = slices(evidence.those(np.arange(3))).findings()
    assert finding.severity == "note"
    assert "none can be judged" in finding.text


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("negation", "it isn't good", "with a negation"),
        ("negation", "Nothing works", "with a negation"),
        ("negation", "das ist kein Film", "with a negation"),
        ("negation", "a knotty note", "without a negation"),
        ("digits", "at 5 o'clock", "with digits"),
        ("digits", "at five", "without digits"),
        ("casing", "all small 1!", "all small letters"),
        ("casing", "ALL LARGE", "all capitals"),
        ("casing", "Both kinds", "both cases"),
        ("casing", "ไทย", "no letters with case"),
        ("script", "слово and слово", "cyrillic"),
    ],
)
def test_texts_are_told_apart(evidence: Evidence, kind: str, text: str, name: str) -> None:
    assert SLICERS[kind](with_texts(evidence, text)) == [(name,)]


def test_rare_words_are_those_that_training_never_had(evidence: Evidence) -> None:
    texts = with_texts(evidence, "ba bea", "ba unheard", "unheard unseen")
    found = SLICERS["rare words"](texts)
    assert found == [(f"{share} words that training never had",) for share in ("0%", "50%", "100%")]
    alone = SLICERS["rare words"](replace(texts, train_examples=None))
    assert alone == [
        ("50% words that no other text has",),
        ("0% words that no other text has",),
        ("50% words that no other text has",),
    ]


def test_pairs_are_told_apart_by_the_words_they_share(evidence: Evidence) -> None:
    found = SLICERS["overlap of the pair"](with_texts(evidence, "a b c", "d e", pair="c d e"))
    assert found == [("20% shared",), ("67% shared",)]
    assert SLICERS["overlap of the pair"](with_texts(evidence, "a")) == [()]


def test_lengths_and_cuts_are_those_of_the_evidence(evidence: Evidence) -> None:
    long = with_texts(evidence, *["ba"] * 3, " ".join(["ba"] * 90))
    assert SLICERS["length"](long) == [("1 tokens",)] * 3 + [("90 tokens",)]
    assert SLICERS["truncation"](long) == [("read whole",)] * 3 + [("cut",)]


def test_labels_of_other_tasks_are_slices_too(evidence: Evidence) -> None:
    tagged = [
        TagExample.of_words(["Ann", "sings"], ["B-PER", "O"]),
        TagExample.of_words(["in", "York"], ["O", "B-LOC"]),
        TagExample.of_words(["hm"], ["O"]),
    ]
    tags = Evidence(evidence.model, TagTask().fit(tagged), tagged, evidence.policy)
    assert SLICERS["label"](tags) == [("PER",), ("LOC",), ()]
    rated = [RegressExample("a", label=float(number)) for number in range(8)]
    rating = Evidence(evidence.model, RegressTask().fit(rated), rated, evidence.policy)
    assert [name for (name,) in SLICERS["label"](rating)][::2] == [
        "0 to 1", "2 to 3", "4 to 5", "6 to 7",
    ]  # fmt: skip


def test_quarters_keep_equal_numbers_together() -> None:
    assert quarters([1.0, 1.0, 1.0, 2.0, float("nan")]) == [("1",)] * 3 + [("2",), ()]


def test_intervals_that_hold_together_miss_as_seldom_as_one() -> None:
    """Of 20 means that are all 0, some interval misses in about 5 of 100 draws, not in 64."""
    missed = 0
    for seed in range(60):
        numbers = np.random.default_rng(seed).normal(size=(80, 20))
        found = intervals_together(
            lambda some, numbers=numbers: numbers[some].mean(0),  # type: ignore[misc]
            Units.of(80),
            resamples=150,
            seed=seed,
        )
        missed += any(not (each.low or 0) <= 0 <= (each.high or 0) for each in found)
    assert missed <= 8


def test_scores_that_go_together_count_as_one() -> None:
    numbers = np.random.default_rng(0).normal(size=(100, 1))
    (one,) = intervals_together(lambda some: numbers[some].mean(0), Units.of(100))
    many = intervals_together(lambda some: np.repeat(numbers[some].mean(0), 50), Units.of(100))
    assert many[0] == one
    constant = intervals_together(lambda _: np.array([1.0]), Units.of(100))
    assert (constant[0].value, constant[0].low) == (1.0, None)
