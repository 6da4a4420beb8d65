"""What any model should beat: the majority label, and a linear model on bags of words.

Each gives predictions like a model's, so that they get the same metrics and intervals. The
majority needs the label counts that the task stores; the bag of words needs the training texts.
What is said about a model that does not beat them is in `findings.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.tasks.classify import label_result
from bothways.tasks.results import LabelResult
from bothways.tasks.texts import Texts

# Words; in scripts written without spaces (Thai, Lao, Burmese, Khmer, Chinese, Japanese) every
# character, so that pairs of neighbours serve as words.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
TOKEN_PATTERN = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+"

# The inverse of the regularisation. On real sets of 700 to 10,000 texts 10 was never worse than
# 1, by up to 15 points of accuracy, because TF-IDF features are small.
INVERSE_REGULARISATION = 10.0


def majority(
    label_counts: Mapping[str, int], labels: Sequence[str], count: int
) -> list[LabelResult]:
    """The most frequent training label, `count` times, with the shares as probabilities.

    Args:
        label_counts: training examples of each label.
        labels: in the model's order; the first of equally frequent ones wins.
        count: number of examples to predict.

    Example:
        >>> majority({"no": 1, "yes": 3}, ["no", "yes"], 1)[0].label
        'yes'
    """
    counts = np.array([label_counts.get(label, 0) for label in labels], dtype=np.float64)
    return [label_result(labels, counts / max(counts.sum(), 1.0))] * count


def bag_of_words(
    train: Sequence[Texts],
    train_labels: Sequence[str],
    examples: Sequence[Texts],
    labels: Sequence[str],
) -> list[LabelResult]:
    """Logistic regression on TF-IDF of words and word pairs; each side of a pair on its own.

    Args:
        train: training examples.
        train_labels: as many labels.
        examples: to predict.
        labels: in the model's order; those that are not in training get probability 0.
    """
    from sklearn.linear_model import LogisticRegression

    counts = Counter(train_labels)
    if len(counts) < 2 or not _have_words(train):
        return majority(counts, labels, len(examples))
    known, new = _features(train, examples)
    model = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000)
    model.fit(known, list(train_labels))
    found: NDArray[np.float64] = model.predict_proba(new)
    column = {str(label): number for number, label in enumerate(model.classes_)}
    probabilities = np.zeros((len(examples), len(labels)))
    for number, label in enumerate(labels):
        if label in column:
            probabilities[:, number] = found[:, column[label]]
    return [label_result(labels, row) for row in probabilities]


def bag_of_words_numbers(
    train: Sequence[Texts], train_numbers: NDArray[np.float64], examples: Sequence[Texts]
) -> NDArray[np.float64]:
    """Ridge regression on the same TF-IDF features, and for pairs on what both sides share.

    Args:
        train: training examples.
        train_numbers: as many numbers.
        examples: to predict.
    """
    from scipy.sparse import csr_array, hstack
    from sklearn.linear_model import Ridge

    texts = (f"{example.text} {example.pair or ''}" for example in train)
    if not any(re.search(TOKEN_PATTERN, text) for text in texts):
        return np.full(len(examples), train_numbers.mean())
    known, new = _features(train, examples)
    if all(example.pair is not None for example in train):
        known, new = (
            hstack([features, csr_array(_shared_words(given))]).tocsr()
            for features, given in ((known, train), (new, examples))
        )
    model = Ridge(alpha=1.0, random_state=0)
    found: NDArray[np.float64] = model.fit(known, train_numbers).predict(new)
    return found


def _shared_words(examples: Sequence[Texts]) -> NDArray[np.float64]:
    """Share of the words of both texts of each pair that stand in both, (n, 1)."""
    shares = []
    for example in examples:
        one, other = (
            set(re.findall(TOKEN_PATTERN, text.lower()))
            for text in (example.text, example.pair or "")
        )
        shares.append([len(one & other) / max(len(one | other), 1)])
    return np.array(shares, dtype=np.float64).reshape(-1, 1)


def bag_of_words_shares(
    train: Sequence[Texts],
    train_labels: Sequence[Collection[str]],
    examples: Sequence[Texts],
    labels: Sequence[str],
) -> NDArray[np.float64]:
    """The probability of each label on its own, (examples, labels), as in `bag_of_words`.

    Args:
        train: training examples.
        train_labels: the labels of each.
        examples: to predict.
        labels: in the model's order; one that all or none have gets its share.
    """
    from sklearn.linear_model import LogisticRegression

    truth = np.array([[label in known for label in labels] for known in train_labels])
    probabilities = np.tile(truth.mean(0), (len(examples), 1))
    if not _have_words(train):
        return probabilities
    known, new = _features(train, examples)
    for number in np.flatnonzero(truth.any(0) & ~truth.all(0)):
        model = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000)
        model.fit(known, truth[:, number])
        probabilities[:, number] = model.predict_proba(new)[:, 1]
    return probabilities


def _have_words(train: Sequence[Texts]) -> bool:
    return any(
        re.search(TOKEN_PATTERN, f"{example.text} {example.pair or ''}") for example in train
    )


def _features(train: Sequence[Texts], examples: Sequence[Texts]) -> tuple[Any, Any]:
    """TF-IDF matrices of the training and the other examples."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    known, new = [], []
    for field in ("text", "pair"):
        texts = [getattr(example, field) or "" for example in train]
        if not any(re.search(TOKEN_PATTERN, text) for text in texts):
            continue
        vectorizer = TfidfVectorizer(
            token_pattern=TOKEN_PATTERN, ngram_range=(1, 2), sublinear_tf=True
        )
        known.append(vectorizer.fit_transform(texts))
        new.append(vectorizer.transform([getattr(example, field) or "" for example in examples]))
    return hstack(known).tocsr(), hstack(new).tocsr()
