"""Exact match and F1 of answers, counted as SQuAD counts them, but as shares from 0 to 1.

An answer is compared after normalisation: lower case, ASCII punctuation taken out, the English
articles taken out, white space made single spaces. F1 is over words between spaces, so in scripts
without spaces (Chinese, Japanese, Thai) a whole answer is one word and F1 is nearly exact match;
articles of other languages count as words, and punctuation beyond ASCII stays.

Source: Rajpurkar et al. 2016 and, for questions without an answer, Rajpurkar et al. 2018.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """What of an answer is compared.

    Example:
        >>> normalised("The  U.S. Navy's")
        'us navys'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answer: str) -> float:
    """1 where both are equal once normalised, else 0.

    Example:
        >>> exact_match("the Rhine", "Rhine.")
        1.0
    """
    return float(normalised(predicted) == normalised(answer))


def word_f1(predicted: str, answer: str) -> float:
    """Harmonic mean of the shares of words that both have; 1 or 0 where either has none.

    Example:
        >>> word_f1("in the river Rhine", "the Rhine")
        0.5
    """
    mine, true = normalised(predicted).split(), normalised(answer).split()
    if not mine or not true:
        return float(mine == true)
    shared = sum((Counter(mine) & Counter(true)).values())
    return 2 * shared / (len(mine) + len(true))


class AnswerScores:
    """Scores of predictions, by index, so that resampling need not compare texts again.

    Args:
        predicted: a text a question; empty for no answer.
        answers: of each question the texts that count as right; none where there is no answer.
            Those that are nothing once normalised are left out.

    Attributes:
        exact, f1: (questions,) of each question, the best over its answers.
        has_answer: (questions,) whether it has one.
    """

    def __init__(self, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> None:
        pairs = list(zip(predicted, map(_to_compare, answers), strict=True))
        self.exact = _best(exact_match, pairs)
        self.f1 = _best(word_f1, pairs)
        self.has_answer = np.array([bool(given) for given in answers], dtype=bool)

    def scores(self, some: NDArray[np.int64]) -> dict[str, float]:
        """exact_match and f1; f1_has_answer and f1_no_answer too, where both kinds occur.

        Args:
            some: indices of questions, repeats allowed.
        """
        found = {"exact_match": float(self.exact[some].mean()), "f1": float(self.f1[some].mean())}
        if not self.has_answer.all() and self.has_answer.any():
            for name, kind in (("has", self.has_answer), ("no", ~self.has_answer)):
                of_kind = self.f1[some][kind[some]]
                found[f"f1_{name}_answer"] = float(of_kind.mean()) if len(of_kind) else float("nan")
        return found


def _to_compare(answers: Sequence[str]) -> Sequence[str]:
    return [answer for answer in answers if normalised(answer)] or [""]


def _best(
    score: Callable[[str, str], float], pairs: Sequence[tuple[str, Sequence[str]]]
) -> NDArray[np.float64]:
    best = [max(score(predicted, answer) for answer in answers) for predicted, answers in pairs]
    return np.array(best, dtype=np.float64)
