"""Copies are found, whatever they hide behind, and the score without them is that of the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bothways.data.duplicates import SHINGLE, THRESHOLD
from bothways.diagnostics.copies import find_copies
from bothways.diagnostics.duplicates import duplicates
from bothways.tasks.choice_reading import ChoiceExample
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.marking import RelateExample
from tests.diagnostics.planted import PLAIN, Planted, evidence_of, sentences
from tests.diagnostics.planted_artifacts import copies_across_splits

# MinHash finds a pair at the threshold in 95 % of all cases, and likelier ones oftener.
LEAST_RECALL = 0.95


def kinds(examples: list[object], others: list[object] | None = None) -> dict[int, str]:
    found = find_copies(examples, others, generator=np.random.default_rng(0))
    return {copy.index: copy.kind for copy in found}


LONG = "the quick brown fox jumps over the lazy dog and runs far away into the deep dark forest"


def texts(*given: str) -> list[object]:
    return [ClassifyExample(text) for text in given]


def test_letters_words_and_likeness_are_told_apart() -> None:
    others = texts("It is late.", LONG)
    examples = texts(" It is late.\n", "It is LATE!", f"{LONG} tonight", LONG[:50], "else", "!", "")
    assert kinds(examples, others) == {0: "exact", 1: "same words", 2: "nearly"}


def test_nothing_is_no_copy_of_nothing() -> None:
    assert kinds(texts("", " ", "!", "?"), texts("", "!")) == {2: "exact"}


def test_in_the_data_itself_the_first_is_the_original() -> None:
    found = find_copies(
        texts("one two", "two", "One, two", "one two"), generator=np.random.default_rng(0)
    )
    assert [(copy.index, copy.original, copy.kind) for copy in found] == [
        (2, 0, "same words"),
        (3, 0, "exact"),
    ]


def test_both_texts_of_a_pair_have_to_be_alike() -> None:
    other = ClassifyExample(LONG, "It is late")
    changed = [replace(other, pair=pair) for pair in ("it is late!", "It is early", LONG)]
    assert kinds([*changed], [other]) == {0: "same words"}


def test_entities_and_choices_tell_examples_apart() -> None:
    related = RelateExample("Ann met Bo and Cy", (0, 3), (8, 10))
    assert kinds([replace(related, second=(15, 17))], [related]) == {}
    assert kinds([replace(related, label="r")], [related]) == {0: "exact"}
    choice = ChoiceExample("Which is true?", ("this", "that"))
    assert kinds([replace(choice, choices=("one", "other"))], [choice]) == {}


def test_near_copies_are_those_of_all_pairs() -> None:
    draw = np.random.default_rng(5)

    def runs(text: str) -> set[str]:
        return {text[n : n + SHINGLE] for n in range(len(text) - SHINGLE + 1)}

    known, wanted = [], []
    for _ in range(150):
        words = draw.choice(PLAIN, 25)
        known.append(" ".join(words))
        changed = draw.random(25) < draw.choice([0.02, 0.05, 0.2])
        wanted.append(" ".join(np.where(changed, draw.choice(PLAIN, 25), words)))
    alike = {
        at
        for at, text in enumerate(wanted)
        if max(len(runs(text) & runs(other)) / len(runs(text) | runs(other)) for other in known)
        >= THRESHOLD
    }
    found = set(kinds(texts(*wanted), texts(*known)))
    assert 30 < len(alike) < 140
    assert found <= alike
    assert len(found) >= LEAST_RECALL * len(alike)


def test_the_score_without_copies_is_that_of_the_rest() -> None:
    evidence = evidence_of(copies_across_splits(np.random.default_rng(1), True), 1)
    found = duplicates(evidence)
    assert found.of_train is not None
    copied = {copy.index for copy in found.of_train.found}
    assert copied == set(range(20))
    rest = [credit for at, credit in enumerate(evidence.credit) if at not in copied]
    assert found.of_train.without is not None
    assert found.of_train.without.value == pytest.approx(np.mean(rest))
    assert found.of_train.alone is not None
    assert found.of_train.alone.value == pytest.approx(evidence.credit[:20].mean())
    assert found.of_train.loss is not None
    assert found.of_train.loss.value == pytest.approx(evidence.credit.mean() - np.mean(rest))
    finding = found.findings()[0]
    assert (finding.severity, finding.numbers["in_train"]) == ("alarm", 20)
    scores, listed = found.tables()
    assert [row[1] for row in scores.rows] == [100, 20, 80]
    assert len(listed.rows) == 20


def test_other_labels_of_copies_are_counted() -> None:
    planted = copies_across_splits(np.random.default_rng(1), True)
    test = [replace(e, label="sad") for e in planted.test]
    found = duplicates(evidence_of(replace(planted, test=test), 1))
    assert found.of_train is not None
    originals = [planted.train[copy.original].label for copy in found.of_train.found]
    assert found.of_train.relabelled == sum(label != "sad" for label in originals) > 0
    assert f"{found.of_train.relabelled} with another label" in found.findings()[0].text


def test_without_training_texts_the_data_itself_is_asked() -> None:
    draw = np.random.default_rng(0)
    examples = sentences(draw, 50)
    planted = Planted(sentences(draw, 60), [*examples, *examples[:25]])
    found = duplicates(replace(evidence_of(planted), train_examples=None))
    not_asked, repeated = found.findings()
    assert not_asked.severity == "not asked"
    assert "--train" in not_asked.text
    assert (repeated.severity, repeated.numbers["repeated"]) == ("note", 25)
    assert found.of_train is None


def test_a_few_texts_give_no_alarm() -> None:
    examples = sentences(np.random.default_rng(0), 60)
    found = duplicates(evidence_of(Planted(examples, examples[:10])))
    assert found.findings()[0].severity == "note"
    assert found.of_train is not None
    assert found.of_train.without is None
