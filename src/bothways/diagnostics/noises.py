"""What happens to texts between writer and model: typos, lost accents, cases, marks, bad scans.

Each kind of noise changes a text by chance, letter by letter, and leaves its spaces alone, so that
words stay words. `noisy` does it to the examples of every task without touching what is to be
found in them. What noise costs a model is asked in `noise.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bothways.tasks.answer_reading import AnswerExample
from bothways.tasks.marking import RelateExample
from bothways.tasks.schemes import OUTSIDE, Scheme
from bothways.tasks.tag_examples import TagExample

Draw = np.random.Generator
Change = Callable[[str], str]

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {
    letter: row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
    for row in KEYBOARD
    for at, letter in enumerate(row)
}
# What scanners take for one another, in Latin letters and digits.
CONFUSIONS = {
    "rn": "m", "cl": "d", "vv": "w", "m": "rn", "d": "cl", "w": "vv", "o": "0", "0": "o",
    "l": "1", "1": "l", "i": "l", "I": "l", "e": "c", "c": "e", "h": "b", "u": "v", "n": "u",
    "S": "5", "5": "S", "B": "8", "8": "B", "g": "9", "t": "f", "f": "t", "a": "o", "y": "v",
}  # fmt: skip
CONFUSED = re.compile("|".join(sorted(CONFUSIONS, key=len, reverse=True)))
# Tasks whose second text is what is searched, not what a person has just typed.
TYPED_ALONE = {"rerank", "embed", "multiple-choice"}


@dataclass(frozen=True)
class NoiseKind:
    """A kind of noise.

    Attributes:
        change: (text, share, random numbers) -> the text with that share of it changed.
        weak, strong: shares of what could be changed.
        of: what that is.
    """

    change: Callable[[str, float, Draw], str]
    weak: float
    strong: float
    of: str


def typos(text: str, share: float, draw: Draw) -> str:
    """Letters swapped with the next, left out, doubled, or those beside them on the keyboard.

    Example:
        >>> typos("a word or two", 0.2, np.random.default_rng(0))
        'a wrd or two'
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        letter, after = text[at], text[at + 1 : at + 2]
        at += 1
        if not letter.isalpha() or draw.random() >= share:
            found.append(letter)
            continue
        near = NEIGHBOURS.get(letter.lower(), "")
        ways = ["", letter * 2, *([str(draw.choice(list(near)))] if near else [])]
        if after.isalpha():
            ways.append(after + letter)
        way = int(draw.integers(len(ways)))
        swapped = after.isalpha() and way == len(ways) - 1
        at += swapped
        found.append(ways[way].upper() if letter.isupper() and not swapped else ways[way])
    return "".join(found)


def lost_accents(text: str, share: float, draw: Draw) -> str:
    """Letters without the marks above and below them.

    Example:
        >>> lost_accents("déjà vu in Zürich", 1.0, np.random.default_rng(0))
        'deja vu in Zurich'
    """
    return "".join(
        _bare(letter) if letter > "\x7f" and draw.random() < share else letter
        for letter in unicodedata.normalize("NFC", text)
    )


def other_case(text: str, share: float, draw: Draw) -> str:
    """Words in small letters, in capitals, or with a capital first, whichever they were not.

    Example:
        >>> other_case("New York is big", 1.0, np.random.default_rng(0))
        'NEW york IS Big'
    """

    def change(match: re.Match[str]) -> str:
        word = match.group()
        if draw.random() >= share:
            return word
        others = [way for way in (word.lower(), word.upper(), word.capitalize()) if way != word]
        return str(draw.choice(others)) if others else word

    return re.sub(r"\S+", change, text)


def missing_marks(text: str, share: float, draw: Draw) -> str:
    """Punctuation left out.

    Example:
        >>> missing_marks("Well, it's (not) bad!", 1.0, np.random.default_rng(0))
        'Well its not bad'
    """
    return "".join(
        letter
        for letter in text
        if not (unicodedata.category(letter).startswith("P") and draw.random() < share)
    )


def bad_scan(text: str, share: float, draw: Draw) -> str:
    """Letters and digits taken for others of the same look.

    Example:
        >>> bad_scan("modern film", 1.0, np.random.default_rng(0))
        'rn0clcm tl1rn'
    """
    return CONFUSED.sub(
        lambda found: CONFUSIONS[found.group()] if draw.random() < share else found.group(), text
    )


NOISES: dict[str, NoiseKind] = {
    "typos": NoiseKind(typos, 0.03, 0.10, "letters"),
    "accents": NoiseKind(lost_accents, 0.5, 1.0, "accents"),
    "case": NoiseKind(other_case, 0.1, 0.5, "words"),
    "punctuation": NoiseKind(missing_marks, 0.5, 1.0, "marks"),
    "scan": NoiseKind(bad_scan, 0.03, 0.10, "letters"),
}


def noisy(example: Any, change: Change, task: str, form: Scheme | None = None) -> Any:
    """An example with its texts changed, and with what is to be found in them where it was.

    Words keep their tags; one that vanishes goes with its tag where that means nothing, and stays
    where it is part of a span. Of questions on a context only the question is changed, and of
    queries on documents only the query.

    Args:
        example: of any task.
        change: what is done to a text.
        task: its name.
        form: how tags make spans; None where they make none.
    """
    if isinstance(example, TagExample):
        return _noisy_words(example, change, form)
    if isinstance(example, AnswerExample):
        return replace(example, question=change(example.question))
    if isinstance(example, RelateExample):
        return _noisy_entities(example, change)
    if example.pair is None or task in TYPED_ALONE:
        return replace(example, text=change(example.text))
    return replace(example, text=change(example.text), pair=change(example.pair))


def _noisy_words(example: TagExample, change: Change, form: Scheme | None) -> TagExample:
    tags = example.tags or (OUTSIDE,) * len(example.words)
    kept = []
    for word, tag in zip(example.words, tags, strict=True):
        changed = change(word)
        if changed or (form is not None and tag != OUTSIDE):
            kept.append((changed or word, tag))
    if not kept:
        return example
    words, new_tags = zip(*kept, strict=True)
    made = TagExample.of_words(words, None if example.tags is None else new_tags)
    return replace(made, place=example.place, group=example.group)


def _noisy_entities(example: RelateExample, change: Change) -> RelateExample:
    """The stretches before, between, inside and after the entities, each changed on its own."""
    entities = (example.first, example.second)
    ends = sorted({0, len(example.text), *example.first, *example.second})
    text, place = "", {0: 0}
    for start, end in pairwise(ends):
        piece = example.text[start:end]
        inside = any(one <= start and end <= other for one, other in entities)
        text += change(piece) or (piece if inside else "")
        place[end] = len(text)
    first, second = ((place[start], place[end]) for start, end in entities)
    return replace(example, text=text, first=first, second=second)


def _bare(letter: str) -> str:
    """A letter without its marks; one that was none, as it is."""
    parts = unicodedata.normalize("NFD", letter)
    if len(parts) == 1:
        return "" if "\u0300" <= letter <= "\u036f" else letter
    bare = "".join(part for part in parts if not unicodedata.category(part).startswith("M"))
    return unicodedata.normalize("NFC", bare)
