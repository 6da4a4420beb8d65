"""Baseline: whether the model is better than what needs no model, and by how much.

What is fair to beat: the most frequent answer and simple models of the same training texts, of
which each task has its own (`evaluation/`); the length of a text; a random encoder of the same
shape with a linear head. And the model itself on texts whose words stand in random order, which
tells whether it reads more than a bag of words. What should not work alone is another question,
`artifacts`.

Source: random encoders, Wieting and Kiela 2019; shuffled words, Pham et al. 2021.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bothways.checkpoints.parts import new_parts
from bothways.diagnostics.alone import TRAINED_VECTORS, by_vectors, learned_from, vectors_of
from bothways.diagnostics.cues import features, lengths
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.learners import learner
from bothways.errors import NotAsked, counted
from bothways.evaluation.baselines import UNSPACED
from bothways.evaluation.findings import TOO_FEW, baseline_finding
from bothways.evaluation.intervals import Indices, intervals, paired_difference
from bothways.evaluation.result import Figure, Finding, Metric, Series, Table, interval_columns
from bothways.inference.model import Model
from bothways.tasks.results import Result

# Texts that are read again with their words in random order.
SHUFFLED_TEXTS = 500
# Of a task, the fields whose words are shuffled.
SHUFFLED: Mapping[str, tuple[str, ...]] = {
    "answer": ("question",),
    "classify": ("text", "pair"),
    "multi-label": ("text", "pair"),
    "multiple-choice": ("text", "pair", "choices"),
    "regress": ("text", "pair"),
    "rerank": ("text", "pair"),
}


@dataclass(frozen=True)
class Shuffled:
    """The model on texts with their words in random order.

    Attributes:
        texts: how many were read.
        value: the main metric.
        loss: against the same texts as they are, paired.
    """

    texts: int
    value: float
    loss: Metric


@dataclass(frozen=True)
class Baseline:
    """The model beside its baselines.

    Attributes:
        told: what could not be asked.
        metric: name of the main metric.
        value: the model's.
        rivals: of each baseline.
        gains: of the model over each, paired; positive is better.
        shuffled: None where words cannot be shuffled.
        units: what was judged.
    """

    told: tuple[Finding, ...]
    metric: str
    value: Metric
    rivals: Mapping[str, Metric]
    gains: Mapping[str, Metric]
    shuffled: Shuffled | None
    units: int

    def findings(self) -> tuple[Finding, ...]:
        """The gain over the hardest baseline, whether order counts, and what was not asked."""
        hardest = baseline_finding(self.metric, self.value, self.rivals, self.gains, self.units)
        order = self.shuffled
        if order is None or self.units < TOO_FEW:
            return (hardest, *self.told)
        shown = order.loss.low is not None and order.loss.low > 0
        text = (
            f"With the words of {counted(order.texts, 'text')} in random order it reaches "
            f"{self.metric} {order.value:.3f}, a loss of {order.loss}: "
            + ("it reads their order." if shown else "that it reads their order is not shown.")
        )
        numbers: dict[str, float | int | str | None] = {
            "shuffled_words": order.value,
            "loss": order.loss.value,
            "loss_low": order.loss.low,
            "loss_high": order.loss.high,
        }
        return (hardest, Finding("baseline", "fine", text, numbers), *self.told)

    def figures(self) -> tuple[Figure, ...]:
        """The main metric of all."""
        bars = {"this model": self.value}
        bars |= {name.replace("_", " "): metric for name, metric in self.rivals.items()}
        series = Series.of_metrics(self.metric, bars)
        title = f"{self.metric} beside what should be beaten, with 95 % intervals"
        return (Figure("baseline", title, "bar", self.metric, "", (series,)),)

    def tables(self) -> tuple[Table, ...]:
        """The main metric of all, and the gains."""
        rows: list[tuple[str | float | None, ...]] = [
            ("this model", *self.value.cells, None, None, None)
        ]
        for name, metric in self.rivals.items():
            rows.append((name.replace("_", " "), *metric.cells, *self.gains[name].cells))
        if self.shuffled is not None:
            name = f"this model, words shuffled ({counted(self.shuffled.texts, 'text')})"
            rows.append((name, self.shuffled.value, None, None, *self.shuffled.loss.cells))
        columns = ("", *interval_columns(self.metric), *interval_columns("gain of the model"))
        return (Table("baseline", "The model beside its baselines", columns, tuple(rows)),)


def baseline(evidence: Evidence) -> Baseline:
    """Compare the model with the baselines of its task.

    Args:
        evidence: to ask.

    Raises:
        NotAsked: where the task has none that can be computed.
    """
    report, metric = evidence.report, evidence.task.main_metric
    rivals = {name: scores[metric] for name, scores in report.baselines.items()}
    told = tuple(finding for finding in report.findings if finding.question == "baseline")
    numbers = next((f.numbers for f in told if "hardest" in f.numbers), {})

    def gain(name: str) -> Metric:
        ends = (numbers[f"gain_over_{name}{end}"] for end in ("", "_low", "_high"))
        return Metric(*ends)  # type: ignore[arg-type]

    more_rivals, more_gains = _compared(evidence, _learned(evidence))
    rivals |= more_rivals
    if not rivals:
        raise NotAsked("There is nothing simple to compare with; it may need --train.")
    return Baseline(
        told=tuple(finding for finding in told if "hardest" not in finding.numbers),
        metric=metric,
        value=report.metrics[metric],
        rivals=rivals,
        gains={name: gain(name) for name in report.baselines} | more_gains,
        shuffled=_shuffled(evidence),
        units=len(evidence.units),
    )


def _compared(
    evidence: Evidence, given: Mapping[str, Sequence[Result]]
) -> tuple[dict[str, Metric], dict[str, Metric]]:
    """Scores of other predictions, and what the model gains over each."""
    if not given:
        return {}, {}
    own = evidence.scorer()
    direction = evidence.task.metric_directions[evidence.task.main_metric]
    theirs = {name: evidence.scorer(results) for name, results in given.items()}

    def all_scores(some: Indices) -> dict[tuple[str, str], float]:
        reached, ours = {name: score(some) for name, score in theirs.items()}, own(some)
        values = {("value", name): direction * value for name, value in reached.items()}
        return values | {("gain", name): ours - value for name, value in reached.items()}

    scored = intervals(all_scores, evidence.units, resamples=evidence.resamples, seed=evidence.seed)
    values, gains = ({name: scored[kind, name] for name in given} for kind in ("value", "gain"))
    return values, gains


def _learned(evidence: Evidence) -> dict[str, Sequence[Result]]:
    """Predictions from lengths, and by a linear head on a random encoder."""
    how = learner(evidence.task)
    if how is None or not evidence.train_examples:
        return {}
    found: dict[str, Sequence[Result]] = {}
    train, examples = learned_from(evidence), evidence.examples
    made = features(lengths, how.rows(train), how.rows(examples))
    if made is not None:
        found["length"] = how.results(evidence.task, train, made.known, examples, made.new)
    few, other = learned_from(evidence, TRAINED_VECTORS), random_like(evidence.model, evidence.seed)
    known, new = (vectors_of(evidence, how.rows(given), other) for given in (few, examples))
    found["random_encoder"] = by_vectors(how, evidence, few, known, new)
    return found


def random_like(model: Model, seed: int) -> Model:
    """A model of the same shape and tokenizer with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = new_parts(model.encoder.config, tokenizer=model.tokenizer)
    parts.encoder.to(model.device)
    return Model(parts)


def _shuffled(evidence: Evidence) -> Shuffled | None:
    fields = SHUFFLED.get(evidence.task.name)
    if fields is None:
        return None
    part, draw = evidence.part(SHUFFLED_TEXTS), evidence.generator("shuffled words")
    results = part.predict([_shuffle(example, fields, draw) for example in part.examples])
    own, shuffled = part.scorer(), part.scorer(results)
    direction = part.task.metric_directions[part.task.main_metric]
    loss = paired_difference(own, shuffled, part.units, resamples=part.resamples, seed=part.seed)
    everything = np.arange(len(part.examples))
    return Shuffled(len(part.examples), direction * shuffled(everything), loss)


def _shuffle(example: Any, fields: Sequence[str], draw: np.random.Generator) -> Any:
    """The same with the words of these fields in random order."""

    def words(text: str) -> str:
        pieces = re.findall(rf"[{UNSPACED}]|[^\s{UNSPACED}]+", text)
        return " ".join(draw.permutation(pieces).tolist())

    changed: dict[str, Any] = {}
    for name in fields:
        value = getattr(example, name)
        if isinstance(value, str):
            changed[name] = words(value)
        elif value is not None:
            changed[name] = tuple(map(words, value))
    return replace(example, **changed)
