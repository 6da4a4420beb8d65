"""What any model should beat: the majority label, and a linear model on bags of words.

Each gives predictions like a model's, so that they get the same metrics and intervals. The
majority needs the label counts that the task stores; the bag of words needs the training texts.
The linear models themselves are in `linear.py`.
What is said about a model that does not beat them is in `findings.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.linear import linear_labels, linear_numbers, linear_shares, majority
from bothways.tasks.results import LabelResult
from bothways.tasks.texts import Texts

# Words; in scripts written without spaces (Thai, Lao, Burmese, Khmer, Chinese, Japanese) every
# character, so that pairs of neighbours serve as words.
UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
TOKEN_PATTERN = rf"[{UNSPACED}]|[^\W{UNSPACED}]+"


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
    if not have_words(train):
        return majority(Counter(train_labels), labels, len(examples))
    known, new = word_features(train, examples)
    return linear_labels(known, train_labels, new, labels)


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

    if not have_words(train):
        return np.full(len(examples), train_numbers.mean())
    known, new = word_features(train, examples)
    if all(example.pair is not None for example in train):
        known, new = (
            hstack([features, csr_array(_shared_words(given))]).tocsr()
            for features, given in ((known, train), (new, examples))
        )
    return linear_numbers(known, train_numbers, new)


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
    if not have_words(train):
        shares = [[label in known for label in labels] for known in train_labels]
        return np.tile(np.mean(shares, axis=0), (len(examples), 1))
    known, new = word_features(train, examples)
    return linear_shares(known, train_labels, new, labels)


def have_words(train: Sequence[Texts]) -> bool:
    """Whether some example has a word, without which there is nothing to count."""
    return any(
        re.search(TOKEN_PATTERN, f"{example.text} {example.pair or ''}") for example in train
    )


def word_features(train: Sequence[Texts], examples: Sequence[Texts]) -> tuple[Any, Any]:
    """TF-IDF of words and word pairs, each side of a pair on its own.

    Args:
        train: training examples, some of which have a word.
        examples: others.

    Returns:
        Sparse matrices (training examples, features) and (examples, features).
    """
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
