"""Truncation: what was cut, what went with it, and whether reading otherwise would score better.

Two things show that a cut costs something. The same model scores better on the cut texts when it
reads another part of them, or more; and words that no model saw tell the label better than the
model does, which also shows where training was cut alike. A cut that shows neither is a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.readings import WORDS, Reading, read_instead, read_tried
from bothways.evaluation.baselines import bag_of_words
from bothways.evaluation.findings import TEXTS_CUT_NOTE, TOO_FEW, truncation_finding
from bothways.evaluation.intervals import Indices, Units, interval, paired_difference
from bothways.evaluation.result import Figure, Finding, Metric, Series, Table, interval_columns
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.results import LabelResult, TagResult

# A gain over all texts below this is no alarm.
LEAST_GAIN = 0.01
FOLDS = 5
PROBED_TEXTS = 1000


@dataclass(frozen=True)
class Truncation:
    """What was cut and what it costs.

    Attributes:
        told: what was cut, in words and numbers.
        metric: name of the main metric.
        cut: texts that lost something.
        texts: of all.
        instead: other ways to read the texts that were cut, scored on those alone.
        tried: scores by kept length on all texts, long or short.
        lost_alone: what a bag of words reaches on the lost parts alone, and how much better than
            the model that is; None where it was not asked.
        lost_labels: what went with it: label, how often, and how often cut.
    """

    told: Finding
    metric: str
    cut: int
    texts: int
    instead: tuple[Reading, ...]
    tried: tuple[Reading, ...]
    lost_alone: tuple[Metric, Metric] | None
    lost_labels: tuple[tuple[str, int, int], ...]

    @property
    def recommended(self) -> Reading | None:
        """The way to read the cut texts that is shown to be better; of several the best."""
        better = [way for way in self.instead if way.gain is not None and (way.gain.low or 0) > 0]
        return max(better, key=lambda way: way.score.value, default=None)

    def findings(self) -> tuple[Finding, ...]:
        """One finding."""
        text, severity, numbers = self.told.text, self.told.severity, dict(self.told.numbers)
        if self.cut >= TOO_FEW:
            severity = "note" if self.cut > TEXTS_CUT_NOTE * self.texts else "fine"
        way = self.recommended
        if way is not None and way.gain is not None:
            text += (
                f" Reading {way} instead gains {way.gain} in {self.metric} on those, at "
                f"{way.cost:.1f} times the tokens in all, and about that much time."
            )
            numbers |= {
                "recommended_policy": way.keep,
                "recommended_max_length": way.length,
                "gain_on_cut_texts": way.gain.value,
                "cost": way.cost,
            }
            if way.gain.value * self.cut / self.texts >= LEAST_GAIN:
                severity = "alarm"
        elif self.instead:
            best = max(self.instead, key=lambda way: way.score.value)
            text += (
                f" No other way of reading them is shown to be better (the best, {best}: "
                f"{self.metric} {best.score})."
            )
        if self.lost_alone is not None:
            alone, lead = self.lost_alone
            numbers |= {"lost_words_alone": alone.value, "lost_words_lead": lead.value}
            if (lead.low or 0) > 0:
                severity = "alarm"
                text += (
                    f" Words that were never read tell the label: a bag of them alone has accuracy "
                    f"{alone}, {lead} above the model. Fine-tune on longer texts or on windows."
                )
        return (Finding("truncation", severity, text, numbers),)

    def figures(self) -> tuple[Figure, ...]:
        """The score against the kept length, a line a policy."""
        lines = []
        for keep in WORDS:
            ways = [way for way in self.tried if way.keep == keep]
            if len(ways) > 1:
                line = Series.of_metrics(keep, {str(way.length): way.score for way in ways})
                lines.append(replace(line, x=tuple(way.length for way in ways)))
        if not lines:
            return ()
        title = f"{self.metric} by how many tokens are kept, with 95 % intervals"
        return (Figure("truncation", title, "line", "tokens kept", self.metric, tuple(lines)),)

    def tables(self) -> tuple[Table, ...]:
        """Every way of reading, and the labels of what was cut."""
        tables = []
        nothing = (None, None, None)
        for name, title, ways in (
            ("truncation", "All texts, read otherwise", self.tried),
            ("truncation_cut", "The texts that were cut, read otherwise", self.instead),
        ):
            columns = (
                "policy",
                "tokens kept",
                *interval_columns(self.metric),
                *interval_columns("gain"),
                "times the tokens",
            )
            rows = tuple(
                (
                    way.keep,
                    way.length,
                    *way.score.cells,
                    *(nothing if way.gain is None else way.gain.cells),
                    way.cost,
                )
                for way in ways
            )
            if rows:
                tables.append(Table(name, title, columns, rows))
        if self.lost_labels:
            lost = tuple((label, count, cut, cut / count) for label, count, cut in self.lost_labels)
            heads = ("label", "count", "cut", "share cut")
            tables.append(Table("truncation_labels", "What was cut, by true label", heads, lost))
        return tuple(tables)


def truncation(evidence: Evidence, *, curve: bool = True) -> Truncation:
    """What was cut, which labels went with it, and what reading otherwise would score.

    Args:
        evidence: to ask.
        curve: whether to score all texts by kept length too.
    """
    cut = np.flatnonzero(evidence.tokens_cut > 0)
    return Truncation(
        told=truncation_finding(evidence.ledger),
        metric=evidence.task.main_metric,
        cut=len(cut),
        texts=len(evidence.examples),
        instead=read_instead(evidence, cut),
        tried=read_tried(evidence) if curve else (),
        lost_alone=_lost_alone(evidence, cut),
        lost_labels=_lost_labels(evidence) if len(cut) else (),
    )


def _lost_alone(evidence: Evidence, cut: Indices) -> tuple[Metric, Metric] | None:
    """Accuracy of a bag of the lost words alone on the cut texts, and its lead over the model.

    Learned from the lost parts of the training texts, or of four fifths of these.
    """
    cut = cut[:PROBED_TEXTS]
    examples = [evidence.examples[index] for index in cut.tolist()]
    single = all(isinstance(e, ClassifyExample) and e.pair is None for e in examples)
    if len(cut) < TOO_FEW or not single:
        return None
    lost = [_lost(evidence, index) for index in cut.tolist()]
    labels = evidence.task.labels
    if evidence.train_examples is not None:
        train = evidence.train
        known = np.flatnonzero(train.tokens_cut > 0)[:PROBED_TEXTS].tolist()
        if len(known) < TOO_FEW:
            return None
        said = bag_of_words(
            [_lost(train, index) for index in known],
            [train.examples[index].label for index in known],
            lost,
            labels,
        )
    else:
        said = _out_of_fold(lost, [e.label for e in examples], labels, evidence)
    right = np.array([s.label == e.label for s, e in zip(said, examples, strict=True)])
    model = np.array(
        [evidence.results[i].label == evidence.examples[i].label for i in cut.tolist()]
    )
    units = Units.of(len(cut), evidence.task.units(examples))
    return (
        interval(lambda some: float(right[some].mean()), units, resamples=evidence.resamples),
        paired_difference(
            lambda some: float(right[some].mean()),
            lambda some: float(model[some].mean()),
            units,
            resamples=evidence.resamples,
            seed=evidence.seed,
        ),
    )


def _out_of_fold(
    texts: Sequence[ClassifyExample],
    truth: Sequence[str],
    labels: Sequence[str],
    evidence: Evidence,
) -> list[LabelResult]:
    """Predictions of each text by a bag of words of the others."""
    fold = evidence.generator("folds").permutation(len(texts)) % FOLDS
    found: dict[int, LabelResult] = {}
    for number in range(FOLDS):
        inside = np.flatnonzero(fold == number).tolist()
        outside = np.flatnonzero(fold != number).tolist()
        said = bag_of_words(
            [texts[index] for index in outside],
            [truth[index] for index in outside],
            [texts[index] for index in inside],
            labels,
        )
        found.update(zip(inside, said, strict=True))
    return [found[index] for index in range(len(texts))]


def _lost(evidence: Evidence, index: int) -> ClassifyExample:
    """The characters of a single text that no window holds: before, after or between the kept."""
    text = evidence.examples[index].text
    kept = [
        offsets
        for encoding in evidence.encodings[index]
        for offsets, special in zip(encoding.offsets, encoding.special, strict=True)
        if not special
    ]
    if not kept:
        return ClassifyExample(text)
    ends = {"head": 0, "tail": len(text)}
    keep = evidence.policy.keep
    if keep in ends:
        lost = text[: kept[0][0]] if keep == "tail" else text[kept[-1][1] :]
    else:
        gaps = [(after[0] - before[1], before[1], after[0]) for before, after in pairwise(kept)]
        _, start, end = max(gaps, default=(0, 0, 0))
        lost = text[start:end]
    return ClassifyExample(lost)


def _lost_labels(evidence: Evidence) -> tuple[tuple[str, int, int], ...]:
    """True labels, or types of spans, with how many there are and how many were cut."""
    count: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    for example, result, lost in zip(
        evidence.examples, evidence.results, evidence.tokens_cut.tolist(), strict=True
    ):
        for label, gone in _gold(evidence, example, result, lost):
            count[label] += 1
            cut[label] += gone
    ranked = sorted(count, key=lambda label: (-cut[label] / count[label], label))
    return tuple((label, count[label], cut[label]) for label in ranked)


def _gold(evidence: Evidence, example: Any, result: Any, lost: int) -> list[tuple[str, bool]]:
    """What is to be found in an example, and whether it, or some of its text, was cut."""
    if isinstance(result, TagResult):
        unread = set(result.unread)
        spans = evidence.task.spans(example.tags)  # type: ignore[attr-defined]
        return [(kind, bool(unread & set(range(start, end)))) for start, end, kind in spans]
    label = getattr(example, "label", None)
    return [(label, lost > 0)] if isinstance(label, str) else []
