"""What a comparison of two models found: numbers, and the same as a report.

How it is found is in `compare.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bothways.errors import agreeing, counted
from bothways.evaluation.evaluate import versions
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import CONFIDENCE
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Report,
    Series,
    Table,
    interval_columns,
)
from bothways.tokenization.encoding import Ledger

LIKELY = 1 - CONFIDENCE
SLICES_DRAWN = 30
GAIN = interval_columns("difference")
TEST_WORDS = {"mcnemar": "McNemar's test", "permutation": "permutation test"}

Row = tuple[str | float | int | None, ...]


@dataclass(frozen=True)
class Difference:
    """The main metric of two models on the same examples.

    Attributes:
        where: which examples; empty for all.
        count: how many.
        first, second: the metric of each model.
        gain: of the second over the first, paired; more than 0 where the second is better.
        p: of the test; corrected where many slices are looked at.
        only_first, only_second: examples that only one of them gets right; None where the metric
            is not a share of right ones.
    """

    where: str
    count: int
    first: float
    second: float
    gain: Metric
    p: float
    only_first: int | None = None
    only_second: int | None = None

    @property
    def better(self) -> int:
        """1 or 2, the model that is shown to be better, by interval and test alike; else 0."""
        low, high = self.gain.low, self.gain.high
        if low is None or high is None or low <= 0 <= high or self.p >= LIKELY:
            return 0
        return 2 if low > 0 else 1


@dataclass(frozen=True)
class Disagreement:
    """An example that one model does better on.

    Attributes:
        place: `file, line 12`, or nothing.
        text: what was read.
        expected: what is right.
        said: what each model said.
        gain: what the second model has over the first on it.
    """

    place: str
    text: str
    expected: str
    said: tuple[str, str]
    gain: float


@dataclass(frozen=True)
class Side:
    """One of the models.

    Attributes:
        name: as given.
        parameters: numbers that it holds; 0 where the folder was exported.
        seconds: that predicting took, in one run.
        metrics: of all examples.
        ledger: what it read and lost.
    """

    name: str
    parameters: int
    seconds: float
    metrics: dict[str, Metric]
    ledger: Ledger


@dataclass(frozen=True)
class Compared:
    """Two models on the same examples.

    Attributes:
        sides: the first and the second model.
        task, data: names.
        metric: the main one.
        test: mcnemar or permutation.
        whole: all examples.
        slices: some of them each; intervals and p-values hold for all slices together.
        gains: of the second model over the first in every metric, turned so that more is better.
        disagreements: where one does better, the second model's losses first.
        too_small: slices of too few examples, which are not judged.
        seconds: that all took.
    """

    sides: tuple[Side, Side]
    task: str
    data: str
    metric: str
    test: str
    whole: Difference
    slices: tuple[Difference, ...] = ()
    gains: dict[str, Metric] = field(default_factory=dict)
    disagreements: tuple[Disagreement, ...] = ()
    too_small: int = 0
    seconds: float = 0.0

    def findings(self) -> tuple[Finding, ...]:
        """Which model is better, or that none is shown to be; then the slices that stand out.

        Slices that say otherwise than the whole come first.
        """
        shown = [each for each in self._ranked()[1:] if each.better]
        shown.sort(key=self._is_against, reverse=True)
        found = [self._of_all(), *map(self._of_slice, shown)]
        if self.slices and not shown:
            text = f"In none of {counted(len(self.slices), 'slice')} is a difference shown"
            if self.too_small:
                text += f"; {self.too_small} more {agreeing(self.too_small, 'are')} too small"
            found.append(Finding("compare", "fine", f"{text}."))
        return tuple(found)

    def figures(self) -> tuple[Figure, ...]:
        """The difference on all examples and in the slices where it is largest."""
        drawn = {each.where or "all": each.gain for each in self._ranked()[:SLICES_DRAWN]}
        series = Series.of_metrics("difference", drawn)
        title = (
            f"{self.metric}: how much {self.sides[1].name} is better than {self.sides[0].name}, "
            "with intervals"
        )
        return (Figure("compare", title, "bar", "difference", "examples", (series,)),)

    def tables(self) -> tuple[Table, ...]:
        """Slices, all metrics, what each model read, and the texts on which they disagree."""
        tables = (self._by_slice(), self._by_metric(), self._costs(), self._texts())
        return tuple(table for table in tables if table.rows)

    def report(self) -> Report:
        """All of it as a report on the second model, with the first beside it."""
        first, second = self.sides
        return Report(
            task=self.task,
            model=f"{second.name} against {first.name}",
            data=self.data,
            metrics=second.metrics,
            baselines={"the other": first.metrics},
            findings=self.findings(),
            figures=self.figures(),
            tables=self.tables(),
            ledger=second.ledger,
            versions=versions(),
            count=self.whole.count,
            seconds=self.seconds,
        )

    def _by_slice(self) -> Table:
        names = (self.sides[0].name, self.sides[1].name)
        rows: list[Row] = [
            (
                each.where or "all",
                each.count,
                each.first,
                each.second,
                *each.gain.cells,
                each.p,
                each.only_first,
                each.only_second,
            )
            for each in self._ranked()
        ]
        only = (f"only {names[0]} right", f"only {names[1]} right")
        columns = ("examples", "count", *names, *GAIN, "p", *only)
        # The last two are empty where the metric is not a share of right ones.
        width = len(columns) - (len(only) if self.whole.only_first is None else 0)
        title = f"{self.metric} by slice; p by {TEST_WORDS[self.test]}"
        return Table("compare", title, columns[:width], tuple(row[:width] for row in rows))

    def _by_metric(self) -> Table:
        first, second = self.sides
        rows = tuple(
            (name, first.metrics[name].value, second.metrics[name].value, *found.cells)
            for name, found in self.gains.items()
        )
        title = "All metrics; differences are turned so that more is better"
        return Table("compare_metrics", title, ("metric", first.name, second.name, *GAIN), rows)

    def _costs(self) -> Table:
        first, second = self.sides
        rows: tuple[Row, ...] = (
            ("parameters", first.parameters or None, second.parameters or None),
            ("seconds to predict", first.seconds, second.seconds),
            ("tokens", first.ledger.tokens, second.ledger.tokens),
            ("tokens cut", first.ledger.tokens_cut, second.ledger.tokens_cut),
        )
        title = "Size, time and what was read"
        return Table("compare_cost", title, ("", first.name, second.name), rows)

    def _texts(self) -> Table:
        rows = tuple(
            (each.place, each.text, each.expected, *each.said, each.gain)
            for each in self.disagreements
        )
        columns = ("place", "text", "expected", self.sides[0].name, self.sides[1].name, "gain")
        title = "Texts on which they disagree, the second model's losses first"
        return Table("compare_texts", title, columns, rows)

    def _of_all(self) -> Finding:
        whole, (first, second) = self.whole, self.sides
        if whole.count < TOO_FEW:
            text = f"{counted(whole.count, 'example')} {agreeing(whole.count, 'are')} too few to "
            text += f"tell {first.name} and {second.name} apart: {self._told(whole)}."
        elif whole.better:
            winner, loser = self._names(whole)
            text = f"{winner} is better than {loser}: {self._told(whole)}."
        else:
            text = (
                f"No difference shown between {first.name} and {second.name}: {self._told(whole)}."
            )
        return Finding("compare", "note", text, _numbers(whole))

    def _of_slice(self, found: Difference) -> Finding:
        winner, loser = self._names(found)
        but = ", against what holds on the whole" if self._is_against(found) else ""
        text = f"Where {found.where}, {winner} is better than {loser}{but}: {self._told(found)}."
        return Finding("compare", "note", text, _numbers(found))

    def _is_against(self, found: Difference) -> bool:
        return self.whole.better not in (0, found.better)

    def _names(self, found: Difference) -> tuple[str, str]:
        """The better model and the other."""
        first, second = self.sides
        return (second.name, first.name) if found.better == 2 else (first.name, second.name)

    def _told(self, found: Difference) -> str:
        """`accuracy 0.780 against 0.812, difference 0.032 [0.010, 0.054], p = 0.004`."""
        test = f"{TEST_WORDS[self.test]}, p = {found.p:.2g}"
        if found.p < 1e-4:
            test = f"{TEST_WORDS[self.test]}, p < 0.0001"
        if found.where:
            test += ", corrected for the number of slices"
        return (
            f"{self.metric} {found.first:.3f} and {found.second:.3f}, "
            f"difference {found.gain} ({test})"
        )

    def _ranked(self) -> list[Difference]:
        """All examples first, then the slices by how far they are from no difference."""
        return [self.whole, *sorted(self.slices, key=lambda each: -abs(each.gain.value))]


def _numbers(found: Difference) -> dict[str, float | int | str | None]:
    return {
        "slice": found.where or None,
        "count": found.count,
        "first": found.first,
        "second": found.second,
        "difference": found.gain.value,
        "difference_low": found.gain.low,
        "difference_high": found.gain.high,
        "p": found.p,
        "only_first_right": found.only_first,
        "only_second_right": found.only_second,
        "better": found.better or None,
    }
