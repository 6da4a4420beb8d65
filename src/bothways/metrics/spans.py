"""Scores of typed spans: F1 over any subset of sentences, and what kind of mistakes there are.

A span is (first word, word after the last, type). Where tags make no spans, every word is one. How
tags become spans is in `tasks/schemes.py`; intervals are in `evaluation/intervals.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int, str]

# What can become of a span, predicted or true, in the order of `span_errors`.
OUTCOMES = ("right", "boundary", "type", "boundary and type", "missed", "invented")


class SpanCounts:
    """Right, predicted and true spans of each sentence by type, ready to be summed and resampled.

    Args:
        truth: spans of each sentence.
        predicted: as many.
        kinds: types that shall have a row, whether they occur or not.

    Attributes:
        kinds: all types, sorted.

    Example:
        >>> SpanCounts([[(0, 1, "A")]], [[(0, 1, "A"), (1, 2, "A")]]).f1()
        0.6666666666666666
    """

    def __init__(
        self,
        truth: Sequence[Sequence[Span]],
        predicted: Sequence[Sequence[Span]],
        kinds: Sequence[str] = (),
    ) -> None:
        spans = [span for side in (truth, predicted) for given in side for span in given]
        self.kinds = sorted({*kinds, *(kind for _, _, kind in spans)})
        column = {kind: number for number, kind in enumerate(self.kinds)}
        # (sentences, types, 3): right, predicted, true.
        self._counts = np.zeros((len(truth), len(self.kinds), 3), dtype=np.int64)
        for row, (true, said) in enumerate(zip(truth, predicted, strict=True)):
            for place, given in enumerate((set(true) & set(said), said, true)):
                for _, _, kind in given:
                    self._counts[row, column[kind], place] += 1
        self._all = self._counts.sum(1)

    def f1(self, sentences: NDArray[np.int64] | None = None) -> float:
        """F1 over all types (micro) of some sentences, by index; 0 where there is no span."""
        counts = (self._all if sentences is None else self._all[sentences]).sum(0)
        return float(_f1(counts))

    def by_kind(self, sentences: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Right, predicted and true spans of each type, (types, 3)."""
        counts = self._counts if sentences is None else self._counts[sentences]
        summed: NDArray[np.int64] = counts.sum(0)
        return summed

    def kind_f1(self, sentences: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """F1 of each type, (types,)."""
        return _f1(self.by_kind(sentences))


def precision_recall_f1(counts: NDArray[np.int64]) -> tuple[float, float, float]:
    """Of right, predicted and true spans; 0 where there are none to divide by."""
    right, predicted, true = (int(count) for count in counts)
    return right / max(predicted, 1), right / max(true, 1), float(_f1(counts))


def span_errors(truth: Sequence[Span], predicted: Sequence[Span]) -> dict[str, dict[str, int]]:
    """What became of the spans of one sentence: by type, how often each of `OUTCOMES`.

    Each span is matched once: first with its equal, then with one of the same words (wrong type),
    then with one that shares a word and has its type (wrong boundary), then with any that shares a
    word (both wrong). A true span that is left was missed, a predicted one invented. Counted under
    the true type, what is invented under its own.

    Example:
        >>> span_errors([(0, 2, "A")], [(1, 2, "A")])
        {'A': {'boundary': 1}}
    """
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    rest = list(predicted)
    open_ = list(truth)
    for outcome, fits in _FITS.items():
        still = []
        for true in open_:
            match = next((said for said in rest if fits(true, said)), None)
            if match is None:
                still.append(true)
            else:
                rest.remove(match)
                found[true[2]][outcome] += 1
        open_ = still
    for spans, outcome in ((open_, "missed"), (rest, "invented")):
        for _, _, kind in spans:
            found[kind][outcome] += 1
    return {kind: dict(counts) for kind, counts in found.items()}


def _share_words(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


_FITS = {
    "right": lambda true, said: true == said,
    "type": lambda true, said: true[:2] == said[:2],
    "boundary": lambda true, said: true[2] == said[2] and _share_words(true, said),
    "boundary and type": _share_words,
}


def _f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 along the last axis of right, predicted, true."""
    f1: NDArray[np.float64] = 2 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1)
    return f1
