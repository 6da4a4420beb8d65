"""`Pair`: predictions of two models of the same examples, and whether one is better.

What both are asked, and what is said about it, is in `compare.py` and `compared.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.compared import Difference
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.slicing import Slice
from bothways.evaluation.intervals import (
    CONFIDENCE,
    Indices,
    Units,
    intervals,
    of_many,
    paired_difference,
)
from bothways.evaluation.result import Metric
from bothways.evaluation.significance import holm, mcnemar, swapped_scores, swapped_sums
from bothways.inference.results import Results

# Metrics that are the mean over examples, and over units such as queries; others are neither.
MEANS_OF_EXAMPLES = {"accuracy", "f1", "exact_match"}
MEANS_OF_UNITS = {"ndcg_at_10", "mrr_at_10", "recall_at_100"}


@dataclass(frozen=True)
class Pair:
    """Predictions of two models of the same examples.

    Attributes:
        evidence: the examples, and how they are judged.
        first, second: predictions.
    """

    evidence: Evidence
    first: Results
    second: Results

    @property
    def metric(self) -> str:
        """The main one."""
        return self.evidence.task.main_metric

    @property
    def direction(self) -> int:
        """1 where more of it is better, else -1."""
        return self.evidence.task.metric_directions[self.metric]

    @property
    def is_share(self) -> bool:
        """Whether the metric is the share of right examples."""
        return self.metric == "accuracy"

    @property
    def test(self) -> str:
        """Which test suits: McNemar's for right and wrong examples that stand alone."""
        units = self.evidence.units
        alone = len(units) == len(units.order)
        return "mcnemar" if self.is_share and alone else "permutation"

    @cached_property
    def scorers(self) -> tuple[Callable[[Indices], float], Callable[[Indices], float]]:
        """The main metric of both, turned so that more is better."""
        return self.evidence.scorer(self.first), self.evidence.scorer(self.second)

    @cached_property
    def swapped(self) -> Callable[[Indices], float]:
        """The main metric of predictions of either; those of the second come after the first's."""
        examples = [*self.evidence.examples, *self.evidence.examples]
        scores = self.evidence.task.scorer([*self.first, *self.second], examples)
        return lambda some: self.direction * scores(some)[self.metric]

    @cached_property
    def credits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(examples,) how well each went, for both.

        Raises:
            NotAsked: where the task has no score of single examples.
        """
        return self.evidence.credit_of(self.first), self.evidence.credit_of(self.second)

    def metrics(self) -> dict[str, dict[str, Metric]]:
        """All metrics of `first` and `second`, and the `gain` of the second, on the same draws."""
        task, examples = self.evidence.task, self.evidence.examples
        one, two = (task.scorer(results, examples) for results in (self.first, self.second))

        def scores(some: Indices) -> dict[tuple[str, str], float]:
            both = {"first": one(some), "second": two(some)}
            found = {(which, name): v for which, own in both.items() for name, v in own.items()}
            for name in both["first"]:
                gap = both["second"][name] - both["first"][name]
                found["gain", name] = task.metric_directions[name] * gap
            return found

        drawn = intervals(
            scores,
            self.evidence.units,
            resamples=self.evidence.resamples,
            seed=self.evidence.seed,
        )
        found: dict[str, dict[str, Metric]] = {"first": {}, "second": {}, "gain": {}}
        for (which, name), metric in drawn.items():
            found[which][name] = metric
        return found

    def whole(self) -> Difference:
        """The difference on all examples."""
        return self._difference("", np.arange(len(self.evidence.examples)), CONFIDENCE)

    def of_slices(self, slices: Sequence[Slice]) -> tuple[Difference, ...]:
        """The difference on each slice; intervals and p-values hold for all together."""
        confidence = of_many(len(slices))
        found = [
            self._difference(str(each), np.flatnonzero(each.those), confidence) for each in slices
        ]
        corrected = holm([each.p for each in found])
        return tuple(replace(each, p=p) for each, p in zip(found, corrected, strict=True))

    def _difference(self, where: str, some: Indices, confidence: float) -> Difference:
        evidence = self.evidence
        groups = evidence.task.units([evidence.examples[index] for index in some.tolist()])
        units = Units.of(len(some), groups)
        one, two = self.scorers
        drawn = {"resamples": evidence.resamples, "seed": evidence.seed}
        gain = paired_difference(
            lambda inside: two(some[inside]),
            lambda inside: one(some[inside]),
            units,
            confidence=confidence,
            **drawn,
        )
        first, second = (self.direction * score(some) for score in self.scorers)
        only = self._only(some) if self.is_share else (None, None)
        return Difference(where, len(some), first, second, gain, self._p(some, units), *only)

    def _only(self, some: Indices) -> tuple[int, int]:
        """How many of these examples only the first, and only the second model gets right."""
        gaps = self.credits[1][some] - self.credits[0][some]
        return int((gaps < 0).sum()), int((gaps > 0).sum())

    def _p(self, some: Indices, units: Units) -> float:
        """The p-value of the test on these examples, whose units are numbered within them."""
        evidence = self.evidence
        drawn = {"resamples": evidence.resamples, "seed": evidence.seed}
        if self.test == "mcnemar":
            return mcnemar(*self._only(some))
        if self.metric in MEANS_OF_EXAMPLES | MEANS_OF_UNITS:
            one, two = (self._by_unit(score, some, units) for score in self.scorers)
            return swapped_sums(one, two, **drawn)
        count, all_of_them = len(some), len(evidence.examples)

        def score(inside: Indices) -> float:
            return self.swapped(some[inside % count] + all_of_them * (inside >= count))

        return swapped_scores(score, units, **drawn)

    def _by_unit(
        self, score: Callable[[Indices], float], some: Indices, units: Units
    ) -> NDArray[np.float64]:
        """What each unit adds to a mean of examples, or of units."""
        members = [some[units.order[start:end]] for start, end in pairwise(units.starts.tolist())]
        each = np.array([score(own) for own in members])
        return each * np.diff(units.starts) if self.metric in MEANS_OF_EXAMPLES else each
