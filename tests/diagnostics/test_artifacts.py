"""Shortcuts: what cues there are, what is told of them, and tasks of every kind that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from bothways.diagnostics.artifacts import Artifacts, Shortcut, artifacts
from bothways.diagnostics.associations import Association, associations
from bothways.diagnostics.cues import features, format_marks, lengths, most_telling, tokens
from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked
from bothways.evaluation.result import Metric
from bothways.inference.results import Results
from bothways.tasks.answer import AnswerTask
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.choice import ChoiceTask, choice_result
from bothways.tasks.choice_reading import ChoiceExample
from bothways.tasks.classify import ClassifyExample, label_result
from bothways.tasks.label_sets import MultiLabelExample
from bothways.tasks.marking import RelateExample
from bothways.tasks.multi_label import MultiLabelTask
from bothways.tasks.regress import RegressExample, RegressTask
from bothways.tasks.relate import RelateTask
from bothways.tasks.results import AnswerResult, Result, ScoreResult
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample, tag_result
from bothways.tokenization.policy import CutPolicy
from tests.diagnostics.planted import PLAIN, Draw, Planted, evidence_of, sentences, stand_in
from tests.diagnostics.planted_artifacts import (
    a_label_leaked_by_one_word,
    a_label_leaked_by_punctuation,
    a_second_text_that_does_alone,
)


def asked(plant: Callable[[Draw, bool], Planted], faulty: bool = True) -> Artifacts:
    return artifacts(evidence_of(plant(np.random.default_rng(3), faulty), 3))


def test_a_leaked_label_is_named_with_the_mark_that_leaks_it() -> None:
    found = asked(a_label_leaked_by_punctuation)
    of_label, overall = found.findings()
    assert overall.severity in ("fine", "note")
    assert of_label.severity == "alarm"
    assert "'glad' by punctuation and format alone" in of_label.text
    assert "training texts with '!'" in of_label.text
    assert {"artifacts", "artifacts_labels", "artifacts_words"} == {t.name for t in found.tables()}


def test_one_word_that_does_is_an_alarm_with_the_share_of_the_gain() -> None:
    found = asked(a_label_leaked_by_one_word)
    (finding,) = found.findings()
    assert finding.severity == "alarm"
    word = next(each for each in found.shortcuts if each.name == "the word 'no'")
    gain = found.model.value - found.uninformed.value
    assert word.share == pytest.approx((word.score.value - found.uninformed.value) / gain)
    assert word.behind.value == pytest.approx(found.model.value - word.score.value)
    assert finding.numbers["share_of_gain"] == max(each.share for each in found.shortcuts)
    bars = found.figures()[0].series[0]
    assert bars.x[:2] == ("this model", "the most frequent answer")
    assert "with 'no', " in finding.text


def test_both_texts_of_a_pair_are_asked_and_trained_on_again() -> None:
    seen: list[ClassifyExample] = []

    def retrain(train: Sequence[Any], examples: Sequence[Any]) -> list[Result]:
        seen.extend([train[0], examples[0]])
        return [label_result(("calm", "glad", "sad"), np.array([1.0, 0.0, 0.0]))] * len(examples)

    planted = a_second_text_that_does_alone(np.random.default_rng(0), True)
    found = artifacts(evidence_of(planted), retrain=retrain)
    parts = [f"{kind}{part}" for part in ("the first text", "the second text") for kind in KINDS]
    parts += [f"{part}, fine-tuned" for part in ("the first text", "the second text")]
    assert set(parts) <= {each.name for each in found.shortcuts}
    train, test = planted.train[0], planted.test[0]
    assert [e.text for e in seen] == [train.text, test.text, train.pair, test.pair]
    assert all(e.pair is None for e in seen)


KINDS = ("words of ", "vectors of ")


@pytest.mark.parametrize(
    ("cue", "word"),
    [
        ("punctuation and format", "!"),
        ("stop words", "second: not"),
        ("words of the second text", "second: not"),
        ("words of the first text", "first: card"),
        ("the word 'first: card'", "first: card"),
        ("length", None),
        ("vectors of the second text", None),
    ],
)
def test_a_shortcut_is_told_by_a_word_of_its_own(cue: str, word: str | None) -> None:
    words = ("first: card", "!", "second: not")
    zero, one = Metric(0.0), Metric(1.0)
    shortcut = Shortcut(cue, "", one, one, zero, 1.0)
    known = tuple(Association("sad", each, 9, 8, 1.0) for each in words)
    found = Artifacts("accuracy", one, zero, (shortcut,), (), known, 100)
    text = found.findings()[0].text
    assert [each for each in words if f"with {each!r}, 8 are 'sad'" in text] == [word][: bool(word)]


def test_what_a_model_without_a_gain_shows_is_not_asked() -> None:
    draw = np.random.default_rng(0)
    train = [replace(e, label=str(draw.choice(["calm", "sad"]))) for e in sentences(draw, 100)]
    with pytest.raises(NotAsked, match="itself is not shown to beat"):
        artifacts(evidence_of(Planted(train[:60], train[60:])))


def test_training_texts_are_needed() -> None:
    draw = np.random.default_rng(0)
    evidence = evidence_of(Planted(sentences(draw, 60), sentences(draw, 30)))
    with pytest.raises(NotAsked, match="--train"):
        artifacts(replace(evidence, train_examples=None))


def test_a_few_texts_give_no_alarm() -> None:
    planted = a_label_leaked_by_one_word(np.random.default_rng(0), True)
    few = evidence_of(replace(planted, test=planted.test[:15]))
    assert all(finding.severity != "alarm" for finding in artifacts(few).findings())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a b", ["begins 'a'", "ends 'a'", "no capital"]),
        ("Is it?", ["begins 'A'", "ends '?'", "1 '?'"]),
        ("OK   (7)", ["begins 'A'", "ends ')'", "3 ' '", "1 '('", "1 ')'", "a word in capitals"]),
        ("\u0e01\u0e34\n", ["begins 'a'", "ends '\\n'", "1 '\\n'"]),
    ],
)
def test_format_is_marks_spaces_and_capitals(text: str, expected: list[str]) -> None:
    assert list(format_marks(text)) == expected


def test_lengths_are_coarser_the_longer_a_text_is() -> None:
    def told(words: int) -> list[str]:
        return list(lengths("word " * words))

    assert told(19) != told(20)
    assert told(100) == told(101) != told(130)


def test_the_most_telling_word_is_that_of_a_tree_of_one_node() -> None:
    draw = np.random.default_rng(1)
    for _ in range(20):
        known = (draw.random((80, 6)) < draw.uniform(0.2, 0.8, 6)).astype(float)
        labels = draw.integers(0, 3, 80)
        labels[known[:, 2] == 1] = 1
        tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit(known, labels)
        assert most_telling(known, np.eye(3)[labels]) == tree.tree_.feature[0]


def test_features_of_a_pair_know_their_side() -> None:
    rows = [ClassifyExample("ah", "oh !" if n % 2 else "oh") for n in range(20)]
    made = features(tokens, rows, rows[:2])
    assert made is not None
    assert made.names == ("second: !",)
    assert made.new.toarray().tolist() == [[0.0], [1.0]]
    assert features(tokens, [ClassifyExample("ah")] * 20, []) is None


def test_information_is_smoothed_towards_nothing() -> None:
    rows = [ClassifyExample("ah !" if n < 30 else "ah") for n in range(120)]
    targets = np.eye(2)[[0 if n < 60 else 1 for n in range(120)]]
    (found,) = associations(rows, targets, ["glad", "sad"])
    assert (found.label, found.word, found.texts, found.with_label) == ("glad", "!", 30, 30)
    # 30 of 30, and 5 of 10 that are made up, where a half is usual.
    assert found.information == pytest.approx(np.log2((35 / 40) / 0.5))


Made = tuple[Any, list[Any], Sequence[Result]]


def _sets(draw: Draw) -> Made:
    """One of two labels is told by a mark."""
    examples = []
    for _ in range(300):
        labels = tuple(label for label in ("late", "rude") if draw.random() < 0.4)
        mark = "!" if "rude" in labels else "."
        late = "bon bus ber" if "late" in labels else "ba ba ba"
        examples.append(MultiLabelExample(f"{late} {mark}", labels=labels))
    task = MultiLabelTask().fit(examples)
    truth = [[float(label in (e.labels or ())) for label in task.labels] for e in examples]
    return task, examples, [task.result(np.array(row)) for row in truth]


def _numbers(draw: Draw) -> Made:
    """The number is that of the words."""
    examples = [
        RegressExample(" ".join(draw.choice(PLAIN, count)), label=float(count))
        for count in draw.integers(1, 12, 300).tolist()
    ]
    return RegressTask().fit(examples), examples, [ScoreResult(e.label or 0.0) for e in examples]


def _choices(draw: Draw) -> Made:
    """The right choice has the most words."""
    examples = []
    for right in draw.integers(0, 3, 300).tolist():
        choices = [" ".join(draw.choice(PLAIN, 3 + 3 * (n == right))) for n in range(3)]
        examples.append(ChoiceExample(str(draw.choice(PLAIN)), tuple(choices), label=right))
    sure = [choice_result(e, np.eye(3)[e.label].tolist()) for e in examples]
    return ChoiceTask().fit(examples), examples, sure


def _relations(draw: Draw) -> Made:
    """The relation is that of the second entity, whatever the sentence says."""
    examples = []
    for label in draw.integers(0, 3, 300).tolist():
        first, second = str(draw.choice(PLAIN[:20])), ("mus", "mer", "mon")[label]
        middle = " ".join(draw.choice(["mus", "mer", "mon"], 3))
        text = f"{first} {middle} {second}"
        spans = (0, len(first)), (len(text) - len(second), len(text))
        examples.append(RelateExample(text, *spans, label=f"rel-{label}(e1,e2)"))
    task = RelateTask().fit(examples)
    return task, examples, [label_result(task.labels, _one(task.labels, e.label)) for e in examples]


def _one(labels: Sequence[str], label: str | None) -> np.ndarray:
    return np.array([float(each == label) for each in labels])


def _tags(draw: Draw) -> Made:
    """Every name is in capitals."""
    examples = []
    for names in draw.integers(0, 4, (100, 6)):
        words = [str(draw.choice(PLAIN)) for _ in names]
        words = [
            word.upper() if name == 0 else word for word, name in zip(words, names, strict=True)
        ]
        tags = ["B-PER" if name == 0 else "O" for name in names]
        examples.append(TagExample.of_words(words, tags))
    task = TagTask().fit(examples)
    known = [{n: (tag, 1.0) for n, tag in enumerate(e.tags or ())} for e in examples]
    return (
        task,
        examples,
        [
            tag_result(e, each, task.form, default="O")
            for e, each in zip(examples, known, strict=True)
        ],
    )


def _answers(draw: Draw) -> Made:
    """The answer is always the second sentence."""
    examples, said = [], list[Result]()
    for _ in range(60):
        parts = [f"{' '.join(draw.choice(PLAIN, 4))}." for _ in range(3)]
        context = " ".join(parts)
        start = len(parts[0]) + 1
        answer = Answer(parts[1], start)
        examples.append(AnswerExample(str(draw.choice(PLAIN)), context, (answer,)))
        said.append(AnswerResult(parts[1], start, start + len(parts[1]), 1.0, 0.0))
    return AnswerTask().fit(examples), examples, said


@pytest.mark.parametrize(
    ("make", "best"),
    [
        (_sets, "punctuation and format"),
        (_numbers, "length"),
        (_choices, "length"),
        (_relations, "words of the two entities"),
        (_tags, "the shape of words"),
        (_answers, "the usual sentence"),
    ],
)
def test_every_kind_of_task_has_what_should_not_do_alone(
    make: Callable[[Draw], Made], best: str
) -> None:
    task, examples, said = make(np.random.default_rng(0))
    half = len(examples) // 2

    class Perfect(Evidence):
        """A model that is always right, and that says nothing without its question."""

        @cached_property
        def results(self) -> Results:
            return Results(said[half:])

        def predict(self, given: Sequence[Any], policy: CutPolicy | None = None) -> Results:
            del policy
            return Results([AnswerResult("", 0, 0, 1.0, 1.0)] * len(given))

    draw = np.random.default_rng(0)
    model = stand_in(Planted(sentences(draw, 50), []))
    evidence = Perfect(
        model, task, examples[half:], CutPolicy(64), train_examples=examples[:half], resamples=100
    )
    found = artifacts(evidence)
    assert best in [each.name for each in found.shortcuts if each.share >= 0.4]
    assert found.findings()[0].numbers["share_of_gain"] == found.shortcuts[0].share
    assert found.model.value == pytest.approx(1.0)
    if make is not _sets:  # of which it tells one label of two
        assert found.findings()[0].severity == "alarm"


def test_a_task_without_parts_is_not_asked() -> None:
    draw = np.random.default_rng(0)
    evidence = evidence_of(Planted(sentences(draw, 40), sentences(draw, 20)))
    object.__setattr__(evidence.task, "name", "retrieval")
    with pytest.raises(NotAsked, match="not known of the task retrieval"):
        artifacts(evidence)
