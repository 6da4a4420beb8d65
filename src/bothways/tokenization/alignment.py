"""Where pieces stand in the caller's text, which word they belong to, and what left no trace.

Engines disagree about white space, accents and prefix markers; here their ranges are brought to
one rule: `text[start:end]` is the surface of the piece, without the white space before it and with
the accents that belong to it.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from bothways.errors import DataError

if TYPE_CHECKING:
    import tokenizers

Offset = tuple[int, int]
PREFIX_MARKER = "\u2581"  # SentencePiece's mark of a space; it is also put before a text


def surfaces(
    text: str, ids: Sequence[int], offsets: Sequence[Offset], marker_id: int | None
) -> list[Offset]:
    """The engine's ranges, made to cover exactly the surface of each piece.

    White space before a piece is left out, unless the piece is nothing else. A prefix marker that
    stands for no character gets an empty range. Accents that the normaliser removed belong to the
    piece before them.

    Args:
        text: the caller's text.
        ids, offsets: of its pieces, special ones excluded.
        marker_id: the piece that is only a prefix marker, or None.
    """
    result = []
    last = len(offsets) - 1
    accents = not text.isascii()
    for index, (first, stop) in enumerate(offsets):
        start, end = first, stop
        following = offsets[index + 1][0] if index < last else len(text)
        if start < end and text[start].isspace():
            while start < end and text[start].isspace():
                start += 1
            start = first if start == end else start
        elif ids[index] == marker_id and index < last and following == start:
            end = start
        if accents:
            while end < following and unicodedata.category(text[end])[0] == "M":
                end += 1
        result.append((start, end))
    return result


def words_by_space(text: str, offsets: Iterable[Offset]) -> list[int | None]:
    """Words of an engine that does not know any: runs between white space, from 0.

    Example:
        >>> words_by_space("to be", [(0, 2), (3, 4), (4, 5)])
        [0, 1, 1]
    """
    starts = [
        index
        for index, character in enumerate(text)
        if not character.isspace() and (index == 0 or text[index - 1].isspace())
    ]
    last = max(len(starts) - 1, 0)
    # A piece that is only the space before a word belongs to that word.
    return [
        min(max(bisect_right(starts, start) - (not text[start : start + 1].isspace()), 0), last)
        for start, _ in offsets
    ]


class GivenWords:
    """The caller's own words, read as one text with single spaces between them.

    Joining gives every tokenizer the same pieces as the running text has, whatever its rule for
    the space before a word.

    Args:
        words: of one text.
        row: index of that text, for messages.

    Attributes:
        text: what the engine reads.

    Raises:
        DataError: when the words are one string, or one of them is no string.
    """

    def __init__(self, words: Sequence[str], row: int) -> None:
        items: Sequence[object] = words
        if isinstance(words, str) or not all(isinstance(item, str) for item in items):
            raise DataError(
                f"row {row}: expected a list of words and got {words!r}; "
                "split the text into words, or read it with encode_many"
            )
        self.text = " ".join(words)
        self._lengths = [len(word) for word in words]
        self._starts = [0, *accumulate(length + 1 for length in self._lengths)][: len(words)]

    def locate(self, offsets: Iterable[Offset]) -> tuple[list[int | None], list[Offset]]:
        """For each range of the text, the caller's word and the range in that word."""
        indices: list[int | None] = []
        ranges: list[Offset] = []
        for start, end in offsets:
            index = max(bisect_right(self._starts, start) - 1, 0)
            first, length = self._starts[index], self._lengths[index]
            indices.append(index)
            ranges.append((min(start - first, length), min(end - first, length)))
        return indices, ranges


class DroppedCharacters:
    """Counts the characters of texts that leave no trace in the pieces; white space is not one.

    A character is tried once, alone and between two letters, and remembered.

    Args:
        ids: of texts without special pieces.
        engine: to be tried for miscounts; None where it reads texts that were rewritten for it.
    """

    def __init__(
        self,
        ids: Callable[[Sequence[str]], list[list[int]]],
        engine: tokenizers.Tokenizer | None = None,
    ) -> None:
        self._ids = ids
        self._engine = engine
        self._kept: set[str] = set()
        self._dropped: set[str] = set()
        self._miscounts = False
        self._learn({chr(code) for code in range(32, 127)})
        self._keeps_ascii = not self._dropped

    def count(self, text: str) -> int:
        """Dropped characters of a text."""
        if self._keeps_ascii and text.isascii() and text.isprintable():
            return 0
        found = set(text) - self._kept
        if not found:
            return 0
        if not found <= self._dropped:
            self._learn(found - self._dropped)
        return sum(text.count(character) for character in found & self._dropped)

    def offsets(
        self, text: str, encoding: tokenizers.Encoding, engine: tokenizers.Tokenizer
    ) -> list[Offset]:
        """The engine's ranges of a text that was counted before, with its miscounts put right.

        Engines with a SentencePiece normaliser (seen in tokenizers 0.23) are off by one for each
        dropped character before the first piece or after a character that becomes several. There
        the text is read once more without dropped characters.

        Args:
            text: what was read.
            encoding: what became of it.
            engine: that read it.
        """
        if not self._miscounts or self._dropped.isdisjoint(text):
            return list(encoding.offsets)
        places = [i for i, character in enumerate(text) if character not in self._dropped]
        bare = engine.encode("".join(text[i] for i in places), add_special_tokens=False)
        if bare.ids != encoding.ids:  # accents that were apart have met
            return list(encoding.offsets)
        places.append(len(text))
        return [
            (places[start], places[end - 1] + 1 if end > start else places[start])
            for start, end in bare.offsets
        ]

    def _learn(self, characters: set[str]) -> None:
        new = sorted(characters)
        tries = [part for c in new for part in (c, f"x{c}x")]
        # Some engines make a prefix marker of an empty text, others nothing; a control character
        # may also have become a space, which is a trace.
        empty, blank, apart, *tried = self._ids(["", " ", "x x", *tries])
        for character, alone, between in zip(new, tried[::2], tried[1::2], strict=True):
            gone = alone in (empty, blank) and between != apart
            (self._dropped if gone else self._kept).add(character)
            if gone and self._engine is not None and not self._miscounts:
                probe = self._engine.encode(f"{character}x x", add_special_tokens=False)
                self._miscounts = bool(probe.offsets) and probe.offsets[-1][1] != len("?x x")
