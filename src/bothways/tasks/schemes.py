"""Schemes of tags: how the tags of words say where spans begin and end, IO, BIO, BIOES and BILOU.

Tags of words that make no spans, such as parts of speech, have no scheme. Reading and writing spans
is here, and what may follow what; files are read in `tag_reading.py`, spans compared in
`metrics/spans.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bothways.metrics.spans import Span

SchemeName = Literal["none", "io", "bio", "bioes", "bilou"]

OUTSIDE = "O"

# Every span has an end in BIOES and BILOU, so that more than this share of tags without any means
# BIO, unless spans have 20 words on average.
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Scheme:
    """What stands before the type of a span in the tag of a word.

    Attributes:
        name: for people.
        begin, inside, end: first word of several, those between, the last.
        single: the only word.

    Example:
        >>> SCHEMES["bioes"].write([(0, 2, "PER")], 3)
        ['B-PER', 'E-PER', 'O']
    """

    name: str
    begin: str
    inside: str
    end: str
    single: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((self.begin, self.inside, self.end, self.single)))

    @property
    def opening(self) -> set[str]:
        """Prefixes with which a span always begins."""
        return {self.begin, self.single} - {self.inside}

    @property
    def closing(self) -> set[str]:
        """Prefixes with which a span always ends."""
        return {self.end, self.single} - {self.inside, self.begin}

    def has(self, tag: str) -> bool:
        """Whether a tag can occur at all."""
        prefix, dash, kind = tag.partition("-")
        return tag == OUTSIDE or (bool(dash and kind.strip()) and prefix in self.prefixes)

    def tags(self, kinds: Iterable[str]) -> list[str]:
        """Every tag that spans of these types can need, sorted."""
        return sorted({OUTSIDE, *(f"{p}-{kind}" for kind in kinds for p in self.prefixes)})

    def write(self, spans: Iterable[Span], count: int) -> list[str]:
        """The tags of `count` words with these spans, of which none overlap."""
        tags = [OUTSIDE] * count
        for start, end, kind in spans:
            tags[start:end] = self._span_tags(end - start, kind)
        return tags

    def lenient(self, tags: Sequence[str]) -> list[Span]:
        """The spans of tags, none of which is lost: one that cannot go on a span begins one.

        A span also ends where the type changes. seqeval calls this its default mode.

        Example:
            >>> SCHEMES["bio"].lenient(["I-PER", "I-PER", "I-LOC"])
            [(0, 2, 'PER'), (2, 3, 'LOC')]
        """
        spans: list[Span] = []
        opening, closing = self.opening, self.closing
        open_ = False
        for place, tag in enumerate(tags):
            prefix, _, kind = tag.partition("-")
            if tag == OUTSIDE:
                open_ = False
                continue
            if open_ and prefix not in opening and spans[-1][2] == kind:
                spans[-1] = (spans[-1][0], place + 1, kind)
            else:
                spans.append((place, place + 1, kind))
            open_ = prefix not in closing
        return spans

    def strict(self, tags: Sequence[str]) -> list[Span]:
        """Only the spans that are written as the scheme wants; seqeval calls this its strict mode.

        Example:
            >>> SCHEMES["bio"].strict(["I-PER", "O", "B-LOC"])
            [(2, 3, 'LOC')]
        """
        return [
            (start, end, kind)
            for start, end, kind in self.lenient(tags)
            if list(tags[start:end]) == self._span_tags(end - start, kind)
        ]

    def may_follow(self, tag: str | None, following: str | None) -> bool:
        """Whether one tag may stand after another; None is what lies before and after the words."""
        before, _, kind = (tag or OUTSIDE).partition("-")
        after, _, next_kind = (following or OUTSIDE).partition("-")
        if kind == next_kind and before in (self.begin, self.inside):
            goes_on = bool(kind) and after in (self.inside, self.end)
        else:
            goes_on = False
        complete = not kind or before in (self.end, self.single)
        fresh = not next_kind or after in (self.begin, self.single)
        return goes_on or (complete and fresh)

    def _span_tags(self, length: int, kind: str) -> list[str]:
        inner = [self.begin, *[self.inside] * (length - 2), self.end]
        return [f"{prefix}-{kind}" for prefix in (inner if length > 1 else [self.single])]


SCHEMES: dict[str, Scheme] = {
    "io": Scheme("IO", "I", "I", "I", "I"),
    "bio": Scheme("BIO", "B", "I", "I", "B"),
    "bioes": Scheme("BIOES", "B", "I", "E", "S"),
    "bilou": Scheme("BILOU", "B", "I", "L", "U"),
}


def find_scheme(tags: Iterable[str]) -> SchemeName:
    """The scheme that tags are in: IO where all begin with I-, else the first that has nearly all.

    A few tags that a scheme does not have are mistakes and no reason for another. Tags have no
    scheme when more than half of those that are not O begin like none.

    Example:
        >>> find_scheme(["O", "B-PER", "I-PER"]), find_scheme(["NOUN", "VERB"])
        ('bio', 'none')
    """
    counts = Counter(tags)
    del counts[OUTSIDE]
    names: tuple[SchemeName, ...] = ("io", "bio", "bioes", "bilou")
    found = {
        name: sum(count for tag, count in counts.items() if SCHEMES[name].has(tag))
        for name in names
    }
    most = max(found.values())
    if 2 * most <= counts.total():
        return "none"
    if found["io"] == most:
        return "io"
    return next(name for name in names[1:] if found[name] >= NEARLY_ALL * most)
