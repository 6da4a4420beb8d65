"""Where an answer lies among the pieces of a window, and the scores of a window's pieces.

An answer belongs to a window that holds it whole; one at the cut is whole in the next window,
where the overlap is as long as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.errors import TaskError
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.answer_search import Window
from bothways.tokenization.encoding import Encoding


def context_pieces(encoding: Encoding) -> range:
    """Places of the context's pieces in a window; none where the context is empty."""
    begin = encoding.second
    if begin is None:
        raise TaskError("answers are found in pairs of question and context; this is one text")
    ends = [*encoding.special[begin:], True].index(True)
    return range(begin, begin + ends)


def pieces_of(encoding: Encoding, answer: Answer) -> tuple[int, int] | None:
    """Places of an answer's first and last piece; None where the window does not hold it whole."""
    context = context_pieces(encoding)
    offsets = encoding.offsets
    if answer.start is None or not context:
        return None
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = answer.start + len(answer.text.rstrip())
    touched = [place for place in context if offsets[place][1] > start and offsets[place][0] < end]
    if not touched:
        return None
    first, last = touched[0], touched[-1]
    # A piece before it shows that nothing of it was left behind; so does one that reaches its edge.
    begins = first > context[0] or offsets[first][0] <= start
    stops = last < context[-1] or offsets[last][1] >= end
    return (first, last) if begins and stops else None


def fewest_pieces(example: AnswerExample, windows: Sequence[Encoding]) -> int | None:
    """Pieces of the shortest answer that a window holds whole; 0 where no answer has a place.

    None where there are answers with a place and no window holds one whole.
    """
    placed = [answer for answer in example.answers or () if answer.start is not None]
    held = [pieces_of(window, answer) for answer in placed for window in windows]
    lengths = [place[1] - place[0] + 1 for place in held if place is not None]
    return min(lengths, default=None) if placed else 0


def window_scores(encoding: Encoding, scores: NDArray[np.float64]) -> Window:
    """The scores of a window, (pieces, 2), by what they are for."""
    context = context_pieces(encoding)
    part = scores[context.start : context.stop]
    offsets = np.array(encoding.offsets[context.start : context.stop], dtype=np.int64)
    return Window(part[:, 0], part[:, 1], offsets.reshape(-1, 2), float(scores[0].sum()))
