"""The best spans of a context for a question, over all windows that the context was read in.

Numbers in, character ranges out. A span begins at a piece and ends at the same or a later one of
the same window. Its score is the start score of the one plus the end score of the other; that
there is no answer has the scores of the first piece of a window, and over several windows the
smallest of these, since one window with an answer is enough. Probabilities are over all spans and
no answer together, so they do not depend on how many are asked for. What is made of them is in
`answer.py`.

Source: Devlin et al. 2019, section 4.2 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Spans this far below the best are left out: each is less than 1e-17 of it.
FAR_BELOW = 40.0


@dataclass(frozen=True)
class Window:
    """Scores of the pieces of one window.

    Attributes:
        starts, ends: (pieces,) of the pieces of the context.
        offsets: (pieces, 2) their ranges in the context.
        nothing: start and end score of the first piece together.
    """

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    offsets: NDArray[np.int64]
    nothing: float


@dataclass(frozen=True)
class Span:
    """A piece of a context: context[start:end]."""

    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        spans: the best ones, best first; no two have the same range.
        no_answer: probability that there is none; 1 where there is nothing to choose from.
    """

    spans: tuple[Span, ...]
    no_answer: float


def find_answers(windows: Sequence[Window], *, max_length: int, count: int) -> Found:
    """The best spans over all windows of one context.

    A span that several windows hold counts once, with its best score.

    Args:
        windows: at least one.
        max_length: most pieces of a span.
        count: spans that are wanted.

    Example:
        >>> offsets = np.array([[0, 3], [4, 9]])
        >>> window = Window(np.array([0.0, 2.0]), np.array([0.0, 2.0]), offsets, -3.0)
        >>> best = find_answers([window], max_length=5, count=1).spans[0]
        >>> best.start, best.end
        (4, 9)
    """
    candidates = [_candidates(window, max_length) for window in windows]
    ranges = np.concatenate([found for found, _ in candidates])
    scores = np.concatenate([found for _, found in candidates])
    if not len(scores):
        return Found((), 1.0)
    near = scores >= scores.max() - FAR_BELOW
    ranges, scores = ranges[near], scores[near]
    # Best first, and of equal ones the first in the text; then the first of each range stays.
    order = np.lexsort((ranges[:, 1], ranges[:, 0], -scores))
    ranges, scores = ranges[order], scores[order]
    _, firsts = np.unique(ranges, axis=0, return_index=True)
    firsts.sort()
    ranges, scores = ranges[firsts], scores[firsts]
    nothing = min(window.nothing for window in windows)
    total = float(np.logaddexp(np.logaddexp.reduce(scores), nothing))
    best = zip(ranges[:count].tolist(), scores[:count].tolist(), strict=True)
    return Found(
        tuple(Span(start, end, math.exp(score - total)) for (start, end), score in best),
        math.exp(nothing - total),
    )


def _candidates(window: Window, max_length: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ranges, (spans, 2), and scores of all spans that hold at least one character."""
    pieces = len(window.starts)
    first = np.repeat(np.arange(pieces), max_length)
    last = first + np.tile(np.arange(max_length), pieces)
    inside = last < pieces
    first, last = first[inside], last[inside]
    ranges = np.stack([window.offsets[first, 0], window.offsets[last, 1]], axis=1)
    held = ranges[:, 0] < ranges[:, 1]
    return ranges[held], (window.starts[first] + window.ends[last])[held]
