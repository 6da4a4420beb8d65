"""The five sentences: bad news first, the score always, the next step last."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from bothways.evaluation.result import SEVERITIES, Finding, Metric, Report
from bothways.report.sentences import NEXT_STEPS, sentences, tally
from tests.report.reports import EMPTY, REPORT

QUESTIONS = [
    *("truncation", "fragmentation", "pooling", "domain", "artifacts", "duplicates", "slices"),
    *("noise", "calibration", "labels", "attention", "errors", "baseline"),
]


def report_with(*findings: Finding) -> Report:
    return dataclasses.replace(
        EMPTY, findings=findings, count=20, metrics={"accuracy": Metric(0.5, 0.3, 0.7)}
    )


def test_bad_news_then_the_score_then_good_news_then_the_next_step() -> None:
    said = sentences(REPORT)
    assert said[0].startswith("A shortcut exists")
    assert said[1].startswith("The slice 'short'")
    assert said[2].startswith("On 1,000 examples of a very/long")
    assert said[2].endswith("the model reaches accuracy 0.800 [0.750, 0.850].")
    assert said[3] == "No text was cut."
    assert said[4] == f"Next: {NEXT_STEPS['artifacts']}."


def test_there_are_five_different_ones_whatever_was_found() -> None:
    for count, severity in product(range(15), SEVERITIES):
        findings = [
            Finding(QUESTIONS[n % len(QUESTIONS)], severity, f"Sentence {n}.") for n in range(count)
        ]
        said = sentences(report_with(*findings))
        assert len(set(said)) == 5
        assert sum("accuracy 0.500 [0.300, 0.700]" in each for each in said) == 1
        assert said[4].startswith("Next: ")


def test_an_empty_report_has_five_too() -> None:
    assert len(set(sentences(EMPTY))) == 5
    assert sentences(EMPTY)[0] == "Nothing was scored, so there is no number to go by."
    assert "bothways evaluate" in sentences(EMPTY)[4]


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_a_next_step(question: str) -> None:
    for severity in ("alarm", "note"):
        said = sentences(report_with(Finding(question, severity, "Bad.")))
        assert said[4] == f"Next: {NEXT_STEPS[question]}."


def test_without_bad_news_the_next_step_is_the_question_that_was_not_asked() -> None:
    fine = Finding("truncation", "fine", "Fine.")
    not_asked = Finding("baseline", "not asked", "Not compared: that needs --train.")
    assert "--train" in sentences(report_with(fine, not_asked))[4]
    assert "texts from elsewhere" in sentences(report_with(fine))[4]


def test_the_first_sentence_of_the_worst_finding_of_a_question_is_said() -> None:
    quoted = "It takes 'a. B' for 'c', by 0.5 [0.1, 0.9]. More of it below. And more."
    said = sentences(
        report_with(
            Finding("errors", "fine", "Fine."),
            Finding("errors", "note", quoted),
            Finding("noise", "note", "Noise."),
        )
    )
    assert said[:2] == ("It takes 'a. B' for 'c', by 0.5 [0.1, 0.9].", "Noise.")
    assert "Fine." not in said


def test_the_next_step_has_the_numbers_where_there_are_some() -> None:
    numbers: dict[str, float | int | str | None] = {
        "recommended_policy": "tail",
        "recommended_max_length": 64,
    }
    said = sentences(report_with(Finding("truncation", "alarm", "Cut.", numbers)))
    assert "--policy tail --max-length 64" in said[4]


def test_findings_are_tallied_worst_first() -> None:
    assert tally(REPORT) == "1 alarm, 1 note, 1 fine, 1 not asked"
    twice = report_with(*[Finding("noise", "alarm", "a")] * 2, *[Finding("noise", "fine", "b")] * 2)
    assert tally(twice) == "2 alarms, 2 fine"
    assert tally(EMPTY) == ""
