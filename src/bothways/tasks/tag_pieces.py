"""Which pieces speak for a word, in which window: what labels and predictions of words rest on.

A word of a long text may be in two windows; the one in which it has more pieces around it decides
it, in learning as in predicting, so that every word counts once and a span across a cut is whole.
Windows themselves are made in `tokenization/cutting.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import torch
from torch import Tensor

from bothways.data.collate import Source
from bothways.tokenization.encoding import Encoding

LabelPieces = Literal["first", "all"]


@dataclass(frozen=True)
class WordPieces:
    """The pieces that speak for the words of a batch, in order.

    Attributes:
        rows: (pieces,) row of each among the tokens of the batch.
        words: (pieces,) which word it speaks for, counted over the batch.
        texts: (words,) which text that word is of, in order of first appearance.
        numbers: (words,) the word's own index in its text.
    """

    rows: Tensor
    words: Tensor
    texts: list[int]
    numbers: list[int]


def word_pieces(sources: Sequence[Source], which: LabelPieces) -> WordPieces:
    """The pieces that speak for words.

    Args:
        sources: of a batch, windows of a text one after another.
        which: the first piece of each word, or all of them.
    """
    groups: dict[int, list[tuple[int, Encoding]]] = {}
    start = 0
    for source in sources:
        groups.setdefault(source.example, []).append((start, source.encoding))
        start += len(source.encoding)
    rows, words, texts, numbers = list[int](), list[int](), list[int](), list[int]()
    for text, windows in enumerate(groups.values()):
        decided = decided_words([encoding for _, encoding in windows])
        for word, (window, places) in sorted(decided.items()):
            first = windows[window][0]
            chosen = places[:1] if which == "first" else places
            rows += [first + place for place in chosen]
            words += [len(texts)] * len(chosen)
            texts.append(text)
            numbers.append(word)
    return WordPieces(
        torch.tensor(rows, dtype=torch.long), torch.tensor(words, dtype=torch.long), texts, numbers
    )


def decided_words(windows: Sequence[Encoding]) -> dict[int, tuple[int, list[int]]]:
    """For each word that was read: the window that decides it, and where its pieces are there.

    Where two windows give a word as much, the earlier one decides; so a word whose first piece is
    only in the earlier one is decided there.

    Example:
        >>> whole = Encoding([1, 7, 8, 2], [0] * 4, [(0, 0)] * 4, [None, 0, 0, None],
        ...                  [True, False, False, True])
        >>> decided_words([whole])
        {0: (0, [1, 2])}
    """
    found: dict[int, tuple[int, list[int]]] = {}
    around: dict[int, float] = {}
    last_window = len(windows) - 1
    for window, encoding in enumerate(windows):
        places: dict[int, list[int]] = {}
        for place, word in enumerate(encoding.words):
            if word is not None:
                places.setdefault(word, []).append(place)
        if not last_window:
            return {word: (0, of_word) for word, of_word in places.items()}
        if not places:
            continue
        first = min(of_word[0] for of_word in places.values())
        last = max(of_word[-1] for of_word in places.values())
        for word, of_word in places.items():
            before = of_word[0] - first if window else inf
            after = last - of_word[-1] if window < last_window else inf
            if min(before, after) > around.get(word, -1):
                around[word] = min(before, after)
                found[word] = (window, of_word)
    return found


def unread_words(count: int, windows: Sequence[Encoding]) -> set[int]:
    """Which of a text's words are in no window: they were cut, or became no piece."""
    read = {word for encoding in windows for word in encoding.words if word is not None}
    return set(range(count)) - read
