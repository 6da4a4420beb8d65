"""`read_documents`: texts of a corpus as arrays of ids, words and sentences marked.

The words are the tokenizer's own, so that they exist for every kind of it, cut further where a
script has no spaces (`words.py`). Nothing is cut off and no special piece is added: what is written
into shards (`data/`) is the text and nothing else. Single texts with their offsets are
`Tokenizer.encode`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bothways.tokenization.alignment import Offset
from bothways.tokenization.encoding import Ledger
from bothways.tokenization.reading import Reading
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.words import sentences, unspaced_words

# Texts longer than this are read in parts, which end with a line where there are lines. A part
# boundary changes no piece there, and memory stays bounded for a book in one text.
PART_CHARACTERS = 200_000


@dataclass(frozen=True)
class DocumentPieces:
    """A text as arrays, one value a piece.

    Attributes:
        ids: of the pieces.
        word_starts: whether a piece is the first of a word.
        sentence_starts: whether a piece is the first of a sentence.
    """

    ids: NDArray[np.uint32]
    word_starts: NDArray[np.bool_]
    sentence_starts: NDArray[np.bool_]

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self.ids)


def read_documents(
    tokenizer: Tokenizer, texts: Sequence[str]
) -> tuple[list[DocumentPieces], Ledger]:
    """Texts as pieces; special tokens that stand in them are plain characters.

    Raises:
        DataError: when a text holds a lone surrogate.

    Example:
        >>> [pieces], ledger = read_documents(tokenizer, ["Unaffable. No?"])  # doctest: +SKIP
        >>> pieces.word_starts.tolist()  # doctest: +SKIP
        [True, False, False, True, True, True]
    """
    parts = [part for text in texts for part in split_text(text)]
    reading = tokenizer.read(parts)
    pieces = [_pieces(row, part, reading) for row, part in enumerate(parts)]
    documents = []
    at = 0
    for text in texts:
        count = len(split_text(text))
        documents.append(_join(pieces[at : at + count]))
        at += count
    ledger = Ledger(
        texts=len(texts),
        tokens=sum(map(len, documents)),
        special_in_text=reading.special_in_text,
        dropped_characters=reading.dropped_characters,
    )
    return documents, ledger


def split_text(text: str, most: int = PART_CHARACTERS) -> list[str]:
    """Parts of a long text, in order and complete, cut after line ends, else before spaces.

    Args:
        text: any length.
        most: characters of a part.

    Example:
        >>> split_text("one two", most=5)
        ['one', ' two']
    """
    if len(text) <= most:
        return [text]
    places = [0]
    while len(text) - places[-1] > most:
        start, end = places[-1], places[-1] + most
        line = text.rfind("\n", start, end) + 1
        space = text.rfind(" ", start + 1, end)
        places.append(line if line > start else space if space > start else end)
    return [text[start:end] for start, end in pairwise([*places, len(text)])]


def _pieces(row: int, text: str, reading: Reading) -> DocumentPieces:
    ids = np.array(reading.ids[row], dtype=np.uint32)
    # A piece belongs where its last character stands: its first may be the space before a word.
    last = _last_characters(reading.offsets[row])
    words = np.array([-1 if word is None else word for word in reading.words[row]], np.int64)
    first = np.ones(len(ids), dtype=np.bool_)
    first[1:] = words[1:] != words[:-1]
    unspaced = np.array(unspaced_words(text), np.int64).reshape(-1, 2)
    if len(unspaced):
        # There the tokenizer's words do not count: some are a whole line, some a mark alone.
        span = np.searchsorted(unspaced[:, 0], last, side="right") - 1
        inside = (span >= 0) & (last < unspaced[span, 1])
        span = np.where(inside, span, -1)
        changes = span[1:] != span[:-1]
        first[1:] = changes | (first[1:] & ~inside[1:])
    # A sentence starts with the word that its first character is in: a space may come before.
    begin = np.maximum.accumulate(np.where(first, np.arange(len(ids)), 0))
    starts = np.searchsorted(last, sentences(text))
    sentence = np.zeros(len(ids), dtype=np.bool_)
    sentence[begin[starts[starts < len(ids)]]] = True
    sentence[:1] = True
    return DocumentPieces(ids, first, sentence)


def _last_characters(offsets: Sequence[Offset]) -> NDArray[np.int64]:
    """Where the last character of each piece stands; never before that of the piece before."""
    last = np.array([max(end - 1, start) for start, end in offsets], dtype=np.int64)
    return np.maximum.accumulate(last)


def _join(parts: Sequence[DocumentPieces]) -> DocumentPieces:
    if len(parts) == 1:
        return parts[0]
    return DocumentPieces(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.word_starts for part in parts]),
        np.concatenate([part.sentence_starts for part in parts]),
    )
