"""Slices: on which kinds of texts the model is worse than on the others.

Each slice is compared with all other examples, and the intervals hold together, so that the worst
of many slices is not taken for bad because many were looked at. What the slices are is in
`slicing.py`. A slice that scores lower shows where, not why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.slicing import Slice, find_slices
from bothways.errors import NotAsked, counted
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, intervals_together
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Series,
    Severity,
    Table,
    interval_columns,
)

# A slice that is not surely behind by this share of the whole score is a note, no alarm.
LEAST_GAP = 0.05
# Labels are found unequally well by most models, and nobody knows them beforehand: see `errors`.
NO_ALARM = {"label"}
# A correlation within a slice depends on how alike its numbers are; errors do not.
CORRELATIONS = {"spearman", "pearson"}
# Scores that have to be computed anew for every slice and resample.
SLOW_RESAMPLES = 300
SHOWN = 20
NAMED = 5


@dataclass(frozen=True)
class Judged:
    """A slice beside all other examples.

    Attributes:
        slice: which.
        score: on its examples.
        gap: that minus the score on all others, with intervals that hold for all slices at once;
            None where the slice is too small to judge.
    """

    slice: Slice
    score: float
    gap: Metric | None

    @property
    def is_behind(self) -> bool:
        """Whether it scores lower with the whole interval."""
        return self.gap is not None and self.gap.high is not None and self.gap.high < 0

    @property
    def verdict(self) -> str:
        """What is shown of it."""
        if self.gap is None:
            return "too small to judge"
        if self.is_behind:
            return "lower"
        higher = self.gap.low is not None and self.gap.low > 0
        return "higher" if higher else "no difference shown"


@dataclass(frozen=True)
class Slices:
    """How the model does on each kind of text.

    Attributes:
        metric: name of the score; more is better.
        score: on all examples.
        judged: slices, worst first.
        small: slices that are too small to judge.
        told: what could not be told apart, and why.
    """

    metric: str
    score: float
    judged: tuple[Judged, ...]
    small: tuple[Judged, ...]
    told: tuple[str, ...]

    @property
    def behind(self) -> tuple[Judged, ...]:
        """Slices that are shown to score lower, worst first."""
        return tuple(each for each in self.judged if each.is_behind)

    def findings(self) -> tuple[Finding, ...]:
        """One finding: the worst slice, and what else is behind."""
        count = len(self.judged)
        numbers: dict[str, float | int | str | None] = {
            "slices": count,
            "too_small": len(self.small),
            "behind": len(self.behind),
        }
        severity: Severity = "fine"
        if not count:
            text = f"No slice has {TOO_FEW} examples beside as many others, so none can be judged."
            severity = "note"
        elif not self.behind:
            text = (
                f"None of {counted(count, 'slice')} is shown to score lower than the other "
                f"examples (the nearest to it, {self.judged[0].slice}: {self.metric} "
                f"{self.judged[0].score:.3f})."
            )
        else:
            large = [each for each in self.behind if self._is_far(each)]
            severity = "alarm" if large else "note"
            worst, *others = _distinct(large or self.behind)[: NAMED + 1]
            assert worst.gap
            text = (
                f"Of {counted(count, 'slice')} the worst is {worst.slice} "
                f"({counted(worst.slice.count, 'example')}): its {self.metric} is "
                f"{worst.score:.3f}, {-worst.gap.value:.3f} lower than the others' "
                f"[{-worst.gap.high:.3f}, {-worst.gap.low:.3f}]."  # type: ignore[operator]
            )
            if others:
                text += f" Lower too: {', '.join(str(each.slice) for each in others)}."
            numbers |= {
                "worst_slice": str(worst.slice),
                "worst_count": worst.slice.count,
                "worst_score": worst.score,
                "gap": worst.gap.value,
                "gap_low": worst.gap.low,
                "gap_high": worst.gap.high,
            }
        if self.small:
            text += f" {counted(len(self.small), 'slice')} with fewer than {TOO_FEW} not judged."
        return (Finding("slices", severity, " ".join([text, *self.told]), numbers),)

    def figures(self) -> tuple[Figure, ...]:
        """How far the worst slices are behind the others."""
        shown = {str(each.slice): each.gap for each in self.judged[:SHOWN] if each.gap is not None}
        if not shown:
            return ()
        title = f"The worst slices: {self.metric} minus that of all other examples"
        bars = Series.of_metrics("gap to the others", shown)
        return (Figure("slices", title, "bar", f"gap in {self.metric}", "slice", (bars,)),)

    def tables(self) -> tuple[Table, ...]:
        """Every slice, worst first; those too small to judge last."""
        nothing = (None, None, None)
        rows = tuple(
            (
                *(each.slice.kind, each.slice.name, each.slice.count, each.score),
                *(nothing if each.gap is None else each.gap.cells),
                each.verdict,
            )
            for each in (*self.judged, *self.small)
        )
        columns = ("by", "slice", "examples", self.metric, *interval_columns("gap to the others"))
        title = "Slices, worst first; the intervals hold for all of them at once"
        return (Table("slices", title, (*columns, "verdict"), rows),) if rows else ()

    def _is_far(self, each: Judged) -> bool:
        nearest = 0.0 if each.gap is None or each.gap.high is None else -each.gap.high
        return nearest >= LEAST_GAP * abs(self.score) and each.slice.kind not in NO_ALARM


def slices(evidence: Evidence) -> Slices:
    """Score every slice beside all other examples.

    Args:
        evidence: to ask; its columns are sliced by too.

    Raises:
        NotAsked: of rankings, which are of a query's documents together.
    """
    if evidence.task.name == "rerank":
        raise NotAsked("A ranking is of all documents of a query, so documents are no slices.")
    found = find_slices(evidence)
    metric, score, credit = _measure(evidence)
    gaps = intervals_together(
        _gaps(found.slices, score, credit),
        evidence.units,
        resamples=evidence.resamples if credit is not None else SLOW_RESAMPLES,
        seed=evidence.seed,
    )
    judged = [
        Judged(each, score(np.flatnonzero(each.those)), gap)
        for each, gap in zip(found.slices, gaps, strict=True)
    ]
    small = [Judged(each, score(np.flatnonzero(each.those)), None) for each in found.small]
    return Slices(
        metric,
        score(np.arange(len(evidence.examples))),
        tuple(sorted(judged, key=_rank)),
        tuple(small),
        found.told,
    )


def _distinct(judged: Sequence[Judged]) -> list[Judged]:
    """The first of those that are the same examples by other names, such as script and language."""
    found: dict[bytes, Judged] = {}
    for each in judged:
        found.setdefault(each.slice.those.tobytes(), each)
    return list(found.values())


def _rank(each: Judged) -> tuple[float, float]:
    """Worst is what is surely lower by most."""
    assert each.gap
    value = each.gap.value
    return (value if each.gap.high is None else each.gap.high), value


def _measure(
    evidence: Evidence,
) -> tuple[str, Callable[[Indices], float], NDArray[np.float64] | None]:
    """What slices are scored by: name, the score of some examples, and where it is a mean, of what.

    Correlations give way to errors.
    """
    metric = evidence.task.main_metric
    if metric == "accuracy" or metric in CORRELATIONS:
        try:
            credit = evidence.credit
        except NotAsked:
            pass
        else:
            name = metric if metric == "accuracy" else "mean error, negated"
            return name, lambda some: float(credit[some].mean()), credit
    return metric, evidence.scorer(), None


def _gaps(
    found: Sequence[Slice],
    score: Callable[[Indices], float],
    credit: NDArray[np.float64] | None,
) -> Callable[[Indices], NDArray[np.float64]]:
    """How much better each slice scores than all other examples, among some."""
    members = np.array([each.those for each in found])
    if credit is None or not len(found):
        return lambda some: np.array([_gap(those[some], some, score) for those in members])
    inside = members.astype(np.float64)

    def gaps(some: Indices) -> NDArray[np.float64]:
        times = np.bincount(some, minlength=len(credit)).astype(np.float64)
        counts, sums = inside @ times, inside @ (times * credit)
        rest, rest_sums = len(some) - counts, (times * credit).sum() - sums
        with np.errstate(invalid="ignore", divide="ignore"):
            difference: NDArray[np.float64] = sums / counts - rest_sums / rest
        return difference

    return gaps


def _gap(inside: NDArray[np.bool_], some: Indices, score: Callable[[Indices], float]) -> float:
    one, other = some[inside], some[~inside]
    return score(one) - score(other) if len(one) and len(other) else float("nan")
