"""`Decisions`: how sure a model is of what it says, and whether it is right.

One decision a text where one label is said; one a word of tags; one a text and label where labels
stand for themselves. What is made of them is in `calibration.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked
from bothways.evaluation.intervals import Indices
from bothways.metrics.answers import AnswerScores
from bothways.tasks.results import (
    AnswerResult,
    ChoiceResult,
    LabelResult,
    LabelSetResult,
    Result,
    TagResult,
)

Numbers = NDArray[np.float64]
# Probabilities nearer to 0 have this logarithm, so that a temperature can be applied to them.
LEAST = 1e-12
# Temperatures that are tried.
COLDEST, HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class Decisions:
    """Outcomes that exclude each other, one of which is said with a probability.

    Attributes:
        example: (decisions,) index of the example that each is of, in their order.
        said: (decisions,) what is said, in words; whether it is right is asked.
        log_shares: (decisions, outcomes) logarithms of the probabilities; -inf for none.
        chosen: (decisions,) the outcome that is said.
        truth: (decisions,) the outcome that is true.
    """

    example: Indices
    said: tuple[str, ...]
    log_shares: Numbers
    chosen: Indices
    truth: Indices

    def __len__(self) -> int:
        """Number of decisions."""
        return len(self.chosen)

    @property
    def right(self) -> NDArray[np.bool_]:
        """(decisions,) whether what is said is true."""
        right: NDArray[np.bool_] = self.chosen == self.truth
        return right

    def confidence(self, temperature: float | Numbers = 1.0) -> Numbers:
        """(decisions,) probability of what is said.

        Args:
            temperature: that logits are divided by; one, or one a decision.
        """
        return np.exp(self._scaled(temperature)[np.arange(len(self)), self.chosen])

    def losses(self, temperature: float | Numbers = 1.0) -> Numbers:
        """(decisions,) cross-entropy of each, in nats; see `confidence`."""
        return -self._scaled(temperature)[np.arange(len(self)), self.truth]

    def those(self, some: NDArray[np.bool_]) -> Decisions:
        """Some of the decisions."""
        said = tuple(word for word, kept in zip(self.said, some.tolist(), strict=True) if kept)
        return Decisions(
            self.example[some], said, self.log_shares[some], self.chosen[some], self.truth[some]
        )

    def temperature(self) -> float:
        """The one that gives the smallest loss on these decisions.

        Source: Guo et al. 2017, section 4.2.
        """
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            lambda logarithm: float(self.losses(np.exp(logarithm)).mean()),
            bounds=(np.log(COLDEST), np.log(HOTTEST)),
            method="bounded",
        )
        return float(np.exp(found.x))

    def _scaled(self, temperature: float | Numbers) -> Numbers:
        divisor = np.asarray(temperature, dtype=np.float64).reshape(-1, 1)
        scores = self.log_shares / divisor
        scores = scores - scores.max(1, keepdims=True)
        found: Numbers = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return found


def decisions_of(evidence: Evidence) -> Decisions:
    """All decisions of a model on the examples.

    Raises:
        NotAsked: where the task gives no probabilities.
    """
    results = evidence.results
    found = next((kind for kind in READERS if isinstance(results[0], kind)), None)
    if found is None:
        raise NotAsked(f"The task {evidence.task.name} gives no probabilities.")
    rows = [
        (number, *decision)
        for number, (result, example) in enumerate(zip(results, evidence.examples, strict=True))
        for decision in READERS[found](result, example)
    ]
    if not rows:
        raise NotAsked("Nothing was said with a probability.")
    numbers, said, shares, chosen, truth = zip(*rows, strict=True)
    width = max(map(len, shares))
    logs = np.full((len(rows), width), -np.inf)
    for row, values in zip(logs, shares, strict=True):
        row[: len(values)] = np.log(np.maximum(values, LEAST))
    return Decisions(np.array(numbers), said, logs, np.array(chosen), np.array(truth))


# What is said, the probabilities of all outcomes, the one that is said, the one that is true.
Decision = tuple[str, Sequence[float], int, int]


def _label(result: LabelResult, example: Any) -> Iterator[Decision]:
    labels = list(result.probabilities)
    shares = list(result.probabilities.values())
    yield result.label, shares, labels.index(result.label), labels.index(example.label)


def _label_set(result: LabelSetResult, example: Any) -> Iterator[Decision]:
    for label, share in result.probabilities.items():
        yield label, (1 - share, share), 1, int(label in example.labels)


def _choice(result: ChoiceResult, example: Any) -> Iterator[Decision]:
    yield f"place {result.index}", result.probabilities, result.index, example.label


def _tag(result: TagResult, example: Any) -> Iterator[Decision]:
    unread = set(result.unread)
    words = zip(result.tags, result.probabilities, example.tags, strict=True)
    for word, (tag, share, truth) in enumerate(words):
        if word not in unread:
            yield tag, (1 - share, share), 1, int(tag == truth)


def _answer(result: AnswerResult, example: Any) -> Iterator[Decision]:
    exact = AnswerScores([result.text], [[answer.text for answer in example.answers]]).exact[0]
    said = "an answer" if result.text else "no answer"
    yield said, (1 - result.probability, result.probability), 1, int(exact)


READERS: dict[type[Result], Callable[[Any, Any], Iterator[Decision]]] = {
    LabelResult: _label,
    LabelSetResult: _label_set,
    ChoiceResult: _choice,
    TagResult: _tag,
    AnswerResult: _answer,
}
