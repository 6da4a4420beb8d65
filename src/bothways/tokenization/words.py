"""Where words and sentences start in a text, by its characters alone.

Scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Myanmar and others)
have no word boundaries that characters show. There a word is what the Unicode standard (annex 29)
takes for one without a dictionary: a character with the marks that belong to it, and in Katakana
a run of them. Which word of its own a tokenizer sees is in `alignment.py`; both together become
the words of a corpus in `documents.py`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

_KATAKANA = ((0x30A1, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))
_WITH_MARKS = (
    (0x0E01, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar, and its extensions below
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0xA9E0, 0xA9FE),
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
)
_WITHOUT_MARKS = (
    (0x3005, 0x3007),
    (0x3041, 0x309F),  # Hiragana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
# Vowels of Thai and Lao that follow their consonant, though they are letters by category.
_FOLLOWING_VOWELS = "\u0e33\u0eb3"
_JOINERS = "\u200d\ufe0e\ufe0f\u3099\u309a"

_SENTENCE_END = re.compile(
    r"[.!?…؟۔।]+[\"'”’»)\]]*\s+"  # a stop, what closes around it, and space
    r"|[。！？｡]+[”’」』）\"]*\s*"  # a full-width stop needs no space
    r"|\s*\n\s*"
)


def unspaced_words(text: str) -> list[tuple[int, int]]:
    """Where words of unspaced scripts start and end.

    Example:
        >>> unspaced_words("go 中文 ok")
        [(3, 4), (4, 5)]
    """
    return [] if text.isascii() else [match.span() for match in _unspaced().finditer(text)]


def text_words(text: str) -> list[tuple[int, int]]:
    """Where the words of a text start and end: what lies between spaces, punctuation and symbols.

    Example:
        >>> text_words("go on, 中文")
        [(0, 2), (3, 5), (7, 8), (8, 9)]
    """
    inner = sorted({place for span in unspaced_words(text) for place in span})
    spans: list[tuple[int, int]] = []
    for match in _word().finditer(text):
        start, end = match.span()
        for place in inner[bisect_right(inner, start) : bisect_left(inner, end)]:
            spans.append((start, place))
            start = place
        spans.append((start, end))
    return spans


def words_and_marks(text: str) -> list[tuple[int, int]]:
    """Where words, and marks between them, start and end: nothing but space and controls is left.

    As in annex 29 of the Unicode standard, an apostrophe or a point between letters, and a point,
    comma or colon between digits, belong to the word. So do a web address, and the sign before a
    @name or #topic. Any other mark, symbol or picture is one of its own.

    Example:
        >>> text = "@ann don't pay 3.50!"
        >>> [text[start:end] for start, end in words_and_marks(text)]
        ['@ann', "don't", 'pay', '3.50', '!']
    """
    inner = sorted({place for span in unspaced_words(text) for place in span})
    spans: list[tuple[int, int]] = []
    for match in _word_or_mark().finditer(text):
        start, end = match.span()
        for place in inner[bisect_right(inner, start) : bisect_left(inner, end)]:
            spans.append((start, place))
            start = place
        spans.append((start, end))
    return spans


def sentences(text: str) -> Places:
    """Where the sentences of a text start, by stops and line ends; the first at 0.

    A rule for text in any language, right often enough to cut long texts and to take parts of
    them: it knows no abbreviations, but a small letter does not start a sentence.

    Example:
        >>> sentences("One is 3.5 cm. Two? Yes, e.g. this.").tolist()
        [0, 15, 20]
    """
    starts = [0]
    for match in _SENTENCE_END.finditer(text):
        place = match.end()
        if place < len(text) and not text[place].islower() and place > starts[-1]:
            starts.append(place)
    return np.array(starts, np.int64)


@cache
def _word() -> re.Pattern[str]:
    apart = [chr(code) for code in range(0x10000) if unicodedata.category(chr(code))[0] in "PS"]
    pictures = "\U0001f000-\U0001faff"
    return re.compile(f"[^\\s\\x00-\\x1f{pictures}{re.escape(''.join(apart))}]+")


@cache
def _word_or_mark() -> re.Pattern[str]:
    word = _word().pattern
    letter, letter_or_digit = r"[^\W\d_]", r"[^\W_]"
    joints = "|".join(
        f"(?<={side}){mark}(?={side})"
        for side, mark in ((letter, "['’]"), (letter_or_digit, r"\."), (r"\d", "[,:]"))
    )
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    follow = "[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]"
    mark = rf"[^\s\x00-\x1f\x7f-\x9f]{follow}*(?:\u200d[^\s\x00-\x1f]{follow}*)*"
    return re.compile(
        r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?'’)\]]"
        rf"|(?:(?<!\w)[@#])?{word}(?:(?:{joints}|_+){word})*"
        f"|{flag}|{mark}"
    )


@cache
def _unspaced() -> re.Pattern[str]:
    marks = "".join(
        chr(code)
        for first, last in _WITH_MARKS
        for code in range(first, last + 1)
        if unicodedata.category(chr(code)).startswith("M")
    )
    follow = f"[{marks}{_FOLLOWING_VOWELS}{_JOINERS}]*"
    katakana = _ranges(_KATAKANA)
    return re.compile(
        f"(?:[{katakana}]{follow})+|[{_ranges(_WITH_MARKS + _WITHOUT_MARKS)}]{follow}"
    )


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
