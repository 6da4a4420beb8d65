"""Would more labels help? What the learning curve of the best candidate says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bothways.evaluation.result import Finding
from bothways.ladder.candidates import Candidate, CandidateRunner
from bothways.ladder.climbing import Trained
from bothways.ladder.deciding import Bar
from bothways.training.curve import CurvePoint, learning_curve
from bothways.training.tuning_table import TuningSettings

# Two doublings of what is learned from.
SHARES = (0.25, 0.5, 1.0)
# Doublings that are foretold; further on, three points say nothing.
FORETOLD = 3
NORMAL_95 = 1.96


def curve_of(candidate: Candidate, trained: Trained, runner: CandidateRunner) -> list[CurvePoint]:
    """What a quarter, half and all of the training data reach on dev.

    Args:
        candidate: the best.
        trained: on all.
        runner: of the candidate.
    """
    given = dataclasses.replace(candidate.given, tuning=TuningSettings(learning_curve=SHARES))
    finish = getattr(candidate.data.splits.task, "finish", lambda done: done)
    points = learning_curve(given, runner, trained.best, trained.data, trained.parts, finish=finish)
    return list(points)


def more_labels(points: Sequence[CurvePoint], bar: Bar) -> Finding:
    """The answer: what the last doubling brought, and what further ones would.

    Gains of further doublings are taken to shrink as they did between the last two.

    Args:
        points: of a quarter, half and all.
        bar: the target.
    """
    quarter, half, whole = points
    before = bar.direction * (half.score.value - quarter.score.value)
    last = bar.direction * (whole.score.value - half.score.value)
    margin = NORMAL_95 * math.hypot(_deviation(half), _deviation(whole))
    told = (
        f"The last doubling of what is learned from, {half.examples:,} to {whole.examples:,} "
        f"examples, brought {bar.direction * last:+.3f} {bar.metric} (95 % margin {margin:.3f})"
    )
    numbers: dict[str, float | int | str | None] = {"gain": bar.direction * last, "margin": margin}
    if last <= 0:
        text = f"{told}: more labels of this kind are not seen to help."
        return Finding("more labels", "note", text, numbers)
    ratio = min(last / before, 1.0) if before > 0 else 1.0
    gain, doublings = 0.0, 0
    while doublings < FORETOLD and not bar.reached_by(whole.score.value + bar.direction * gain):
        doublings += 1
        gain += last * ratio**doublings
    ahead = whole.score.value + bar.direction * gain
    count = whole.examples * 2**doublings
    unsure = " The margin is larger than the gain, so this may be chance." if margin >= last else ""
    if bar.reached_by(ahead):
        text = (
            f"{told}. If gains go on to shrink as they did, {bar.target:g} is reached at about "
            f"{count:,} examples.{unsure} A larger --data, or a better encoder, may clear it."
        )
    else:
        text = (
            f"{told}. If gains go on to shrink as they did, {count:,} examples lead to "
            f"{ahead:.3f}, not to {bar.target:g}.{unsure} Another encoder, or cleaner labels, are "
            "likelier to help."
        )
    return Finding("more labels", "note", text, {**numbers, "foretold": ahead, "examples": count})


def _deviation(point: CurvePoint) -> float:
    score = point.score
    if score.low is None or score.high is None:
        return 0.0
    return (score.high - score.low) / 2 / NORMAL_95
