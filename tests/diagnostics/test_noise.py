"""Noise changes letters and nothing else; what it costs is compared pair by pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.noise import noise
from bothways.diagnostics.noises import NOISES, noisy
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.choice_reading import ChoiceExample
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.marking import RelateExample
from bothways.tasks.schemes import SCHEMES
from bothways.tasks.tag_examples import TagExample
from tests.diagnostics.planted import Planted, evidence_of, sentences

TEXT = "Der Müller, élève of NATO's 2nd film club, said: 'modern clowns vanish'."
KINDS = pytest.mark.parametrize("kind", NOISES)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Single words tell the label, so that typos in them cost what they told."""
    draw = np.random.default_rng(2)
    return evidence_of(Planted(sentences(draw, 150, sure=1.0), sentences(draw, 120, sure=1.0)))


def spoil(kind: str, text: str, share: float, seed: int = 0) -> str:
    return NOISES[kind].change(text, share, np.random.default_rng(seed))


@KINDS
def test_noise_of_no_share_changes_nothing_and_spaces_stay(kind: str) -> None:
    assert spoil(kind, TEXT, 0.0) == TEXT
    changed = spoil(kind, TEXT, 1.0)
    assert changed != TEXT
    assert changed.count(" ") == TEXT.count(" ")


@KINDS
def test_noise_is_a_function_of_its_random_numbers(kind: str) -> None:
    assert spoil(kind, TEXT, 0.5, seed=3) == spoil(kind, TEXT, 0.5, seed=3)
    assert len({spoil(kind, TEXT * 3, 0.5, seed=seed) for seed in range(5)}) > 1


def test_each_kind_does_what_it_says() -> None:
    assert spoil("accents", TEXT, 1.0) == TEXT.replace("ü", "u").replace("é", "e").replace("è", "e")
    assert spoil("punctuation", TEXT, 1.0) == "".join(c for c in TEXT if c not in ",.:'")
    assert spoil("case", TEXT, 1.0).lower() == TEXT.lower()
    assert spoil("scan", "corn 50", 1.0) == "eom S0".replace("S0", "So").replace("eo", "e0")
    assert spoil("accents", "ไทยด้วย 한국", 1.0) == "ไทยด้วย 한국"
    assert spoil("accents", "e\u0301te\u0301", 1.0) == "ete"


def test_typos_touch_as_many_letters_as_they_should() -> None:
    text = "q" * 4000
    changed = spoil("typos", text, 0.1)
    # Of q: left out, doubled, w or a (one way), swapped with itself; so as long as before.
    wrong = changed.count("w")
    assert wrong == pytest.approx(4000 * 0.1 / 4, rel=0.35)
    assert set(changed) == {"q", "w"}
    assert spoil("typos", "123 !?", 1.0) == "123 !?"


def test_words_keep_their_tags() -> None:
    example = replace(
        TagExample.of_words(
            ["Ann", ",", "J.", ".", "sings", "!"], ["B-PER", "O", "B-PER", "I-PER", "O", "O"]
        ),
        place="file, line 3",
    )

    def bare(text: str) -> str:
        return spoil("punctuation", text, 1.0)

    found = noisy(example, bare, "tag", SCHEMES["bio"])
    assert found.words == ("Ann", "J", ".", "sings")
    assert found.tags == ("B-PER", "B-PER", "I-PER", "O")
    assert [found.text[start:end] for start, end in found.offsets] == list(found.words)
    assert found.place == example.place
    parts = noisy(replace(example, tags=("X",) * 6), bare, "tag", None)
    assert parts.tags == ("X",) * 3
    marks = TagExample.of_words(["!"], ["O"])
    assert noisy(marks, bare, "tag", SCHEMES["bio"]) == marks


def test_entities_stay_where_they_are() -> None:
    text = "The old mill, near the river."
    example = RelateExample(text, first=(8, 12), second=(19, 28), label="near")
    found = noisy(example, lambda piece: piece.replace("l", "lll").replace(" ", ""), "relate")
    assert found.text[slice(*found.first)] == "millllll"[:2] + "llllll"
    assert found.text[slice(*found.second)] == "theriver"
    inner = replace(example, second=(8, 10))
    nested = noisy(inner, str.upper, "relate")
    assert nested.text[slice(*nested.second)] == "MI"
    gone = noisy(replace(example, first=(12, 13)), lambda piece: piece.strip(" ,"), "relate")
    assert gone.text[slice(*gone.first)] == ","


def test_what_is_searched_is_left_alone() -> None:
    asked = AnswerExample("Who?", "It was Ann.", (Answer("Ann", 7),))
    assert noisy(asked, str.upper, "answer") == replace(asked, question="WHO?")
    chosen = ChoiceExample("Who?", ("a", "b"), pair="It was a.")
    assert noisy(chosen, str.upper, "multiple-choice") == replace(chosen, text="WHO?")
    both = ClassifyExample("a", "b", label="sad")
    assert noisy(both, str.upper, "classify") == replace(both, text="A", pair="B")


def test_typos_in_the_words_that_tell_cost_most(evidence: Evidence) -> None:
    found = noise(evidence)
    assert [each.kind for each in found.noisy] == ["typos"] * 2 + ["case"] * 2 + ["scan"] * 2
    weak, strong = found.noisy[:2]
    assert 0 < weak.changed < strong.changed <= 120
    assert strong.loss.value > weak.loss.value > 0
    assert strong.loss.value == pytest.approx(found.clean - strong.score)
    assert found.hurts[0].kind in ("typos", "scan")
    (finding,) = found.findings()
    assert finding.severity in ("alarm", "note")
    assert str(found.hurts[0]) in finding.text
    (table,), (figure,) = found.tables(), found.figures()
    assert [row[:2] for row in table.rows][:2] == [("typos", "weak"), ("typos", "strong")]
    assert figure.series[1].x == ("typos", "case", "scan")


def test_a_model_that_reads_no_case_loses_nothing_to_it(evidence: Evidence) -> None:
    found = noise(evidence, kinds=("case", "accents"))
    assert {each.kind for each in found.noisy} == {"case"}
    assert all(each.changed and each.loss.value == 0 for each in found.noisy)
    assert found.findings()[0].severity == "fine"
    assert noise(evidence, kinds=("accents",)).noisy == ()


def test_long_texts_are_fewer_and_a_handful_shows_nothing(evidence: Evidence) -> None:
    long = replace(evidence, examples=[replace(e, text=e.text * 40) for e in evidence.examples])
    assert noise(long, kinds=("case",)).texts == 120
    assert noise(evidence.those(np.arange(3))).findings()[0].severity == "note"
