"""The trivial baselines."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from bothways.data.readers import read_rows
from bothways.evaluation.baselines import bag_of_words, bag_of_words_numbers
from bothways.evaluation.linear import majority
from bothways.tasks.classify import ClassifyExample, ClassifyTask


def examples(*texts: str | tuple[str, str]) -> list[ClassifyExample]:
    return [ClassifyExample(*((text,) if isinstance(text, str) else text)) for text in texts]


def test_the_majority_label_comes_with_the_training_shares() -> None:
    results = majority({"no": 1, "yes": 3}, ("no", "yes"), 2)
    assert [result.label for result in results] == ["yes", "yes"]
    assert results[0].probabilities == {"no": 0.25, "yes": 0.75}


def test_the_first_of_equally_frequent_labels_is_the_majority() -> None:
    assert majority({"a": 2, "b": 2}, ("a", "b"), 1)[0].label == "a"


def test_words_decide_the_bag_of_words() -> None:
    train = examples("good film", "a good day", "bad film", "a bad day")
    labels = ["p", "p", "n", "n"]
    results = bag_of_words(train, labels, examples("good bad good", "bad", "unseen"), ("n", "p"))
    assert [result.label for result in results[:2]] == ["p", "n"]
    for result in results:
        assert sum(result.probabilities.values()) == pytest.approx(1)
        assert result.probability == max(result.probabilities.values())


def test_the_two_texts_of_a_pair_are_told_apart() -> None:
    """The label is in the second text only, and the same words stand in the first."""
    train = examples(
        *[(f"{a} x{n}", b) for n in range(5) for a in ("no", "yes") for b in ("no", "yes")]
    )
    labels = [example.pair or "" for example in train]
    results = bag_of_words(train, labels, examples(("no", "yes"), ("yes", "no")), ("no", "yes"))
    assert [result.label for result in results] == ["yes", "no"]


def test_scripts_without_spaces_are_read_by_their_characters() -> None:
    train = examples("我很喜欢这部电影", "这部电影很好看", "我讨厌这部电影", "这部电影很糟糕")
    results = bag_of_words(
        train, ["p", "p", "n", "n"], examples("喜欢好看", "讨厌糟糕"), ("n", "p")
    )
    assert [result.label for result in results] == ["p", "n"]


@pytest.mark.parametrize("texts", [("", " "), ("!!", "??")])
def test_without_words_the_bag_is_the_majority(texts: tuple[str, str]) -> None:
    train = examples(*texts, *texts)
    results = bag_of_words(train, ["a", "b", "b", "b"], examples("word"), ("a", "b"))
    assert results == majority({"a": 1, "b": 3}, ("a", "b"), 1)


def test_labels_that_the_model_has_and_training_lacks_get_nothing() -> None:
    train = examples("good", "bad")
    (result,) = bag_of_words(train, ["p", "n"], examples("good"), ("m", "n", "p"))
    assert list(result.probabilities) == ["m", "n", "p"]
    assert result.probabilities["m"] == 0
    assert result.label == "p"


def test_the_bag_of_words_on_movie_reviews(real_data: Path) -> None:
    """A plain bag of words reaches about 0.77 on these sentences with 9,000 to train on."""
    rows = read_rows(real_data / "mr" / "rt-polarity.all", encoding="latin-1")
    found = ClassifyTask().read(rows)
    random.Random(0).shuffle(found)
    train, test = found[:4000], found[4000:6000]
    task = ClassifyTask().fit(train)
    results = bag_of_words(train, [e.label or "" for e in train], test, task.labels)
    right = np.mean([r.label == e.label for r, e in zip(results, test, strict=True)])
    assert 0.70 < right < 0.80


def test_words_decide_the_number() -> None:
    train = examples("good film", "a good day", "bad film", "a bad day")
    numbers = bag_of_words_numbers(train, np.array([4.0, 4.0, 0.0, 0.0]), examples("good", "bad"))
    assert numbers[0] > 2 > numbers[1]


def test_shared_words_decide_the_number_of_a_pair() -> None:
    """No word tells, since each stands on both sides of alike and of unlike pairs."""
    words = ["red", "blue", "green", "white"]
    train = examples(*[(one, other) for one in words for other in words])
    numbers = np.array([float(example.text == example.pair) for example in train])
    same, other = bag_of_words_numbers(train, numbers, examples(("new", "new"), ("new", "old")))
    assert same > other + 0.3


def test_without_words_the_number_is_the_mean() -> None:
    found = bag_of_words_numbers(examples("!", "?"), np.array([1.0, 3.0]), examples("new"))
    assert found.tolist() == [2.0]
