"""What an evaluation of multiple choice shows beside its scores: rivals, and errors by place.

Rivals: the place that was right most often in training, words that question and choice share, and
choices alone. A model that is no better than the last does not need the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.baselines import bag_of_words
from bothways.evaluation.embedding import shared_words
from bothways.evaluation.findings import baselines_not_asked
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Table
from bothways.tasks.choice import ChoiceTask, choice_result, choice_results, truth_of
from bothways.tasks.choice_reading import ChoiceExample
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.embed_examples import EmbedExample
from bothways.tasks.regress import scores_of
from bothways.tasks.results import ChoiceResult, Result

SURENESS = 20.0


def choosing_parts(
    task: ChoiceTask,
    examples: Sequence[ChoiceExample],
    results: Sequence[Result],
    *,
    train: Sequence[ChoiceExample] | None = None,
    **others: Any,
) -> Parts:
    """Baselines, and how each place among the choices fares."""
    del others
    rivals: dict[str, list[ChoiceResult]] = {}
    if train is not None:
        rivals["choices_only"] = results_of_scores(examples, choices_alone(train, examples))
    words = shared_words(
        [EmbedExample(*pair) for example in examples for pair in example.pairs], with_vectors=False
    )
    if words:
        rivals["shared_words"] = results_of_scores(examples, SURENESS * scores_of(words))
    if task.positions:
        places = [*task.positions, *[0] * max(len(example.choices) for example in examples)]
        counts = [np.log1p(places[: len(example.choices)]) for example in examples]
        rivals["usual_place"] = results_of_scores(examples, np.concatenate(counts))
    findings = () if train is not None else (baselines_not_asked(),)
    return Parts(rivals, findings, (_place_table(examples, choice_results(results)),))


def choices_alone(
    train: Sequence[ChoiceExample], examples: Sequence[ChoiceExample]
) -> NDArray[np.float64]:
    """How right each choice looks to a bag of words that sees no question, as log-odds."""

    def alone(given: Sequence[ChoiceExample]) -> list[ClassifyExample]:
        return [ClassifyExample(choice) for example in given for choice in example.choices]

    labels = [
        str(int(index == example.label))
        for example in train
        for index in range(len(example.choices))
    ]
    found = bag_of_words(alone(train), labels, alone(examples), ("0", "1"))
    shares = np.clip([each.probabilities["1"] for each in found], 1e-9, 1 - 1e-9)
    odds: NDArray[np.float64] = np.log(shares) - np.log1p(-shares)
    return odds


def results_of_scores(
    examples: Sequence[ChoiceExample], scores: NDArray[np.float64]
) -> list[ChoiceResult]:
    """Results of scores of all choices one after another, by a softmax for each question."""
    found, start = [], 0
    for example in examples:
        end = start + len(example.choices)
        shares = np.exp(scores[start:end] - scores[start:end].max())
        found.append(choice_result(example, (shares / shares.sum()).tolist()))
        start = end
    return found


def _place_table(examples: Sequence[ChoiceExample], results: Sequence[ChoiceResult]) -> Table:
    truth = truth_of(examples)
    chosen = np.array([result.index for result in results])
    rows = []
    for place in range(max(len(example.choices) for example in examples)):
        there = truth == place
        right = float((chosen[there] == place).mean()) if there.any() else None
        rows.append((place, int(there.sum()), int((chosen == place).sum()), right))
    columns = ("place", "times right", "times chosen", "accuracy where it is right")
    return Table("places", "Places among the choices", columns, tuple(rows))
