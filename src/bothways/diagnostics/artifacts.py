"""Artifacts: whether a shortcut exists, something that should not tell the answer and does.

On a text its length, punctuation and format, stop words, or any one word; on a pair either text
alone as well; see `alone.py` for other tasks. A bag of words of a single text is fair, and belongs
to the question `baseline`.

Source: Gururangan et al. 2018 and Poliak et al. 2018 (parts of the input); Gardner et al. 2021
(single features).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bothways.diagnostics.alone import Alone, Retrain, alone, learned_from
from bothways.diagnostics.associations import Association, association_table, associations
from bothways.diagnostics.cues import stop_words
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.learners import learner
from bothways.errors import NotAsked, counted
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, intervals, of_many
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Series,
    Severity,
    Table,
    interval_columns,
)
from bothways.metrics.classification import Confusion
from bothways.tasks.classify import label_results
from bothways.tasks.results import Result

# Of the model's gain over no information.
SHARE_ALARM = 0.8
SHARE_NOTE = 0.5
LABELS_TOLD = 3
MODEL, UNINFORMED = "this model", "the most frequent answer"


@dataclass(frozen=True)
class Shortcut:
    """What something that should not do alone reaches.

    Attributes:
        name: what it is made from.
        label: the only label that is meant; empty for all.
        score: the main metric, or the label's F1.
        gain: over no information, with an interval that holds for all that was tried.
        behind: what the model is ahead by, paired, with such an interval.
        share: of the model's gain.
    """

    name: str
    label: str
    score: Metric
    gain: Metric
    behind: Metric
    share: float

    @property
    def severity(self) -> Severity:
        """Alarm where it reaches most of what the model does, and not by chance."""
        if _low(self.gain) <= 0 or self.share < SHARE_NOTE:
            return "fine"
        return "alarm" if self.share >= SHARE_ALARM else "note"


@dataclass(frozen=True)
class Artifacts:
    """What should not do alone beside the model.

    Attributes:
        metric: name of the main metric.
        model, uninformed: of the model, and of no information.
        shortcuts: by how much they reach, of all labels together.
        of_labels: those of single labels that reach enough to speak of.
        words: that go with labels.
        texts: examples that were judged.
    """

    metric: str
    model: Metric
    uninformed: Metric
    shortcuts: tuple[Shortcut, ...]
    of_labels: tuple[Shortcut, ...]
    words: tuple[Association, ...]
    texts: int

    def findings(self) -> tuple[Finding, ...]:
        """Labels that something gives away, and the best of what should not do alone."""
        best = self.shortcuts[0]
        numbers: dict[str, float | int | str | None] = {
            "best": best.name,
            self.metric: self.model.value,
            "uninformed": self.uninformed.value,
            "share_of_gain": best.share,
            "tried": len(self.shortcuts),
            **{each.name: each.score.value for each in self.shortcuts},
            **{f"ahead_of_best{end}": value for end, value in _ends(best.behind)},
        }
        severity: Severity = best.severity
        if self.texts < TOO_FEW:
            severity = "note" if severity == "alarm" else severity
        lead = f"the model is ahead of it by {best.behind}"
        if severity == "fine":
            no = "Of all labels together no" if self._given_away() else "No"
            text = (
                f"{no} shortcut is shown: of {counted(len(self.shortcuts), 'thing')} that should "
                f"not do alone the best is {best.name} ({self.metric} {best.score}); {lead}."
            )
        else:
            what = "A shortcut exists" if severity == "alarm" else "There is part of a shortcut"
            text = (
                f"{what}: from {best.name} alone {self.metric} reaches {best.score}, "
                f"{best.share:.0%} of what the model ({self.model.value:.3f}) gains over "
                f"{UNINFORMED} ({self.uninformed.value:.3f}); {lead}.{self._told_by(best)}"
            )
        return (*self._label_findings(), Finding("artifacts", severity, text, numbers))

    def _label_findings(self) -> tuple[Finding, ...]:
        """One for all labels that something gives away."""
        given = self._given_away()
        if not given:
            return ()
        told = "; ".join(
            f"{each.label!r} by {each.name} alone (F1 {each.score}, the model "
            f"{each.score.value + each.behind.value:.3f})"
            for each in given[:LABELS_TOLD]
        )
        more = f", and {len(given) - LABELS_TOLD} more" if len(given) > LABELS_TOLD else ""
        text = f"Labels are given away: {told}{more}.{self._told_by(given[0])}"
        numbers: dict[str, float | int | str | None] = {
            "labels_given_away": len(given),
            "label": given[0].label,
            "cue": given[0].name,
            "f1": given[0].score.value,
        }
        return (Finding("artifacts", "alarm", text, numbers),)

    def _given_away(self) -> list[Shortcut]:
        """Labels that something tells which tells too little of all together."""
        if self.shortcuts[0].severity == "alarm":
            return []
        return [each for each in self.of_labels if each.severity == "alarm"]

    def _told_by(self, shortcut: Shortcut) -> str:
        """The closest association that belongs to it, where there is one."""
        for each in self.words:
            if shortcut.label in ("", each.label) and _belongs(each.word, shortcut.name):
                return (
                    f" Of {counted(each.texts, 'training text')} with {each.word!r}, "
                    f"{each.with_label:,} are {each.label!r}."
                )
        return ""

    def figures(self) -> tuple[Figure, ...]:
        """The main metric of all."""
        bars = {MODEL: self.model, UNINFORMED: self.uninformed}
        bars |= {each.name: each.score for each in self.shortcuts}
        series = Series.of_metrics(self.metric, bars)
        title = f"{self.metric} beside what should not do alone, with intervals"
        return (Figure("artifacts", title, "bar", self.metric, "", (series,)),)

    def tables(self) -> tuple[Table, ...]:
        """What each reaches, labels that something gives away, words that go with labels."""
        head: list[tuple[str | float | None, ...]] = [
            (MODEL, *self.model.cells, *[None] * 4),
            (UNINFORMED, *self.uninformed.cells, *[None] * 4),
        ]
        behind = interval_columns("the model is ahead by")
        columns = ("", *interval_columns(self.metric), *behind, "share of the model's gain")
        rows = [(e.name, *e.score.cells, *e.behind.cells, e.share) for e in self.shortcuts]
        found = [Table("artifacts", "What should not do alone", columns, (*head, *rows))]
        if self.of_labels:
            of_label = ("label", "", *interval_columns("F1"), *behind, "share of the model's gain")
            label_rows = tuple(
                (e.label, e.name, *e.score.cells, *e.behind.cells, e.share) for e in self.of_labels
            )
            title = "Labels of which something tells much that should not"
            found.append(Table("artifacts_labels", title, of_label, label_rows))
        if self.words:
            found.append(association_table("artifacts_words", self.words))
        return tuple(found)


def artifacts(evidence: Evidence, *, retrain: Retrain | None = None) -> Artifacts:
    """Compare the model with what should not do alone.

    Args:
        evidence: to ask; most tasks need its training examples.
        retrain: fine-tunes on parts of the input and predicts; None where only linear models and
            vectors of the frozen encoder are asked.

    Raises:
        NotAsked: where the task has no such thing, nothing could be made of the training
            examples, or the model itself is not better than no information.
    """
    found = alone(evidence, retrain=retrain)
    if not found.cues:
        raise NotAsked("The training texts have nothing that could do alone.")
    main = evidence.task.main_metric
    scored, shortcuts = _compared(evidence, found)
    gain = scored["gain", MODEL]
    if _low(gain) <= 0:
        raise NotAsked(
            f"The model itself is not shown to beat {UNINFORMED}: {main} "
            f"{scored['score', MODEL]}, a gain of {gain}."
        )
    how = learner(evidence.task)
    words: tuple[Association, ...] = ()
    if how is not None and evidence.task.name != "regress":
        train = learned_from(evidence)
        names = how.outputs or evidence.task.labels
        words = associations(how.rows(train), how.targets(evidence.task, train), names)
    return Artifacts(
        metric=main,
        model=scored["score", MODEL],
        uninformed=scored["score", UNINFORMED],
        shortcuts=shortcuts,
        of_labels=_of_labels(evidence, found),
        words=words,
        texts=len(evidence.units),
    )


def _compared(
    evidence: Evidence, found: Alone
) -> tuple[dict[tuple[str, str], Metric], tuple[Shortcut, ...]]:
    """Scores and gains by name, and of each cue what follows from them, the best first."""
    given: dict[str, Sequence[Result]] = {MODEL: evidence.results, UNINFORMED: found.uninformed}
    scores = {name: evidence.scorer(results) for name, results in {**given, **found.cues}.items()}

    def all_scores(some: Indices) -> dict[tuple[str, str], float]:
        reached = {name: score(some) for name, score in scores.items()}
        return {
            **{("score", name): value for name, value in reached.items()},
            **{("gain", name): value - reached[UNINFORMED] for name, value in reached.items()},
            **{("behind", name): reached[MODEL] - value for name, value in reached.items()},
        }

    scored = intervals(
        all_scores,
        evidence.units,
        resamples=evidence.resamples,
        seed=evidence.seed,
        confidence=of_many(len(found.cues)),
    )
    shortcuts = [_shortcut(scored, name) for name in found.cues]
    return scored, tuple(sorted(shortcuts, key=lambda each: -each.score.value))


def _shortcut(scored: Mapping[tuple[str, str], Metric], name: str, label: str = "") -> Shortcut:
    gain = scored["gain", name]
    whole = scored["gain", MODEL].value
    return Shortcut(
        name,
        label,
        scored["score", name],
        gain,
        scored["behind", name],
        gain.value / whole if whole > 0 else 0.0,
    )


def _of_labels(evidence: Evidence, found: Alone) -> tuple[Shortcut, ...]:
    """What something that should not do alone tells of single labels, where it is much.

    Of two labels there is nothing to add to what is told of both. A label's F1 is compared with
    that of always saying it. One word may well stand for one of many labels, and is left out.
    """
    labels = evidence.task.labels
    examples = evidence.examples
    if evidence.task.name not in ("classify", "relate") or len(labels) < 3:
        return ()
    truth = np.array([labels.index(example.label) for example in examples])
    judged = np.flatnonzero(np.bincount(truth, minlength=len(labels)) >= TOO_FEW)
    cues = {
        name: results for name, results in found.cues.items() if not name.startswith("the word ")
    }
    counts = {
        name: Confusion(
            [example.label for example in examples],
            [result.label for result in label_results(results)],
            labels,
        )
        for name, results in {MODEL: evidence.results, **cues}.items()
    }

    def all_scores(some: Indices) -> dict[tuple[int, str, str], float]:
        share = np.bincount(truth[some], minlength=len(labels)) / len(some)
        always = 2 * share / (1 + share)
        reached = {name: each.label_f1(some) for name, each in counts.items()}
        return {
            (label, kind, name): float(value[label])
            for name, f1 in reached.items()
            for kind, value in (
                ("score", f1),
                ("gain", f1 - always),
                ("behind", reached[MODEL] - f1),
            )
            for label in judged.tolist()
        }

    scored = intervals(
        all_scores,
        evidence.units,
        resamples=evidence.resamples,
        seed=evidence.seed,
        confidence=of_many(len(cues) * len(judged)),
    )
    told = []
    for label in judged.tolist():
        own = {(kind, name): each for (of, kind, name), each in scored.items() if of == label}
        if _low(own["gain", MODEL]) > 0:
            told += [_shortcut(own, name, labels[label]) for name in cues]
    told = [each for each in told if each.severity != "fine"]
    return tuple(sorted(told, key=lambda each: (each.severity != "alarm", -each.score.value)))


def _belongs(word: str, cue: str) -> bool:
    """Whether a word, perhaps with its side before it, is of a cue."""
    side, _, alone = word.rpartition(": ")
    if cue == "punctuation and format":
        return not any(map(str.isalnum, alone))
    if cue == "stop words":
        return any(True for _ in stop_words(alone))
    return cue in (f"the word {word!r}", f"words of the {side} text")


def _low(metric: Metric) -> float:
    """The low end, which is the value where no resample differs."""
    return metric.value if metric.low is None else metric.low


def _ends(metric: Metric) -> tuple[tuple[str, float | None], ...]:
    return (("", metric.value), ("_low", metric.low), ("_high", metric.high))
