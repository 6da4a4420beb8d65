"""Duplicates: which examples training has too, which the data has twice, and the score without.

How copies are found is in `copies.py`.

Source: Elangovan et al. 2021 and Lee et al. 2022, on what copies across splits do to scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.copies import Copy, find_copies, sides_of
from bothways.diagnostics.evidence import Evidence
from bothways.errors import agreeing, counted
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, intervals
from bothways.evaluation.result import Figure, Finding, Metric, Severity, Table, interval_columns

# Of the examples that training has, and of what the score loses without them.
SHARE_ALARM = 0.05
LOSS_ALARM = 0.01
# Of the examples that the data has twice.
SHARE_NOTE = 0.01
LISTED = 30
TEXT_SHOWN = 120


@dataclass(frozen=True)
class Copies:
    """Examples that stand elsewhere, and what comes of leaving them out.

    Attributes:
        found: each with where it stands.
        share: of all examples.
        relabelled: how many have another label there.
        alone: the main metric of them alone; None where they are too few.
        without: the same of the rest; None where it is too little.
        loss: what the score loses without them, paired; None where `without` is.
    """

    found: tuple[Copy, ...]
    share: Metric
    relabelled: int
    alone: Metric | None
    without: Metric | None
    loss: Metric | None


@dataclass(frozen=True)
class Duplicates:
    """Copies of training examples, and of earlier examples of the data.

    Attributes:
        metric: name of the main metric.
        score: of all examples.
        texts: examples that were looked at.
        of_train: None where there are no training examples.
        of_earlier: in the data itself.
        listed: of both, as rows of a table.
    """

    metric: str
    score: Metric
    texts: int
    of_train: Copies | None
    of_earlier: Copies
    listed: tuple[tuple[str | float, ...], ...]

    def findings(self) -> tuple[Finding, ...]:
        """What training has, and what the data has twice."""
        return self._train_finding(), self._earlier_finding()

    def _train_finding(self) -> Finding:
        copies = self.of_train
        if copies is None:
            text = "Not looked for among the training texts: that needs them (--train)."
            return Finding("duplicates", "not asked", text)
        numbers = _numbers(copies, "in_train")
        if not copies.found:
            text = f"None of {counted(self.texts, 'example')} stands in the training data."
            return Finding("duplicates", "fine", text, numbers)
        exact = sum(copy.kind != "nearly" for copy in copies.found)
        count = len(copies.found)
        text = (
            f"{count:,} of {counted(self.texts, 'example')} ({_percent(copies.share)}) "
            f"{agreeing(count, 'are')} in the training data too, {exact:,} in the same words, "
            f"{count - exact:,} nearly{self._relabelled(copies)}"
        )
        if copies.without is not None:
            text += (
                f"; without {'it' if count == 1 else 'them'} {self.metric} is {copies.without} in "
                f"place of {self.score.value:.3f}, a loss of {copies.loss}"
            )
        return Finding("duplicates", self._severity(copies), f"{text}.", numbers)

    def _severity(self, copies: Copies) -> Severity:
        """An alarm where they are many, or the score rests on them, and not by chance."""
        if self.texts < TOO_FEW:
            return "note"
        many = (copies.share.low or 0.0) > SHARE_ALARM
        loss = copies.loss
        lost = loss is not None and (loss.low or 0.0) > 0 and loss.value >= LOSS_ALARM
        return "alarm" if many or lost else "note"

    def _earlier_finding(self) -> Finding:
        copies = self.of_earlier
        count = len(copies.found)
        numbers = _numbers(copies, "repeated")
        if not count:
            text = f"Each of {counted(self.texts, 'example')} stands in the data once."
            return Finding("duplicates", "fine", text, numbers)
        text = (
            f"{count:,} of {counted(self.texts, 'example')} ({_percent(copies.share)}) "
            f"{'repeats' if count == 1 else 'repeat'} an earlier one{self._relabelled(copies)}, "
            "so intervals are a little too narrow"
        )
        if copies.without is not None:
            text += f"; with each once {self.metric} is {copies.without}"
        many = copies.share.value > SHARE_NOTE
        return Finding("duplicates", "note" if many else "fine", f"{text}.", numbers)

    def _relabelled(self, copies: Copies) -> str:
        if not copies.relabelled:
            return ""
        return f", {copies.relabelled:,} with another label there"

    def figures(self) -> tuple[Figure, ...]:
        """None: the tables say it."""
        return ()

    def tables(self) -> tuple[Table, ...]:
        """Scores with and without, and the copies with their texts."""
        rows: list[tuple[str | float | None, ...]] = [("all", self.texts, *self.score.cells)]
        parts = (
            ("that training has", "without those", self.of_train),
            ("that repeat an earlier one", "each once", self.of_earlier),
        )
        for name, rest, copies in parts:
            if copies is None or not copies.found:
                continue
            count = len(copies.found)
            nothing = (None, None, None)
            rows.append((name, count, *(copies.alone.cells if copies.alone else nothing)))
            left = copies.without.cells if copies.without else nothing
            rows.append((rest, self.texts - count, *left))
        columns = ("examples", "count", *interval_columns(self.metric))
        found = [Table("duplicates", "The score with and without copies", columns, tuple(rows))]
        if self.listed:
            heads = ("place", "text", "stands in", "how", "likeness", "text there")
            title = "Copies, with the texts that they are copies of"
            found.append(Table("duplicates_texts", title, heads, self.listed))
        return tuple(found)


def duplicates(evidence: Evidence) -> Duplicates:
    """Look for copies among the training examples and in the data, and judge without them.

    Args:
        evidence: to ask; all its training examples are looked at.
    """
    examples, train = evidence.examples, evidence.train_examples
    generator = evidence.generator("duplicates")
    earlier = find_copies(examples, generator=generator)
    known = find_copies(examples, train, generator=generator) if train else ()
    listed = [
        *(_row(copy, examples, train or (), "training") for copy in known),
        *(_row(copy, examples, examples, "this data") for copy in earlier),
    ]
    return Duplicates(
        metric=evidence.task.main_metric,
        score=evidence.score_of(np.arange(len(examples))),
        texts=len(examples),
        of_train=_copies(evidence, known, train) if train else None,
        of_earlier=_copies(evidence, earlier, examples),
        listed=tuple(listed[:LISTED]),
    )


def _copies(evidence: Evidence, found: tuple[Copy, ...], others: Sequence[Any]) -> Copies:
    """What comes of leaving them out."""
    examples = evidence.examples
    is_copy = np.zeros(len(examples), np.bool_)
    is_copy[[copy.index for copy in found]] = True
    kinds = {"alone": is_copy, "without": ~is_copy}
    enough = {name: int(those.sum()) >= TOO_FEW for name, those in kinds.items()}
    score = evidence.scorer()

    def of(some: Indices, those: NDArray[np.bool_]) -> float:
        chosen = some[those[some]]
        return score(chosen) if len(chosen) else float("nan")

    def all_scores(some: Indices) -> dict[str, float]:
        reached = {name: of(some, those) for name, those in kinds.items() if enough[name]}
        if "without" in reached:
            reached["loss"] = score(some) - reached["without"]
        return {"share": float(is_copy[some].mean()), **reached}

    scored = (
        intervals(all_scores, evidence.units, resamples=evidence.resamples, seed=evidence.seed)
        if found
        else {"share": Metric(0.0)}
    )
    return Copies(
        found,
        scored["share"],
        sum(_truth(examples[copy.index]) != _truth(others[copy.original]) for copy in found),
        scored.get("alone"),
        scored.get("without"),
        scored.get("loss"),
    )


def _truth(example: Any) -> Any:
    """What is to be predicted of an example, whatever it is called."""
    names = ("label", "labels", "tags", "answers")
    return next((getattr(example, name) for name in names if hasattr(example, name)), None)


def _row(
    copy: Copy, examples: Sequence[Any], others: Sequence[Any], where: str
) -> tuple[str | float, ...]:
    example, original = examples[copy.index], others[copy.original]
    return (
        example.place or f"example {copy.index}",
        _shown(example),
        original.place or where,
        copy.kind,
        copy.likeness,
        _shown(original),
    )


def _shown(example: Any) -> str:
    text = " / ".join(filter(None, sides_of(example)))
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}..."


def _numbers(copies: Copies, name: str) -> dict[str, float | int | str | None]:
    kinds = Counter(copy.kind for copy in copies.found)
    numbers: dict[str, float | int | str | None] = {
        name: len(copies.found),
        "exact": kinds["exact"],
        "same_words": kinds["same words"],
        "nearly": kinds["nearly"],
        "share": copies.share.value,
        "other_label": copies.relabelled,
    }
    for key, metric in (("score_without", copies.without), ("loss", copies.loss)):
        if metric is not None:
            ends = (metric.value, metric.low, metric.high)
            numbers |= {
                f"{key}{end}": value for end, value in zip(("", "_low", "_high"), ends, strict=True)
            }
    return numbers


def _percent(share: Metric) -> str:
    if share.low is None or share.high is None:
        return f"{share.value:.1%}"
    return f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"
