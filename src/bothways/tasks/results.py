"""What tasks return: typed, frozen, with offsets into the caller's text."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelResult:
    """One label a text.

    Attributes:
        label: the most probable one.
        probability: of that label.
        probabilities: of every label, in the model's label order.
        calibrated: whether a fitted temperature made the probabilities; printed if so.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    calibrated: bool = field(default=False, metadata={"shown": "if set"})


@dataclass(frozen=True)
class LabelSetResult:
    """Any number of labels a text.

    Attributes:
        labels: those whose probability reaches their threshold, in the model's label order.
        probabilities: of every label, each on its own.
        calibrated: whether a fitted temperature made the probabilities; printed if so.
    """

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    calibrated: bool = field(default=False, metadata={"shown": "if set"})


@dataclass(frozen=True)
class ChoiceResult:
    """One of the choices that a question came with.

    Attributes:
        index: of the most probable one, from 0.
        choice: its text.
        probability: of that choice.
        probabilities: of each choice, in the order they were given.
        calibrated: whether a fitted temperature made the probabilities; printed if so.
    """

    index: int
    choice: str
    probability: float
    probabilities: tuple[float, ...]
    calibrated: bool = field(default=False, metadata={"shown": "if set"})


@dataclass(frozen=True)
class ScoreResult:
    """One number a text or pair, in the caller's units.

    Attributes:
        score: the number.
        vectors: what a similarity was computed from, (texts, dimension), where rankings are judged
            by them; not printed.
    """

    score: float
    vectors: NDArray[np.float32] | None = field(
        default=None, repr=False, compare=False, metadata={"shown": False}
    )


@dataclass(frozen=True)
class SpanResult:
    """A piece of the caller's text with a label: text[start:end]."""

    start: int
    end: int
    text: str
    label: str
    probability: float


@dataclass(frozen=True)
class TagResult:
    """A sentence's tags, one a word, and the spans they make.

    Attributes:
        words: as given, or as the text was split.
        tags: one a word.
        spans: what the tags make; the probability of one is the product of its words'.
        probabilities: of each word's tag; 0 where the word was not read.
        unread: which words, from 0, no model saw, because they were cut or became no token; their
            tag is the one for words of which nothing is known.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[SpanResult, ...]
    probabilities: tuple[float, ...] = ()
    unread: tuple[int, ...] = ()


@dataclass(frozen=True)
class AnswerSpan:
    """A piece of a context that may be an answer: context[start:end]."""

    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class AnswerResult:
    """An answer found in a context: context[start:end]; empty where there is none.

    Attributes:
        text, start, end: of the answer; "", 0 and 0 where there is none.
        probability: of this answer, or that there is none, among all spans and no answer.
        no_answer: probability that there is none.
        alternatives: the best spans, best first, as many as were asked for (`--n-best`); also
            where there is no answer.
    """

    text: str
    start: int
    end: int
    probability: float
    no_answer: float
    alternatives: tuple[AnswerSpan, ...] = ()


@dataclass(frozen=True)
class RankingResult:
    """Documents that were found for a query, best first.

    Attributes:
        documents: their ids.
        scores: the numbers that they are ranked by.
    """

    documents: tuple[str, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class SeveralResult:
    """What several heads over one encoder say of a text.

    Attributes:
        heads: the result of each, by the head's name.
    """

    heads: dict[str, Result]


Result = (
    LabelResult
    | LabelSetResult
    | ChoiceResult
    | ScoreResult
    | TagResult
    | AnswerResult
    | RankingResult
    | SeveralResult
)


def as_dict(result: Result) -> dict[str, Any]:
    """A result as plain JSON values, without what is not meant to be printed.

    Example:
        >>> as_dict(ScoreResult(0.5))
        {'score': 0.5}
    """
    if isinstance(result, SeveralResult):
        return {"heads": {name: as_dict(each) for name, each in result.heads.items()}}
    shown = {f.name: f.metadata.get("shown", True) for f in dataclasses.fields(result)}
    hidden = [
        name
        for name, when in shown.items()
        if not when or (when == "if set" and not getattr(result, name))
    ]
    nothing: dict[str, Any] = dict.fromkeys(hidden)
    bare = dataclasses.replace(result, **nothing)
    return {name: value for name, value in dataclasses.asdict(bare).items() if name not in hidden}
