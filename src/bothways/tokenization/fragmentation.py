"""`Fragmentation`: into how many pieces a tokenizer breaks the words of a text.

Words are those of the text, not the tokenizer's own, so that tokenizers can be compared: what lies
between spaces and punctuation, and in scripts without spaces single characters (`words.py`). A
corpus is read a few texts at a time. Which texts, and what is made of it, is for the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bothways.tokenization.documents import split_text
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.words import text_words

TEXTS_AT_A_TIME = 500
# How many words with many pieces are remembered while reading, a multiple of those shown.
REMEMBERED = 1000
LONGEST_SHOWN = 40  # characters of a word that are kept


@dataclass(frozen=True)
class SplitWord:
    """A word and what became of it.

    Attributes:
        word: at most LONGEST_SHOWN characters, with "..." where there are more.
        pieces: into which it is split.
        count: how often it occurs.
    """

    word: str
    pieces: int
    count: int


@dataclass(frozen=True)
class Fragmentation:
    """What a tokenizer makes of texts.

    Attributes:
        texts, characters, words, pieces: read; pieces of punctuation and symbols included.
        pieces_in_words: without those.
        unknown: pieces that stand for what the vocabulary lacks.
        words_unknown: words with such a piece.
        words_split: words of more than one piece.
        special_in_text: special tokens that stood in the texts as plain characters.
        dropped_characters: characters that became no piece.
        longest: the words of most pieces, worst first.
    """

    texts: int
    characters: int
    words: int
    pieces: int
    pieces_in_words: int
    unknown: int
    words_unknown: int
    words_split: int
    special_in_text: int
    dropped_characters: int
    longest: tuple[SplitWord, ...]

    @property
    def pieces_per_word(self) -> float:
        """1 where every word is one piece; 0 without words."""
        return self.pieces_in_words / max(self.words, 1)

    @property
    def unknown_rate(self) -> float:
        """Unknown pieces per piece, 0 to 1."""
        return self.unknown / max(self.pieces, 1)

    @property
    def split_rate(self) -> float:
        """Words of more than one piece per word, 0 to 1."""
        return self.words_split / max(self.words, 1)


def fragmentation(
    tokenizer: Tokenizer, texts: Iterable[str], *, num_longest: int = 10
) -> Fragmentation:
    """Count pieces and words of texts.

    Args:
        tokenizer: reads them.
        texts: any number, streamed.
        num_longest: words to name.

    Raises:
        DataError: when a text holds a lone surrogate.

    Example:
        >>> fragmentation(tokenizer, ["unaffable cats"]).pieces_per_word  # doctest: +SKIP
        2.0
    """
    total = _Total()
    iterator = iter(texts)
    while batch := list(islice(iterator, TEXTS_AT_A_TIME)):
        total.add(tokenizer, batch)
    ranked = sorted(total.split, key=lambda item: (-item[1], -total.split[item], item[0]))
    counts = Counter(total.counts)
    return Fragmentation(
        **{name: counts[name] for name in _COUNTED},
        longest=tuple(SplitWord(*item, total.split[item]) for item in ranked[:num_longest]),
    )


_COUNTED = (
    "texts",
    "characters",
    "words",
    "pieces",
    "pieces_in_words",
    "unknown",
    "words_unknown",
    "words_split",
    "special_in_text",
    "dropped_characters",
)


@dataclass
class _Total:
    """Counts so far, and the words of most pieces."""

    counts: Counter[str] = field(default_factory=Counter)
    split: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        parts = [part for text in texts for part in split_text(text)]
        reading = tokenizer.read(parts)
        self.counts.update(
            texts=len(texts),
            characters=sum(map(len, texts)),
            special_in_text=reading.special_in_text,
            dropped_characters=reading.dropped_characters,
        )
        for text, ids, offsets in zip(parts, reading.ids, reading.offsets, strict=True):
            words = np.array(text_words(text), dtype=np.int64).reshape(-1, 2)
            self.counts.update(words=len(words), pieces=len(ids))
            if not len(words) or not ids:
                continue
            last = np.array([max(end - 1, start) for start, end in offsets])
            word_of = np.searchsorted(words[:, 0], last, side="right") - 1
            inside = (word_of >= 0) & (last < words[word_of, 1])
            pieces = np.bincount(word_of[inside], minlength=len(words))
            unknown = np.array(ids) == (-1 if tokenizer.unk_id is None else tokenizer.unk_id)
            self.counts.update(
                pieces_in_words=int(inside.sum()),
                unknown=int(unknown.sum()),
                words_unknown=len(np.unique(word_of[unknown & inside])),
                words_split=int((pieces > 1).sum()),
            )
            self._remember(text, words, pieces)

    def _remember(self, text: str, words: NDArray[np.int64], pieces: NDArray[np.int64]) -> None:
        for index in np.flatnonzero(pieces > 1).tolist():
            start, end = words[index].tolist()
            word = text[start:end]
            if len(word) > LONGEST_SHOWN:
                word = word[:LONGEST_SHOWN] + "..."
            self.split[word, int(pieces[index])] += 1
        if len(self.split) > 2 * REMEMBERED:
            kept = sorted(self.split, key=lambda item: (-item[1], item[0]))[:REMEMBERED]
            self.split = Counter({item: self.split[item] for item in kept})
