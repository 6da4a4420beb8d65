"""Sentences as words, with or without tags, and what is predicted of them.

Files of them are read in `tag_reading.py`; the task is in `tag.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bothways.errors import TaskError
from bothways.tasks.columns import refuse
from bothways.tasks.results import Result, SpanResult, TagResult
from bothways.tasks.schemes import Scheme
from bothways.tokenization.alignment import Offset
from bothways.tokenization.words import words_and_marks


@dataclass(frozen=True)
class TagExample:
    """A sentence as words, with their tags.

    Attributes:
        text: what the offsets count in; words from a file are joined by single spaces.
        words: in order.
        offsets: (start, end) of each word in the text.
        tags: one a word; None where they are not known.
        place: `file, line 12`; empty where it came from no file.
        lines: line of each word in that file; empty where they are all on one.
        group: what it belongs to, such as a document; None where it stands alone.
    """

    text: str
    words: tuple[str, ...]
    offsets: tuple[Offset, ...]
    tags: tuple[str, ...] | None = None
    place: str = ""
    lines: tuple[int, ...] = ()
    group: str | None = None

    @property
    def pair(self) -> None:
        """There is no second text."""
        return

    @classmethod
    def of_words(cls, given: Sequence[str], tags: Sequence[str] | None = None) -> TagExample:
        """A sentence whose words are known.

        Example:
            >>> TagExample.of_words(["It", "works"], ["PRON", "VERB"]).text
            'It works'
        """
        ends, end = [], -1
        for word in given:
            end += 1 + len(word)
            ends.append(end)
        offsets = tuple((end - len(word), end) for word, end in zip(given, ends, strict=True))
        return cls(" ".join(given), tuple(given), offsets, None if tags is None else tuple(tags))

    @classmethod
    def of_text(cls, text: str) -> TagExample:
        """A text, split into words and the marks between them."""
        offsets = tuple(words_and_marks(text))
        return cls(text, tuple(text[start:end] for start, end in offsets), offsets)

    def word_place(self, number: int) -> str:
        """`file, line 12` of a word."""
        file, found, _ = self.place.rpartition(", line")
        if found and self.lines:
            return f"{file}, line {self.lines[number]}"
        return f"{self.place or 'an example'}, word {number + 1}"


def known_tags(examples: Sequence[TagExample]) -> list[tuple[str, ...]]:
    """The true tags, all of which must be known, one a word."""
    missing = [
        f"{example.place or f'example {number}'}: {len(example.tags or ())} tags for "
        f"{len(example.words)} words"
        for number, example in enumerate(examples)
        if example.tags is None or len(example.tags) != len(example.words)
    ]
    if missing:
        refuse("examples without one tag a word", missing, "judging and training need them")
    return [example.tags for example in examples if example.tags is not None]


def tag_result(
    example: TagExample,
    known: Mapping[int, tuple[str, float]],
    form: Scheme | None,
    *,
    default: str,
) -> TagResult:
    """The result of an example.

    Args:
        example: its words.
        known: tag and probability by word; one that is not there was not read.
        form: how tags make spans; None where they make none.
        default: the tag of words that were not read.
    """
    each = [known.get(number, (default, 0.0)) for number in range(len(example.words))]
    tags = tuple(tag for tag, _ in each)
    sure = tuple(probability for _, probability in each)
    spans = []
    for first, last, kind in () if form is None else form.lenient(tags):
        start, end = example.offsets[first][0], example.offsets[last - 1][1]
        probability = math.prod(sure[first:last])
        spans.append(SpanResult(start, end, example.text[start:end], kind, probability))
    unread = tuple(number for number in range(len(each)) if number not in known)
    return TagResult(example.words, tags, tuple(spans), sure, unread)


def tag_results(results: Sequence[Result]) -> list[TagResult]:
    """Results, all of which must be tags.

    Raises:
        TaskError: when one is not.
    """
    found = [result for result in results if isinstance(result, TagResult)]
    if len(found) < len(results):
        raise TaskError(f"{len(results) - len(found)} of {len(results)} results are not tags")
    return found
