"""Domain: how far the texts are from those that the model learned from, and what that costs.

What is said of the texts is said of training texts too, that were held apart from the others, so
that a distance can be compared with the one among training texts. That texts far away score lower
is usual, and a note; it becomes an alarm where the texts can be told from training texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.data.problems import shown
from bothways.diagnostics.evidence import MOST_STATES, Evidence
from bothways.diagnostics.probing import Vectors, folds_of, probe, similarities
from bothways.diagnostics.surprise import surprise
from bothways.errors import NotAsked, TaskError
from bothways.evaluation.baselines import TOKEN_PATTERN
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, Units, interval
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Series,
    Severity,
    Table,
    interval_columns,
)
from bothways.inference.model import Model, load

# Areas under the curve that the whole interval lies above: other texts, and another domain. What
# real sets reach that are split at random or by their authors is in docs/diagnosing.md.
DRIFTED = 0.6
APART = 0.7
HOW_FAR = (
    (APART, "are of another kind than"),
    (DRIFTED, "differ from"),
    (0, "are hard to tell from"),
)
RESAMPLES = 500
NEIGHBOURS = 5
# Texts of each side that a masked language model reads seven times, and pieces of each.
SURPRISING_TEXTS = 100
SURPRISING_PIECES = 128
LISTED = 10
QUARTERS = ("nearest quarter", "second", "third", "farthest quarter")


@dataclass(frozen=True)
class Measure:
    """One way to say how far texts are away.

    Attributes:
        name: of it.
        here: of these texts.
        training: of training texts, from the other training texts.
    """

    name: str
    here: Metric
    training: float


@dataclass(frozen=True)
class Domain:
    """How far the texts are from the training texts.

    Attributes:
        metric: name of the main metric.
        told_apart: area under the curve of a classifier of these and of training texts.
        measures: distance of vectors, unknown words, and perhaps perplexity.
        quarters: the main metric from near to far.
        gap: of the far half to the near half; None of too few texts.
        farthest: place, text and distance of the texts farthest away.
        not_asked: why there is no perplexity, or nothing.
    """

    metric: str
    told_apart: Metric
    measures: tuple[Measure, ...]
    quarters: tuple[Metric, ...]
    gap: Metric | None
    farthest: tuple[tuple[str, str, float], ...]
    not_asked: str

    @property
    def severity(self) -> Severity:
        """By how well the texts are told from training texts, and whether far ones score lower."""
        low = self.told_apart.low or 0.0
        signs = (low >= DRIFTED) + (low >= APART) + self._is_far_worse
        return ("fine", "note", "alarm", "alarm")[signs]

    @property
    def _is_far_worse(self) -> bool:
        return self.gap is not None and self.gap.high is not None and self.gap.high < 0

    def findings(self) -> tuple[Finding, ...]:
        """How far, what it costs, and what was not asked."""
        low = self.told_apart.low or 0.0
        apart = next(words for least, words in HOW_FAR if low >= least)
        area = f"has an area under the curve of {self.told_apart} (0.5 is guessing)"
        parts = [f"The texts {apart} the training texts: a classifier of both {area}."]
        told = "; ".join(
            f"{each.name} {each.here.value:.3g} (among training texts {each.training:.3g})"
            for each in self.measures
        )
        parts.append(f"{told[0].upper()}{told[1:]}.")
        numbers: dict[str, float | int | str | None] = {"area": self.told_apart.value}
        numbers |= {each.name: each.here.value for each in self.measures}
        numbers |= {f"{each.name}, training": each.training for each in self.measures}
        if self.gap is not None:
            lower = "scores lower" if self._is_far_worse else "is not shown to score lower"
            cost = (
                f"The half that lies farther from the training texts {lower} than the nearer "
                f"half: a difference of {self.gap} in {self.metric}."
            )
            # The news first.
            parts.insert(0 if self._is_far_worse and low < DRIFTED else len(parts), cost)
            numbers["far_minus_near"] = self.gap.value
        found = Finding("domain", self.severity, " ".join(parts), numbers)
        missing = Finding("domain", "not asked", self.not_asked)
        return (found, missing) if self.not_asked else (found,)

    def figures(self) -> tuple[Figure, ...]:
        """The score by distance."""
        if not self.quarters:
            return ()
        named = dict(zip(QUARTERS, self.quarters, strict=True))
        return (
            Figure(
                "domain_quarters",
                f"{self.metric} by distance from the training texts",
                "bar",
                self.metric,
                "texts",
                (Series.of_metrics(self.metric, named),),
            ),
        )

    def tables(self) -> tuple[Table, ...]:
        """Distances, and the texts farthest away."""
        columns = ("how far", *interval_columns("these texts"), "training texts")
        rows = (
            ("area under the curve of a classifier", *self.told_apart.cells, 0.5),
            *((each.name, *each.here.cells, each.training) for each in self.measures),
        )
        title = "How far the texts are from the training texts, and these from each other"
        heads = ("place", "text", "distance")
        farthest = Table("domain_texts", "The texts farthest away", heads, self.farthest)
        return (Table("domain", title, columns, rows), farthest)


def domain(evidence: Evidence, *, masked_lm: str | None = None) -> Domain:
    """Compare the texts with the training texts.

    Args:
        evidence: to ask.
        masked_lm: folder or hub name of a masked language model that says how expected texts
            are; None for the model's own head, if it has one.

    Raises:
        NotAsked: without training texts, or of too few texts on either side.
        TaskError: when `masked_lm` names a model without such a head.
    """
    train = evidence.train
    counts = len(evidence.examples), len(train.examples)
    if min(counts) < TOO_FEW:
        raise NotAsked(f"{counts[0]:,} texts and {counts[1]:,} training texts are too few.")
    if max(counts) > MOST_STATES:
        evidence, train = evidence.part(MOST_STATES // 2), train.part(MOST_STATES // 2)
    here, there = _vectors(evidence), _vectors(train)
    known = evidence.generator("domain").permutation(len(there)) % 2 == 0
    distances = _distances(here, there[known])
    measures = [
        _mean("distance of vectors", distances, _distances(there[~known], there[known]), evidence),
        _unknown_words(evidence, train, known),
    ]
    not_asked = ""
    try:
        measures.append(_perplexity(evidence, train, masked_lm))
    except TaskError:
        if masked_lm is not None:
            raise
        not_asked = (
            "How expected the texts are to a language model: this model has no masked-LM head "
            "(--masked-lm names another model that has)."
        )
    far = distances > np.median(distances)
    order = np.argsort(distances, kind="stable")
    quarters = np.array_split(order, len(QUARTERS)) if len(order) >= 4 * TOO_FEW else []
    return Domain(
        metric=evidence.task.main_metric,
        told_apart=_told_apart(here, there, evidence, train),
        measures=tuple(measures),
        quarters=tuple(evidence.score_of(np.sort(some)) for some in quarters),
        gap=evidence.gap(far),
        farthest=tuple(
            (
                evidence.examples[i].place,
                shown(_text(evidence.examples[i]), 160),
                float(distances[i]),
            )
            for i in order[::-1][:LISTED].tolist()
        ),
        not_asked=not_asked,
    )


def _vectors(evidence: Evidence) -> Vectors:
    """(examples, width) means of the middle layer, which fine-tuning changes less than the last.

    Of one layer that is the embeddings: the last has already put all texts of a label together.
    """
    states = evidence.states.of_examples("mean")
    middle: Vectors = states[(len(states) - 1) // 2]
    return middle


def _distances(vectors: Vectors, known: Vectors) -> NDArray[np.float64]:
    """(rows,) 1 - cosine to the nearest known vectors, after what these have in common is off."""
    mean = known.mean(0)
    cosines = similarities(vectors - mean, known - mean)
    count = min(NEIGHBOURS, cosines.shape[1])
    near: NDArray[np.float64] = np.partition(cosines, -count, axis=1)[:, -count:].mean(1)
    return 1.0 - near.astype(np.float64)


def _told_apart(here: Vectors, there: Vectors, evidence: Evidence, train: Evidence) -> Metric:
    """Area under the curve of a linear classifier of the two, out of fold."""
    from scipy.stats import rankdata

    sides = evidence.units, train.units
    generator = evidence.generator("domain")
    is_here = np.arange(len(here) + len(there)) < len(here)
    said = probe(
        np.concatenate([here, there]),
        np.where(is_here, 1.0, -1.0)[:, None],
        np.concatenate([folds_of(units, generator) for units in sides]),
    )[:, 0]

    def area(some: Indices) -> float:
        ours = is_here[some]
        count = int(ours.sum())
        if count in (0, len(some)):
            return float("nan")
        above = rankdata(said[some])[ours].sum() - count * (count + 1) / 2
        return float(above / (count * (len(some) - count)))

    first, second = sides
    both = Units(
        np.concatenate([first.order, second.order + len(here)]),
        np.concatenate([first.starts, second.starts[1:] + len(here)]),
    )
    resamples = min(evidence.resamples, RESAMPLES)
    found = interval(area, both, resamples=resamples, seed=evidence.seed)
    return found if found.low is not None else Metric(found.value, found.value, found.value)


def _mean(
    name: str, values: NDArray[np.float64], training: NDArray[np.float64], evidence: Evidence
) -> Measure:
    here = interval(
        lambda some: float(values[some].mean()),
        evidence.units,
        resamples=min(evidence.resamples, RESAMPLES),
        seed=evidence.seed,
    )
    return Measure(name, here, float(training.mean()))


def _unknown_words(evidence: Evidence, train: Evidence, known: NDArray[np.bool_]) -> Measure:
    """Share of the words that no known training text has, a mean over texts."""
    here, there = (
        [re.findall(TOKEN_PATTERN, _text(example).lower()) for example in each.examples]
        for each in (evidence, train)
    )
    vocabulary = {
        word
        for words, is_known in zip(there, known.tolist(), strict=True)
        if is_known
        for word in words
    }

    def shares(texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        return np.array(
            [sum(word not in vocabulary for word in words) / max(len(words), 1) for words in texts]
        )

    rest = [words for words, is_known in zip(there, known.tolist(), strict=True) if not is_known]
    return _mean("share of unknown words", shares(here), shares(rest), evidence)


def _perplexity(evidence: Evidence, train: Evidence, masked_lm: str | None) -> Measure:
    """Of samples of both."""
    model: Model = evidence.model if masked_lm is None else load(masked_lm)
    usable = model.encoder.config.embeddings.usable_positions
    found = []
    for each in (evidence, train):
        part = each.part(SURPRISING_TEXTS)
        losses, tokens = surprise(
            model,
            [_text(example) for example in part.examples],
            max_length=min(SURPRISING_PIECES, usable),
            batch_tokens=evidence.batch_tokens,
        )

        def perplexity(
            some: Indices, losses: NDArray[np.float64] = losses, tokens: Indices = tokens
        ) -> float:
            return float(np.exp(losses[some].sum() / max(tokens[some].sum(), 1)))

        found.append(
            interval(
                perplexity,
                part.units,
                resamples=min(evidence.resamples, RESAMPLES),
                seed=evidence.seed,
            )
        )
    return Measure("pseudo-perplexity", found[0], found[1].value)


def _text(example: object) -> str:
    """The text, or both of a pair."""
    both = (getattr(example, "text", None), getattr(example, "pair", None))
    return " ".join(text for text in both if text)
