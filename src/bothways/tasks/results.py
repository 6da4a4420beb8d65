"""What tasks return: typed, frozen, with offsets into the caller's text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LabelResult:
    """One label a text.

    Attributes:
        label: the most probable one.
        probability: of that label.
        probabilities: of every label, in the model's label order.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True)
class ScoreResult:
    """One number a text or pair, in the caller's units."""

    score: float


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
    """A sentence's tags, one a word, and the spans they make."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[SpanResult, ...]


@dataclass(frozen=True)
class AnswerResult:
    """An answer found in a context: context[start:end]; empty where there is none."""

    text: str
    start: int
    end: int
    probability: float
    no_answer: float


Result = LabelResult | ScoreResult | TagResult | AnswerResult
