"""Cues: what should not tell the answer by itself, as names of features of a text.

Length, punctuation and format, stop words, any one token; of a pair each text has its own. Which
predictions they lead to is in `alone.py`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.baselines import TOKEN_PATTERN
from bothways.tasks.texts import Texts

# A feature is looked at if so many training texts have it.
LEAST_TEXTS = 5
# Up to so many words are counted exactly, above that in steps of a quarter octave.
COUNTED_WORDS = 20
STEPS = 4
# A mark that stands in a row so often, or oftener, is told apart no further.
MOST_IN_A_ROW = 4
# In scikit-learn's list of English stop words, and none.
CONTENT_WORDS = frozenset(
    re.findall(
        r"\w+",
        "amount bill bottom call cry describe detail fill find fire found front full give interest "
        "keep made mill mine move name part put see serious show side sincere system take thick "
        "thin top",
    )
)

Cue = Callable[[str], Iterator[str]]


def lengths(text: str) -> Iterator[str]:
    """How many characters and words there are.

    Example:
        >>> list(lengths("Well done!"))
        ['characters 13', 'words 2']
    """
    words = len(text.split())
    yield f"characters {_step(len(text))}"
    yield f"words {words if words <= COUNTED_WORDS else f'about {_step(words)}'}"


def format_marks(text: str) -> Iterator[str]:
    """Punctuation, symbols, white space and capitals, with no letter or digit.

    Example:
        >>> list(format_marks("Well done!!"))
        ["begins 'A'", "ends '!'", "2 '!'"]
    """
    if not text:
        return
    yield f"begins {character_kind(text[0])!r}"
    yield f"ends {character_kind(text[-1])!r}"
    for mark, run in groupby(text):
        if character_kind(mark) in "Aa0":
            continue
        count = min(len(list(run)), MOST_IN_A_ROW)
        if count > 1 or mark != " ":
            yield f"{count} {mark!r}"
    for word in text.split():
        if len(word) > 1 and word.isupper():
            yield "a word in capitals"
    if text.islower():
        yield "no capital"


def stop_words(text: str) -> Iterator[str]:
    """The English words that have no content of their own.

    Example:
        >>> list(stop_words("This is not the end"))
        ['this', 'is', 'not', 'the']
    """
    known = _english()
    for word in re.findall(r"[^\W\d_]+", text.lower()):
        if word in known:
            yield word


def tokens(text: str) -> Iterator[str]:
    """Words in small letters, and marks.

    Example:
        >>> list(tokens("Well done!"))
        ['well', 'done', '!']
    """
    for match in re.finditer(rf"{TOKEN_PATTERN}|[^\w\s]", text.lower()):
        yield match.group()


CUES: Mapping[str, Cue] = {
    "length": lengths,
    "punctuation and format": format_marks,
    "stop words": stop_words,
}


@dataclass(frozen=True)
class Features:
    """Which texts have which features of a cue.

    Attributes:
        known, new: sparse, of 0 and 1: (training texts, features) and (texts, features).
        names: of the features.
    """

    known: Any
    new: Any
    names: tuple[str, ...]


def features(cue: Cue, train: Sequence[Texts], examples: Sequence[Texts] = ()) -> Features | None:
    """Which texts have which features of a cue; None where no feature is frequent enough.

    Args:
        cue: names the features of a text.
        train: training texts; a feature must be in LEAST_TEXTS of them, and not in all.
        examples: others.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    def named(row: Texts) -> list[str]:
        if row.pair is None:
            return list(cue(row.text))
        sides = (("first", row.text), ("second", row.pair))
        return [f"{side}: {name}" for side, text in sides for name in cue(text)]

    least = min(LEAST_TEXTS, max(len(train) // 20, 1))
    counter = CountVectorizer(analyzer=named, binary=True, min_df=least, dtype=np.float64)
    try:
        known = counter.fit_transform(train)
    except ValueError:  # no feature is in so many texts
        return None
    counts = np.asarray(known.sum(0)).ravel()
    varied = np.flatnonzero(counts < len(train))
    if not len(varied):
        return None
    names = tuple(map(str, counter.get_feature_names_out()[varied]))
    return Features(known[:, varied], counter.transform(examples)[:, varied], names)


def most_telling(known: Any, targets: NDArray[np.float64]) -> int:
    """The feature that leaves the least squared error of the targets (Breiman et al. 1984).

    Args:
        known: (texts, features) of 0 and 1.
        targets: (texts, outputs).
    """
    count = np.asarray(known.sum(0)).ravel()
    means = (known.T @ targets) / count[:, None]
    rest = len(targets) - count
    explained = count * len(targets) / rest * ((means - targets.mean(0)) ** 2).sum(1)
    return int(explained.argmax())


@cache
def _english() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) - CONTENT_WORDS


def _step(count: int) -> int:
    return round(STEPS * math.log2(max(count, 1)))


def character_kind(character: str) -> str:
    """A for capitals, a for other letters, 0 for digits, else the character itself."""
    kind = unicodedata.category(character)
    if kind[0] in "LM":
        return "A" if kind in ("Lu", "Lt") else "a"
    return "0" if kind[0] == "N" else character
