"""What a choice says of itself."""

from __future__ import annotations

from bothways.evaluation.result import Metric
from bothways.ladder.climbing import Rung
from bothways.ladder.deciding import Bar
from bothways.ladder.dividing import Divided
from bothways.ladder.entries import Entry
from bothways.ladder.evidence import Evidence
from bothways.ladder.findings import (
    candidates_finding,
    choice_finding,
    clock,
    confirmed,
    evidence_finding,
    language_finding,
    overlap_finding,
    training_finding,
)
from bothways.training.examples import Splits

BAR = Bar("accuracy", 0.8, 1, looks=6)


def tried(name: str, score: Metric, *, probe: float = 0.5) -> Entry:
    rung = Rung(score, {}, "run")
    entry = Entry(name, name, 1, rung=rung, evidence=Evidence(probe, 0.5, -0.7, ()))
    cleared = rung.cleared(BAR)
    entry.settle("chosen" if cleared else "below target", rung.sentence(BAR))
    return entry


def said(best: Entry, tested: Metric) -> tuple[str, str]:
    found = choice_finding([best], best, BAR, tested, spent=60.0, of_all=600.0)
    return found.severity, found.text


def test_a_choice_that_holds_says_on_which_grounds() -> None:
    severity, text = said(tried("small", Metric(0.86, 0.81, 0.9)), Metric(0.85, 0.79, 0.9))
    assert severity == "fine"
    for part in ("small", "accuracy >= 0.8", "at least 0.810", "6 looks", "60 s", "10.0 min"):
        assert part in text


def test_a_choice_that_the_untouched_part_contradicts_is_an_alarm() -> None:
    severity, text = said(tried("small", Metric(0.86, 0.81, 0.9)), Metric(0.7, 0.62, 0.78))
    assert severity == "alarm"
    assert "do not rely on it" in text


def test_no_choice_names_the_best_and_whom_the_budget_did_not_reach() -> None:
    best, later = tried("small", Metric(0.7, 0.6, 0.78)), Entry("large", "large", 2)
    later.settle("no budget", "needs more")
    found = choice_finding([best, later], best, BAR, Metric(0.7), spent=1.0, of_all=2.0)
    assert found.severity == "alarm"
    assert "No candidate is shown" in found.text
    assert "did not reach large" in found.text


def test_an_upper_end_confirms_where_less_is_better() -> None:
    bar = Bar("mae", 0.5, -1, 1)
    assert confirmed(Metric(0.55, 0.45, 0.65), bar)
    assert not confirmed(Metric(0.65, 0.55, 0.75), bar)


def test_less_than_a_probe_is_too_little_training() -> None:
    short = tried("small", Metric(0.55, 0.45, 0.65), probe=0.72)
    enough = tried("large", Metric(0.7, 0.6, 0.78), probe=0.72)
    (found,) = training_finding([short, enough], BAR)
    assert found.severity == "alarm"
    assert "small 0.550, its linear probe 0.720" in found.text
    assert "large 0.7" not in found.text
    assert not training_finding([enough], BAR)
    assert not training_finding([short], Bar("loss", 0.3, -1, 1))


def test_who_failed_was_left_out_or_speaks_another_language_is_said() -> None:
    failed, skipped = Entry("a", "a", 1), Entry("b", "b", 2)
    failed.settle("failed", "there is no folder a")
    skipped.settle("skipped", "it tells nothing")
    (broken,) = candidates_finding([failed, skipped])
    assert "1 of 2 candidates could not be tried. a: there is no folder a." in broken.text
    assert not candidates_finding([skipped])
    assert "b was left out: it tells nothing." in evidence_finding([skipped], "").text
    assert evidence_finding([skipped], "there is only one").severity == "not asked"
    (language,) = language_finding({"a": "the texts look French, and its vocabulary English"})
    assert language.severity == "note"
    assert "French" in language.text
    assert not language_finding({})


def test_what_was_taken_out_is_counted() -> None:
    splits = Splits(None, [], [], [])  # type: ignore[arg-type]
    (found,) = overlap_finding(Divided(splits, removed=3, removed_dev=1))
    assert "3 examples of what is learned from and 1 example of what chooses were" in found.text
    assert not overlap_finding(Divided(splits))


def test_times_are_said_as_people_do() -> None:
    assert [clock(each) for each in (5, 300, 10_000)] == ["5 s", "5.0 min", "2.8 h"]
