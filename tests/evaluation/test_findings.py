"""What the evaluation says in words, from numbers."""

from __future__ import annotations

import pytest

from bothways.evaluation.findings import (
    TEXTS_CUT_ALARM,
    TEXTS_CUT_NOTE,
    TOO_FEW,
    baseline_finding,
    errors_finding,
    truncation_finding,
)
from bothways.evaluation.result import Finding, Metric, Severity
from bothways.tokenization.encoding import Ledger


def baseline(*gains: Metric, units: int = 100) -> Finding:
    names = ("majority", "bag_of_words")[: len(gains)]
    model = Metric(0.8, 0.75, 0.85)
    baselines = {name: Metric(0.8 - gain.value) for name, gain in zip(names, gains, strict=True)}
    return baseline_finding(
        "accuracy", model, baselines, dict(zip(names, gains, strict=True)), units
    )


@pytest.mark.parametrize(
    ("gain", "severity", "said"),
    [
        (Metric(0.1, 0.05, 0.15), "fine", "chance does not explain that"),
        (Metric(0.1, -0.01, 0.2), "note", "may be chance"),
        (Metric(0.1), "note", "may be chance"),
        (Metric(0.0), "alarm", "does not beat"),
        (Metric(-0.1, -0.2, 0.1), "alarm", "does not beat"),
    ],
)
def test_the_whole_interval_must_beat_the_baseline(
    gain: Metric, severity: Severity, said: str
) -> None:
    finding = baseline(gain)
    assert (finding.question, finding.severity) == ("baseline", severity)
    assert said in finding.text


def test_the_baseline_that_is_hardest_to_beat_decides() -> None:
    finding = baseline(Metric(0.3, 0.2, 0.4), Metric(0.02, -0.01, 0.05))
    assert finding.severity == "note"
    assert "bag of words (0.780)" in finding.text
    finding = baseline(Metric(0.3, 0.2, 0.4), Metric(0.2, 0.1, 0.3))
    assert "its best baseline, bag of words (0.600), by 0.200 [0.100, 0.300]" in finding.text
    assert finding.numbers["gain_over_majority_low"] == 0.2


def test_few_examples_prove_nothing_either_way() -> None:
    for gain in (Metric(0.5, 0.4, 0.6), Metric(-0.5, -0.6, -0.4)):
        assert baseline(gain, units=TOO_FEW - 1).severity == "note"
        assert "too few to tell" in baseline(gain, units=TOO_FEW - 1).text
        assert baseline(gain, units=TOO_FEW).severity != "note"


def cut(texts_cut: int, tokens_cut: int) -> Finding:
    return truncation_finding(
        Ledger(texts=1000, texts_cut=texts_cut, tokens=100_000, tokens_cut=tokens_cut, end="tail")
    )


def test_cut_texts_are_reported_by_how_many_they_are() -> None:
    """transformers#1666, sentence-transformers#4060: texts were cut and nobody could tell."""
    assert cut(int(1000 * TEXTS_CUT_NOTE), 50).severity == "fine"
    assert cut(int(1000 * TEXTS_CUT_NOTE) + 1, 50).severity == "note"
    assert cut(int(1000 * TEXTS_CUT_ALARM), 50).severity == "note"
    assert cut(int(1000 * TEXTS_CUT_ALARM) + 1, 50).severity == "alarm"


def test_much_lost_of_few_texts_is_an_alarm_too() -> None:
    finding = cut(50, 20_000)
    assert finding.severity == "alarm"
    assert finding.text == (
        "50 of 1,000 texts (5.0%) lost their end: 20,000 of 100,000 tokens (20.0%) were never read."
    )
    assert finding.numbers["tokens_cut"] == 20_000


def test_nothing_cut_is_said_as_plainly() -> None:
    finding = truncation_finding(Ledger(texts=3, tokens=10))
    assert finding.severity == "fine"
    assert finding.text == "No text was cut: all 3 were read whole."
    assert truncation_finding(Ledger()).severity == "fine"
    dropped = truncation_finding(Ledger(texts=3, tokens=10, dropped_characters=2))
    assert dropped.text.endswith("all 3 were read whole. 2 characters became no token.")


def test_the_weakest_label_and_the_commonest_mistake_are_named() -> None:
    by_label = {"a": Metric(0.9, 0.85, 0.95), "b": Metric(0.8, 0.7, 0.9), "never": Metric(0.0)}
    support = {"a": 50, "b": 40, "never": 0}
    finding = errors_finding(by_label, support, ("a", "b", 7))
    assert finding.severity == "fine"
    assert finding.text.startswith("The weakest label is 'b' (F1 0.800 [0.700, 0.900], 40 exam")
    assert "to take 'a' for 'b' (7 times)" in finding.text


def test_a_label_far_below_the_others_is_a_note_if_there_is_enough_of_it() -> None:
    by_label = {"a": Metric(0.9, 0.85, 0.95), "b": Metric(0.1, 0.05, 0.2)}
    mistake = ("b", "a", 30)
    assert errors_finding(by_label, {"a": 50, "b": 40}, mistake).severity == "note"
    assert errors_finding(by_label, {"a": 50, "b": TOO_FEW - 1}, mistake).severity == "fine"


def test_no_mistake_is_said_plainly() -> None:
    finding = errors_finding({"a": Metric(1.0), "b": Metric(1.0)}, {"a": 5, "b": 5}, None)
    assert finding.text == "Every prediction is right."
