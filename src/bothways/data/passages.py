"""Long texts in passages that fit a model: cut inside the document, nothing dropped.

A text of more tokens than there is room for is cut where a sentence starts, else where a word does.
No passage is a small rest: the last two share what is left. Only numbers are here; shards cut very
long documents so, and packing cuts what is longer than the model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bothways.errors import UsageError

# A passage may be shorter than the room by this share, to end with a sentence or a word.
SLACK = 0.25


def cut_places(
    word_starts: NDArray[np.bool_], sentence_starts: NDArray[np.bool_], room: int
) -> list[int]:
    """Where the passages of a text start, and its end.

    Args:
        word_starts, sentence_starts: one value a token.
        room: tokens of a passage.

    Raises:
        UsageError: when there is no room.

    Example:
        >>> words = np.ones(10, dtype=bool)
        >>> cut_places(words, np.arange(10) == 7, room=8)
        [0, 5, 10]
    """
    if room < 1:
        raise UsageError(f"a passage has room for {room} tokens; expected at least 1")
    length = len(word_starts)
    places = [0]
    while (left := length - places[-1]) > room:
        start = places[-1]
        most = room if left >= 2 * room else -(-left // 2)
        least = max(most - int(most * SLACK), 1, left - room if left < 2 * room else 1)
        window = slice(start + least, start + most + 1)
        places.append(
            start + least + _last(sentence_starts[window], word_starts[window], most - least)
        )
    return [*places, length]


def _last(sentences: NDArray[np.bool_], words: NDArray[np.bool_], otherwise: int) -> int:
    for starts in (sentences, words):
        found = np.flatnonzero(starts)
        if len(found):
            return int(found[-1])
    return otherwise
