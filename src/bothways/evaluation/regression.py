"""What an evaluation of numbers shows beside its scores: rivals, errors by size, the worst cases.

Rivals are the training mean and a ridge regression on bags of words; `evaluate.py` puts all of it
into the report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.baselines import bag_of_words_numbers
from bothways.evaluation.findings import baselines_not_asked
from bothways.evaluation.intervals import RESAMPLES
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Figure, Finding, Series, Table
from bothways.tasks.regress import RegressExample, RegressTask, numbers_of, scores_of
from bothways.tasks.results import Result, ScoreResult

BANDS = 5
WORST_SHOWN = 20
POINTS_DRAWN = 2000
# A mean of predictions this many deviations of the truth away from the mean truth is a bias.
BIAS_NOTE = 0.25


def regression_parts(
    task: RegressTask,
    examples: Sequence[RegressExample],
    results: Sequence[Result],
    *,
    train: Sequence[RegressExample] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """Baselines, errors by the size of the true number, the worst predictions, and bias.

    Args:
        task: fitted.
        examples: labelled.
        results: as many.
        train: training examples, for the bag of words.
        resamples, seed: not used; no table has intervals of its own.
    """
    del resamples, seed
    truth, predicted = numbers_of(examples), scores_of(results)
    rivals: dict[str, list[Result]] = {}
    if train is not None:
        found = bag_of_words_numbers(train, numbers_of(train), examples)
        rivals["bag_of_words"] = [ScoreResult(score) for score in found.tolist()]
    if task.mean is not None:
        rivals["mean"] = [ScoreResult(task.mean)] * len(examples)
    findings = [_bias_finding(truth, predicted)]
    if train is None:
        findings.append(baselines_not_asked())
    tables = (_band_table(truth, predicted), _worst_table(examples, truth, predicted))
    return Parts(rivals, tuple(findings), tables, (_figure(truth, predicted),))


def _bias_finding(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Finding:
    """Whether predictions lie too high or too low as a whole, and how far they spread."""
    bias, spread = float((predicted - truth).mean()), float(truth.std())
    numbers: dict[str, float | int | str | None] = {
        "bias": bias,
        "deviation_of_truth": spread,
        "deviation_of_predictions": float(predicted.std()),
    }
    biased = spread > 0 and abs(bias) > BIAS_NOTE * spread
    side = "high" if bias > 0 else "low"
    text = (
        f"Predictions are {abs(bias):.3g} too {side} on average; the true numbers deviate by "
        f"{spread:.3g}, the predicted ones by {predicted.std():.3g}."
    )
    return Finding("errors", "note" if biased else "fine", text, numbers)


def _band_table(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Table:
    """Errors in bands of the true number with about equally many examples."""
    edges = np.unique(np.quantile(truth, np.linspace(0, 1, BANDS + 1)))
    band = np.clip(np.searchsorted(edges, truth, side="right") - 1, 0, max(len(edges) - 2, 0))
    rows = []
    for number in np.unique(band).tolist():
        inside = band == number
        errors = predicted[inside] - truth[inside]
        low, high = float(truth[inside].min()), float(truth[inside].max())
        row = (float(np.abs(errors).mean()), float(errors.mean()))
        rows.append((f"{low:g} to {high:g}", int(inside.sum()), *row))
    columns = ("true number", "examples", "mean absolute error", "mean error")
    return Table("bands", "Errors by the size of the true number", columns, tuple(rows))


def _worst_table(
    examples: Sequence[RegressExample], truth: NDArray[np.float64], predicted: NDArray[np.float64]
) -> Table:
    order = np.argsort(-np.abs(predicted - truth), kind="stable")[:WORST_SHOWN].tolist()
    rows = tuple(
        (
            examples[index].place or f"example {index}",
            float(truth[index]),
            float(predicted[index]),
            _start(examples[index]),
        )
        for index in order
    )
    columns = ("where", "true", "predicted", "text")
    return Table("worst", "The largest errors", columns, rows)


def _start(example: RegressExample, width: int = 80) -> str:
    """The beginning of a text, or of both of a pair."""
    both = example.text if example.pair is None else f"{example.text} | {example.pair}"
    return both if len(both) <= width else both[:width] + "..."


def _figure(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Figure:
    drawn = np.linspace(0, len(truth) - 1, min(len(truth), POINTS_DRAWN)).astype(int)
    points = Series("examples", tuple(truth[drawn].tolist()), tuple(predicted[drawn].tolist()))
    title = "Predicted beside true numbers"
    return Figure("scatter", title, "scatter", "true", "predicted", (points,))
