"""`Aligned`: a text that was rewritten and still knows where each of its characters comes from.

Some vocabularies were made of texts that had been rewritten first: NFKC, lower case, Moses' quotes
and spaces. Such a rewriting is a `Prepare`, a function from one `Aligned` to the next; the engine
reads the result, and ranges of its pieces lead back to the caller's text. What is rewritten is
decided in `charsmap.py`, `sentence_pieces.py` and `moses.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from bothways.tokenization.alignment import Offset

QUOTES = re.compile("``|''")
NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# What canonical composition may join: a character with marks after it, or parts of a Hangul
# syllable; alone, a character beyond ASCII can change too.
COMPOSABLE = re.compile(
    r"[\u1100-\u1112][\u1161-\u1175][\u11a7-\u11c2]?|[\uac00-\ud7a3][\u11a7-\u11c2]"
)


@dataclass(frozen=True)
class Aligned:
    r"""A rewritten text and the source of each character.

    Attributes:
        text: as it is now.
        starts, ends: for each character the range of the source that it stands for; starts never
            go back. An inserted character has an empty range.

    Example:
        >>> shouted = Aligned.of("a\ufb01x").replace(re.compile("\ufb01"), lambda _: "fi")
        >>> shouted.text, shouted.source(1, 2), shouted.source(3, 4)
        ('afix', (1, 2), (2, 3))
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Aligned:
        """A text as the caller gave it."""
        return cls(text, range(len(text)), range(1, len(text) + 1))

    @classmethod
    def join(cls, parts: Iterable[Aligned]) -> Aligned:
        """Several texts, one after another."""
        text, starts, ends = "", list[int](), list[int]()
        for part in parts:
            text += part.text
            starts += part.starts
            ends += part.ends
        return cls(text, starts, ends)

    def part(self, start: int, stop: int) -> Aligned:
        """The characters from `start` up to `stop`."""
        return Aligned(self.text[start:stop], self.starts[start:stop], self.ends[start:stop])

    def after_space(self) -> Aligned:
        """The same after a space that stands for nothing."""
        place = self.starts[0] if self.text else 0
        return Aligned(f" {self.text}", [place, *self.starts], [place, *self.ends])

    def source(self, start: int, stop: int) -> Offset:
        """The range of the source that a range of this text stands for."""
        if start < stop:
            return self.starts[start], max(self.ends[start:stop])
        place = self.starts[start] if start < len(self.text) else self._end
        return place, place

    @property
    def _end(self) -> int:
        return self.ends[-1] if self.text else 0

    def edit(self, edits: Iterable[tuple[int, int, str]]) -> Aligned:
        """Replace ranges of the text.

        What is the same at both ends of a range keeps its place; each character in between stands
        for all that was replaced.

        Args:
            edits: start, stop and the new characters, in order and without overlap.
        """
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        place = 0

        def keep(start: int, stop: int) -> None:
            pieces.append(self.text[start:stop])
            starts.extend(self.starts[start:stop])
            ends.extend(self.ends[start:stop])

        for first, last, new in edits:
            old = self.text[first:last]
            if old == new:
                continue
            head = _same(old, new)
            tail = _same(old[head:][::-1], new[head:][::-1])
            start, stop = first + head, last - tail
            keep(place, start)
            middle = new[head : len(new) - tail]
            source = self.source(start, stop)
            pieces.append(middle)
            starts.extend([source[0]] * len(middle))
            ends.extend([source[1]] * len(middle))
            place = stop
        if not pieces:
            return self
        keep(place, len(self.text))
        return Aligned("".join(pieces), starts, ends)

    def replace(self, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> Aligned:
        """As `re.sub`: replace what matches, from left to right."""
        return self.edit((*match.span(), new(match)) for match in pattern.finditer(self.text))

    def strip(self, characters: str | None = None) -> Aligned:
        """As `str.strip`."""
        start = len(self.text) - len(self.text.lstrip(characters))
        return self.part(start, max(start, len(self.text.rstrip(characters))))

    def ranges(self, offsets: Iterable[Offset]) -> list[Offset]:
        """Ranges in the source of pieces with these ranges here, without the spaces before them.

        Several pieces with one range are the bytes of its characters.
        """
        result = []
        for (start, stop), group in groupby(offsets):
            pieces = list(group)
            if len(pieces) > 1:
                sizes = [len(character.encode()) for character in self.text[start:stop]]
                if len(pieces) == sum(sizes):
                    pieces = [
                        (place, place + 1)
                        for place, size in enumerate(sizes, start)
                        for _ in range(size)
                    ]
            result += [self.source(self._after_spaces(*piece), piece[1]) for piece in pieces]
        return result

    def _after_spaces(self, start: int, stop: int) -> int:
        """Where a piece begins after its spaces; a piece of nothing else keeps them."""
        content = self.text[start:stop]
        bare = content.lstrip(" ")
        return stop - len(bare) if bare else start


Prepare = Callable[[Aligned], Aligned]


@dataclass(frozen=True)
class LowerFirst:
    """Small letters before another rewriting.

    Attributes:
        prepare: the other.
    """

    prepare: Prepare

    def __call__(self, text: Aligned) -> Aligned:
        """Rewrite a text."""
        return self.prepare(lower(text))


def prepare_around(text: str, prepare: Prepare, apart: re.Pattern[str] | None) -> Aligned:
    """Rewrite a text, but not what matches `apart`, which divides it."""
    whole = Aligned.of(text)
    if apart is None:
        return prepare(whole)
    parts = []
    place = 0
    for match in apart.finditer(text):
        parts += [prepare(whole.part(place, match.start())), whole.part(*match.span())]
        place = match.end()
    return Aligned.join([*parts, prepare(whole.part(place, len(text)))])


def plain_quotes(text: Aligned) -> Aligned:
    """Two accents or two apostrophes become a quotation mark."""
    return text.replace(QUOTES, lambda _: '"')


def lower(text: Aligned) -> Aligned:
    """As `str.lower`, which knows a sigma at the end of a word."""
    lowered = text.text.lower()
    if len(lowered) == len(text.text):
        return Aligned(lowered, text.starts, text.ends)
    lengths = [len(character.lower()) for character in text.text]
    return Aligned(
        lowered,
        [start for start, length in zip(text.starts, lengths, strict=True) for _ in range(length)],
        [end for end, length in zip(text.ends, lengths, strict=True) for _ in range(length)],
    )


def compose(text: Aligned) -> Aligned:
    """Canonical composition (NFC): letters and the accents after them become one character."""
    if unicodedata.is_normalized("NFC", text.text):
        return text
    return text.edit(
        (start, stop, unicodedata.normalize("NFC", text.text[start:stop]))
        for start, stop in _clusters(text.text)
    )


def _clusters(text: str) -> Iterable[tuple[int, int]]:
    """Ranges that canonical composition changes on their own: letters with their marks."""
    start = 0
    while start < len(text):
        syllable = COMPOSABLE.match(text, start)
        stop = syllable.end() if syllable else start + 1
        while stop < len(text) and unicodedata.category(text[stop])[0] == "M":
            stop += 1
        yield start, stop
        start = stop


def _same(one: str, other: str) -> int:
    """How many characters are the same at the start of both."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)
