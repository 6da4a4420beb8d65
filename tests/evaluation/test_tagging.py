"""What the evaluation of tags shows: rivals, types, kinds of mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from bothways.evaluation.evaluate import judge
from bothways.evaluation.result import Report, Table
from bothways.evaluation.tagging import trivial_results
from bothways.inference.results import Results
from bothways.tasks.results import TagResult
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample
from bothways.tokenization.encoding import Ledger

TRAIN = [
    TagExample.of_words(["Ann", "in", "Oslo"], ["B-PER", "O", "B-LOC"]),
    TagExample.of_words(["Oslo", "in", "May"], ["B-LOC", "O", "O"]),
    TagExample.of_words(["May", "Lee", "sang"], ["B-PER", "I-PER", "O"]),
]
TEST = [
    TagExample.of_words(["Ann", "Lee", "in", "Oslo"], ["B-PER", "I-PER", "O", "B-LOC"]),
    TagExample.of_words(["Bo", "in", "May"], ["B-PER", "O", "O"]),
]
TASK = TagTask().fit(TRAIN)


def results(task: TagTask, *tags: list[str], ledger: Ledger | None = None) -> Results:
    made = [
        TagResult(example.words, tuple(said), ()) for example, said in zip(TEST, tags, strict=True)
    ]
    return Results(made, ledger)


SAID = (["B-PER", "O", "O", "B-PER"], ["O", "O", "O"])


def report(task: TagTask = TASK, **options: Any) -> Report:
    return judge(task, TEST, results(task, *SAID, **options), train=TRAIN, resamples=50)


def table(made: Report, name: str) -> Table:
    (found,) = [each for each in made.tables if each.name == name]
    return found


def test_baselines_are_the_commonest_tag_and_that_of_each_word() -> None:
    """An unknown word has the commonest tag; of two equally frequent ones the first wins."""
    rivals = trivial_results(TASK, TEST, TRAIN)
    assert [result.tags for result in rivals["majority"]] == [("O",) * 4, ("O",) * 3]
    assert [result.tags for result in rivals["dictionary"]] == [
        ("B-PER", "I-PER", "O", "B-LOC"),
        ("O", "O", "B-PER"),
    ]
    (person, place) = rivals["dictionary"][0].spans
    assert (person.text, place.text) == ("Ann Lee", "Oslo")


def test_without_training_words_there_is_the_stored_majority_alone() -> None:
    assert set(trivial_results(TASK, TEST, None)) == {"majority"}
    made = judge(TASK, TEST, results(TASK, *SAID), resamples=50)
    assert any(
        finding.severity == "not asked" and "tag of each word" in finding.text
        for finding in made.findings
    )


def test_each_type_and_each_kind_of_mistake_is_counted() -> None:
    made = report()
    rows = {row[0]: row[1:7] for row in table(made, "types").rows}
    assert rows == {"PER": (2, 2, 0, 0.0, 0.0, 0.0), "LOC": (1, 0, 0, 0.0, 0.0, 0.0)}
    outcomes = {row[0]: row[1:] for row in table(made, "outcomes").rows}
    # right, boundary, type, both, missed, invented
    assert outcomes == {
        "LOC": (0, 0, 1, 0, 0, 0),
        "PER": (0, 1, 0, 0, 1, 0),
        "all": (0, 1, 1, 0, 1, 0),
    }
    assert made.metrics["accuracy_tokens"].value == pytest.approx(4 / 7)
    assert made.baselines["dictionary"]["f1_strict"].value == pytest.approx(2 * 2 / (3 + 3))
    (rival,) = [finding for finding in made.findings if finding.question == "baseline"]
    assert rival.numbers["hardest"] == "dictionary"


def test_words_count_where_tags_make_no_spans() -> None:
    task = TagTask(scheme="none").fit(TRAIN)
    made = report(task)
    rows = {row[0]: row[1:4] for row in table(made, "tags").rows}
    assert rows["O"] == (3, 5, 3)
    mistakes = table(made, "mistakes").rows
    assert ("B-LOC", "B-PER", 1, 1.0) in mistakes
    (errors,) = [finding for finding in made.findings if finding.question == "errors"]
    assert f"to take {mistakes[0][0]!r} for {mistakes[0][1]!r} (1 time)" in errors.text
    assert set(made.metrics) == {"accuracy_tokens"}


def test_what_no_window_holds_is_a_finding() -> None:
    ledger = Ledger(texts=900, texts_cut=1, tokens=9000, tokens_cut=1, end="tail", targets_cut=3)
    (cut,) = [f for f in report(ledger=ledger).findings if f.question == "truncation"]
    assert "3 of what was to be found lies in no window whole" in cut.text
    assert cut.severity == "note"


def test_data_without_any_span_can_be_judged() -> None:
    plain = [TagExample.of_words(["so", "it", "goes"], ["O", "O", "O"])]
    said = Results([TagResult(plain[0].words, ("O", "B-PER", "O"), ())])
    made = judge(TASK, plain, said, train=TRAIN, resamples=20)
    assert made.metrics["f1_strict"].value == 0.0
    assert table(made, "outcomes").rows[-1][-1] == 1
