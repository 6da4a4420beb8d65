"""Decisions in bins by their probability, and shares of the surest ones, with intervals.

Everything is kept as sums an example, so that drawing examples anew costs one product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.decisions import Decisions, Numbers
from bothways.evaluation.intervals import Indices, Units, intervals
from bothways.evaluation.result import Metric

MOST_BINS = 15
LEAST_IN_BIN = 40
SIMULATED = 1000
# Shares of the decisions that are kept, the surest first.
KEPT = tuple(np.linspace(0.05, 1.0, 20).round(2).tolist())


@dataclass(frozen=True)
class Binned:
    """Decisions in bins of about equal size, from the least to the most probable.

    Attributes:
        probability: (decisions,) of what is said.
        right: (decisions,) whether it is.
        bins: (decisions,) number of the bin of each.
        example: (decisions,) index of the example of each.
        units: of the examples.
    """

    probability: Numbers
    right: NDArray[np.bool_]
    bins: Indices
    example: Indices
    units: Units

    @classmethod
    def of(cls, decisions: Decisions, probability: Numbers, units: Units) -> Binned:
        """Decisions with these probabilities.

        Args:
            decisions: to put into bins.
            probability: (decisions,) of what is said.
            units: of the examples.
        """
        count = int(np.clip(len(probability) // LEAST_IN_BIN, 1, MOST_BINS))
        edges = np.unique(np.quantile(probability, np.arange(1, count) / count))
        bins = np.searchsorted(edges, probability, side="right")
        _, bins = np.unique(bins, return_inverse=True)
        return cls(probability, decisions.right, bins, decisions.example, units)

    @property
    def count(self) -> int:
        """Number of bins."""
        return int(self.bins.max()) + 1

    @property
    def sizes(self) -> Indices:
        """(bins,) decisions in each."""
        return np.bincount(self.bins, minlength=self.count)

    @property
    def means(self) -> Numbers:
        """(bins,) mean probability."""
        return np.bincount(self.bins, self.probability, self.count) / self.sizes

    def ends(self, number: int) -> tuple[float, float]:
        """The smallest and the largest probability of a bin."""
        inside = self.probability[self.bins == number]
        return float(inside.min()), float(inside.max())

    def error(self, *, resamples: int, seed: int) -> Metric:
        """The expected calibration error: how far shares are from probabilities, on average.

        Gaps in drawn examples are larger than in the examples themselves, as these are larger than
        in all texts there are; the interval is that of the bootstrap turned round the estimate,
        which takes the one off for the other.

        Source: Naeini et al. 2015, with bins of equal size (Nguyen and O'Connor 2015); Efron and
        Tibshirani 1993, section 13.4, for the interval.
        """
        gaps = self._sums(self.probability - self.right)
        counts = self._sums(np.ones(len(self.bins))).sum(1)

        def error(some: Indices) -> dict[str, float]:
            weights = np.bincount(some, minlength=len(gaps))
            return {"": float(np.abs(weights @ gaps).sum() / (weights @ counts))}

        drawn = intervals(error, self.units, resamples=resamples, seed=seed)[""]
        if drawn.low is None or drawn.high is None:
            return drawn
        ends = (max(0.0, 2 * drawn.value - end) for end in (drawn.high, drawn.low))
        return Metric(drawn.value, *ends)

    def chance(self, share: float, generator: np.random.Generator) -> float:
        """The error that this share of perfectly calibrated models stays below.

        Args:
            share: of the models.
            generator: of the outcomes, which are drawn with the probabilities that were said.
        """
        order = np.argsort(self.bins, kind="stable")
        probability = self.probability[order]
        starts = np.flatnonzero(np.r_[True, np.diff(self.bins[order]) > 0])
        found = []
        for _ in range(SIMULATED):
            right = generator.random(len(probability)) < probability
            gaps = np.add.reduceat(probability - right, starts)
            found.append(np.abs(gaps).sum() / len(probability))
        return float(np.quantile(found, share))

    def shares(self, *, resamples: int, seed: int) -> list[Metric]:
        """Of each bin the share that is right, with its interval."""
        right, counts = self._sums(self.right), self._sums(np.ones(len(self.bins)))
        return _ratios(right, counts, self.units, resamples=resamples, seed=seed)

    def _sums(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Numbers:
        """(examples, bins) of values of decisions."""
        shape = len(self.units.order), self.count
        return _summed(values, self.example, self.bins, shape)


def risks(binned: Binned, *, resamples: int, seed: int) -> dict[float, Metric]:
    """Share of wrong decisions among the surest ones, by share of decisions that are kept.

    Decisions of the same probability are kept together, so shares may be left out.

    Args:
        binned: the decisions; their bins are not asked.
        resamples, seed: of the intervals.
    """
    thresholds = np.quantile(binned.probability, 1 - np.array(KEPT), method="lower")
    thresholds = np.unique(thresholds)[::-1]
    # The number of the first threshold that a decision reaches.
    first = np.searchsorted(-thresholds, -binned.probability)
    shape = len(binned.units.order), len(thresholds)

    def kept(values: NDArray[np.float64] | NDArray[np.bool_]) -> Numbers:
        return _summed(values, binned.example, first, shape).cumsum(1)

    counts = kept(np.ones(len(first)))
    found = _ratios(kept(~binned.right), counts, binned.units, resamples=resamples, seed=seed)
    return dict(zip((counts.sum(0) / len(first)).tolist(), found, strict=True))


def _summed(
    values: NDArray[np.float64] | NDArray[np.bool_],
    rows: Indices,
    columns: Indices,
    shape: tuple[int, int],
) -> Numbers:
    """Values added up where they belong."""
    found = np.zeros(shape)
    np.add.at(found, (rows, columns), values)
    return found


def _ratios(
    above: Numbers, below: Numbers, units: Units, *, resamples: int, seed: int
) -> list[Metric]:
    """Sums of one by sums of the other, column by column; (examples, columns) each."""

    def ratios(some: Indices) -> dict[int, float]:
        weights = np.bincount(some, minlength=len(above))
        over = weights @ below
        found = np.divide(weights @ above, over, out=np.full(len(over), np.nan), where=over > 0)
        return dict(enumerate(found.tolist()))

    return list(intervals(ratios, units, resamples=resamples, seed=seed).values())
