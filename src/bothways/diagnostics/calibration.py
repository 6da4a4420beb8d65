"""Calibration: whether the probabilities mean what they say, and what makes them.

Of what is said with a probability of 0.8, four of five should be right. How far they are from it is
the expected calibration error; it is never 0 on finitely many texts, so it stands beside what a
perfectly calibrated model would show on as many. A temperature is fitted on one half of the texts
and judged on the other.

Sources: Guo et al. 2017; for the comparison with perfect calibration Bröcker and Smith 2007; for
curves of risk and coverage Geifman and El-Yaniv 2017.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.binning import KEPT, Binned, risks
from bothways.diagnostics.decisions import Decisions, Numbers, decisions_of
from bothways.diagnostics.evidence import Evidence
from bothways.errors import agreeing, counted
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import of_many, paired_difference
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Series,
    Severity,
    Table,
    interval_columns,
)

# An error that matters, if its interval lies above.
LEAST_ERROR = 0.02
# Of 100 perfectly calibrated models this many show a smaller error.
CHANCE = 0.99
WANTED = (0.8, 0.9, 0.95, 0.99)
# Wanted of the predictions of each label alone.
WANTED_OF_LABELS = 0.9
LABELS_SHOWN = 30


@dataclass(frozen=True)
class Bin:
    """Decisions of about the same probability.

    Attributes:
        low, mean, high: of their probabilities.
        count: how many they are.
        right: share that is right.
    """

    low: float
    mean: float
    high: float
    count: int
    right: Metric


@dataclass(frozen=True)
class Temperature:
    """What dividing the logits by a number does to the probabilities; no prediction changes.

    Attributes:
        value: fitted on all decisions; more than 1 makes the model less sure. On top of the
            temperature that the model has already.
        error: the calibration error where each half is judged by the temperature of the other.
        chance: what perfect calibration would show; see `Calibration`.
        gain: what the loss (nats) loses by it, judged in the same way.
    """

    value: float
    error: Metric
    chance: float
    gain: Metric

    @property
    def helps(self) -> bool:
        """Whether the loss is shown to be smaller."""
        return self.gain.low is not None and self.gain.low > 0


@dataclass(frozen=True)
class Threshold:
    """From which probability on enough of what is said is right.

    Attributes:
        said: which predictions; empty for all.
        wanted: share of them that has to be right.
        probability: from which on they are kept; None where no part of them is so good.
        kept: share of the predictions that is kept.
        right: share of these that is right.
        at_least: what that share is with 95 % confidence.
    """

    said: str
    wanted: float
    probability: float | None
    kept: float = 0.0
    right: float | None = None
    at_least: float | None = None

    @property
    def cells(self) -> tuple[str | float | None, ...]:
        """For a table, in this order."""
        return (self.said or "all", *list(vars(self).values())[1:])


@dataclass(frozen=True)
class Calibration:
    """How far probabilities can be relied on.

    Attributes:
        decisions: how many there are.
        examples: of how many examples.
        error: expected calibration error.
        chance: what 99 of 100 perfectly calibrated models stay below on as many decisions.
        confidence: mean probability of what is said.
        right: share of it that is right.
        reliability: of each bin its smallest, mean and largest probability, how many decisions it
            holds, and the share of them that is right.
        tempered: the same after calibrating; empty without a temperature.
        temperature: None where the task has none, or there are too few examples.
        risks: share of wrong predictions by share of predictions kept, the surest first.
        thresholds: for wanted shares of right predictions.
    """

    decisions: int
    examples: int
    error: Metric
    chance: float
    confidence: float
    right: float
    reliability: tuple[Bin, ...]
    tempered: tuple[Bin, ...]
    temperature: Temperature | None
    risks: dict[float, Metric]
    thresholds: tuple[Threshold, ...]

    def findings(self) -> tuple[Finding, ...]:
        """Whether the probabilities can be taken as they are, and what helps."""
        numbers: dict[str, float | int | str | None] = {
            "calibration_error": self.error.value,
            "calibration_error_low": self.error.low,
            "calibration_error_high": self.error.high,
            "by_chance": self.chance,
            "mean_probability": self.confidence,
            "share_right": self.right,
            "decisions": self.decisions,
        }
        if self.temperature is not None:
            numbers |= {
                "temperature": self.temperature.value,
                "calibration_error_tempered": self.temperature.error.value,
                "loss_saved": self.temperature.gain.value,
                "loss_saved_low": self.temperature.gain.low,
                "loss_saved_high": self.temperature.gain.high,
            }
        return (Finding("calibration", self._severity, self._told(), numbers),)

    def figures(self) -> tuple[Figure, ...]:
        """The reliability diagram, and the curve of risk and coverage."""
        ends = (0.0, 1.0)
        series = [Series("perfect", ends, ends), _drawn("as it is", self.reliability)]
        if self.tempered:
            series.append(_drawn("with the temperature", self.tempered))
        risks = Series.of_metrics("wrong", {f"{kept}": risk for kept, risk in self.risks.items()})
        return (
            Figure(
                "calibration",
                "How often what is said with a probability is right, with 95 % intervals",
                "line",
                "probability",
                "share right",
                tuple(series),
            ),
            Figure(
                "calibration_risk",
                "How much is wrong when only the surest predictions are kept, with 95 % intervals",
                "line",
                "share kept",
                "share wrong",
                (replace(risks, x=tuple(self.risks)),),
            ),
        )

    def tables(self) -> tuple[Table, ...]:
        """Bins, the temperature, and thresholds for a wanted share of right predictions."""
        columns = ("probabilities", "from", "to", "mean", "count", *interval_columns("right"))
        rows = tuple(
            (name, each.low, each.high, each.mean, each.count, *each.right.cells)
            for name, bins in (("as they are", self.reliability), ("tempered", self.tempered))
            for each in bins
        )
        title = "How often what is said with a probability is right"
        tables = [Table("calibration", title, columns, rows)]
        found = self.temperature
        if found is not None:
            error = "expected calibration error"
            tables.append(
                Table(
                    "calibration_temperature",
                    "What a temperature does, fitted on one half and judged on the other",
                    ("", *interval_columns("value")),
                    (
                        ("temperature, fitted on all", found.value, None, None),
                        (f"{error} as it is", *self.error.cells),
                        ("perfect calibration would show up to", self.chance, None, None),
                        (f"{error} with the temperature", *found.error.cells),
                        ("perfect calibration would show up to", found.chance, None, None),
                        ("loss saved (nats)", *found.gain.cells),
                    ),
                )
            )
        heads = ("predictions", "wanted", "least probability", "kept", "right", "at least")
        listed = tuple(each.cells for each in self.thresholds)
        title = "From which probability on enough is right (at least: with 95 % confidence)"
        tables.append(Table("calibration_thresholds", title, heads, listed))
        return tuple(tables)

    @property
    def _severity(self) -> Severity:
        if self.error.value <= self.chance:
            return "fine"
        large = self.error.low is not None and self.error.low > LEAST_ERROR
        return "alarm" if large and self.examples >= TOO_FEW else "note"

    def _told(self) -> str:
        told = (
            f"what is said has a mean probability of {self.confidence:.3f} and is right in "
            f"{self.right:.3f} (expected calibration error {self.error}; on "
            f"{counted(self.decisions, 'decision')} perfect calibration would show up to "
            f"{self.chance:.3f})"
        )
        if self.examples < TOO_FEW:
            count = counted(self.examples, "example")
            return (
                f"{count} {agreeing(self.examples, 'are')} too few to judge probabilities: {told}."
            )
        if self._severity == "fine":
            return f"The probabilities are as often right as they say: {told}."
        way = "too sure" if self.confidence > self.right else "less sure than it might be"
        text = f"The probabilities do not mean what they say, the model is {way}: {told}."
        found = self.temperature
        if found is not None and found.helps:
            text += (
                f" A temperature of {found.value:.2f} brings it to {found.error.value:.3f} "
                f"(perfect: up to {found.chance:.3f}) on texts that it was not fitted to, and "
                "changes no prediction; --calibrate stores it."
            )
        return text


def calibration(evidence: Evidence, *, wanted: Sequence[float] = WANTED) -> Calibration:
    """Ask how far the probabilities can be relied on.

    Args:
        evidence: to ask.
        wanted: shares of right predictions to find thresholds for.

    Raises:
        NotAsked: where the task gives no probabilities.
    """
    decisions = decisions_of(evidence)
    drawn = {"resamples": evidence.resamples, "seed": evidence.seed}
    probability = decisions.confidence()
    binned = Binned.of(decisions, probability, evidence.units)
    halves = _halves(decisions, evidence)
    temperature, tempered = None, None
    if halves is not None:
        each = _crossed(decisions, halves)
        tempered = Binned.of(decisions, decisions.confidence(each), evidence.units)
        temperature = Temperature(
            decisions.temperature(),
            tempered.error(**drawn),
            tempered.chance(CHANCE, evidence.generator("tempered")),
            _saved(decisions, each, evidence),
        )
    return Calibration(
        decisions=len(decisions),
        examples=len(evidence.examples),
        error=binned.error(**drawn),
        chance=binned.chance(CHANCE, evidence.generator("calibration")),
        confidence=float(probability.mean()),
        right=float(decisions.right.mean()),
        reliability=_bins(binned, drawn),
        tempered=() if tempered is None else _bins(tempered, drawn),
        temperature=temperature,
        risks=risks(binned, **drawn),
        thresholds=tuple(_thresholds(decisions, probability, wanted)),
    )


def _drawn(label: str, bins: Sequence[Bin]) -> Series:
    found = Series.of_metrics(label, {f"{number}": each.right for number, each in enumerate(bins)})
    return replace(found, x=tuple(each.mean for each in bins))


def _bins(binned: Binned, drawn: Mapping[str, int]) -> tuple[Bin, ...]:
    shares = binned.shares(**drawn)
    return tuple(
        Bin(low, float(mean), high, int(size), share)
        for (low, high), mean, size, share in zip(
            map(binned.ends, range(binned.count)), binned.means, binned.sizes, shares, strict=True
        )
    )


def _halves(decisions: Decisions, evidence: Evidence) -> NDArray[np.bool_] | None:
    """(decisions,) which are in the first half of the units; None where a half has too few."""
    units = evidence.units
    if not hasattr(evidence.task, "temperature") or len(units) < 2 * TOO_FEW:
        return None
    first = evidence.generator("halves").permutation(len(units)) % 2 == 0
    of_example = np.empty(len(units.order), dtype=np.bool_)
    of_example[units.order] = np.repeat(first, np.diff(units.starts))
    return of_example[decisions.example]


def _crossed(decisions: Decisions, halves: NDArray[np.bool_]) -> Numbers:
    """(decisions,) the temperature that was fitted on the other half."""
    one, other = (decisions.those(half).temperature() for half in (halves, ~halves))
    return np.where(halves, other, one)


def _saved(decisions: Decisions, temperatures: Numbers, evidence: Evidence) -> Metric:
    """Mean loss as it is minus that with the temperatures, a decision, paired."""
    examples = len(evidence.examples)
    counts = np.bincount(decisions.example, minlength=examples)
    before, after = (
        np.bincount(decisions.example, decisions.losses(given), examples)
        for given in (1.0, temperatures)
    )
    return paired_difference(
        lambda some: float(before[some].sum() / counts[some].sum()),
        lambda some: float(after[some].sum() / counts[some].sum()),
        evidence.units,
        resamples=evidence.resamples,
        seed=evidence.seed,
    )


def _thresholds(
    decisions: Decisions, probability: Numbers, wanted: Sequence[float]
) -> Iterator[Threshold]:
    """For all predictions and each wanted share, then for those of each label."""
    for share in wanted:
        yield _threshold("", probability, decisions.right, share)
    said = Counter(decisions.said)
    if 1 < len(said) <= LABELS_SHOWN:
        words = np.array(decisions.said)
        for word in sorted(said):
            some = words == word
            yield _threshold(word, probability[some], decisions.right[some], WANTED_OF_LABELS)


def _threshold(
    said: str, probability: Numbers, right: NDArray[np.bool_], wanted: float
) -> Threshold:
    """The lowest probability from which on a wanted share is right, with 95 % confidence.

    As many thresholds are looked at as there are shares in KEPT, and all bounds hold together.

    Source: Clopper and Pearson 1934 for the bound.
    """
    from scipy.stats import beta

    doubt = 1 - of_many(len(KEPT))
    order = np.sort(probability)[::-1]
    for share in KEPT[::-1]:
        least = order[max(int(share * len(order)) - 1, 0)]
        kept = probability >= least
        count, good = int(kept.sum()), int(right[kept].sum())
        bound = float(beta.ppf(doubt, good, count - good + 1)) if good else 0.0
        if bound >= wanted:
            shares = count / len(order), good / count
            return Threshold(said, wanted, float(least), *shares, bound)
    return Threshold(said, wanted, None)
