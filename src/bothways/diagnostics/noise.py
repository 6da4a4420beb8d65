"""Noise: what typos, lost accents, other cases, missing marks and bad scans cost.

The same examples are read clean and changed, at two strengths, and the scores compared pair by
pair; the intervals hold for all kinds and strengths at once. The kinds are in `noises.py`. A model
that was trained on clean texts always loses something to strong noise: the alarm rests on what the
weak one costs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.noises import NOISES, noisy
from bothways.errors import counted
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

STRENGTHS = ("weak", "strong")
TEXTS = 300
# Tokens that may be read, which sets how many texts are where they are long.
TOKENS = 100_000
RESAMPLES = 1000
# A loss to weak noise that is surely more than this share of the clean score is an alarm.
LEAST_LOSS = 0.05


@dataclass(frozen=True)
class Noisy:
    """The texts under one kind of noise at one strength.

    Attributes:
        kind: of noise, as in NOISES.
        strength: weak or strong.
        share: of what it may change that it changes.
        changed: texts that came out otherwise.
        score: on all of them.
        loss: the clean score minus that, paired, with intervals that hold together.
        example: a changed text.
    """

    kind: str
    strength: str
    share: float
    changed: int
    score: float
    loss: Metric
    example: str

    @property
    def is_shown(self) -> bool:
        """Whether it costs something with the whole interval."""
        return self.loss.low is not None and self.loss.low > 0

    def __str__(self) -> str:
        """`typos in 3% of the letters`."""
        return f"{self.kind} in {self.share:.0%} of the {NOISES[self.kind].of}"


@dataclass(frozen=True)
class Noise:
    """What noise costs.

    Attributes:
        metric: name of the main metric.
        texts: how many were read.
        clean: score on them as they are.
        noisy: every kind and strength, in the order of NOISES.
    """

    metric: str
    texts: int
    clean: float
    noisy: tuple[Noisy, ...]

    @property
    def hurts(self) -> tuple[Noisy, ...]:
        """What is shown to cost something; weak noise first, the largest loss first."""
        shown = [each for each in self.noisy if each.is_shown]
        return tuple(sorted(shown, key=lambda each: (each.strength != "weak", -each.loss.value)))

    def findings(self) -> tuple[Finding, ...]:
        """One finding: the kind that hurts most."""
        numbers: dict[str, float | int | str | None] = {"texts": self.texts, "clean": self.clean}
        for each in self.noisy:
            numbers[f"loss_{each.kind}_{each.strength}"] = each.loss.value
        severity: Severity = "fine"
        if self.texts < TOO_FEW:
            severity = "note"
            text = f"Noise in {counted(self.texts, 'text')} shows nothing: too few."
        elif not self.hurts:
            text = (
                f"No kind of noise in {counted(self.texts, 'text')} is shown to cost "
                f"{self.metric} ({self.clean:.3f} clean)."
            )
        else:
            worst = self.hurts[0]
            least = LEAST_LOSS * abs(self.clean)
            surely = worst.strength == "weak" and (worst.loss.low or 0) > least
            severity = "alarm" if surely else "note"
            text = (
                f"On {counted(self.texts, 'text')} {worst} hurt most: {self.metric} falls from "
                f"{self.clean:.3f} to {worst.score:.3f}, by {worst.loss}."
            )
            strong = self._of(worst.kind, "strong")
            if worst.strength == "weak" and strong is not None:
                text += f" In {strong.share:.0%} they cost {strong.loss}."
            others = dict.fromkeys(e.kind for e in self.hurts if e.kind != worst.kind)
            if others:
                text += f" Shown to cost something too: {', '.join(others)}."
            numbers |= {"worst": worst.kind, "loss": worst.loss.value}
        return (Finding("noise", severity, text, numbers),)

    def figures(self) -> tuple[Figure, ...]:
        """The score under each kind, weak and strong."""
        if not self.noisy:
            return ()
        lines = []
        for strength in STRENGTHS:
            losses = {e.kind: e.loss for e in self.noisy if e.strength == strength}
            lines.append(Series.of_metrics(f"{strength} noise", losses))
        title = f"Loss of {self.metric} to noise, with intervals that hold for all bars at once"
        return (Figure("noise", title, "bar", f"loss of {self.metric}", "noise", tuple(lines)),)

    def tables(self) -> tuple[Table, ...]:
        """Every kind and strength with a changed text."""
        columns = ("noise", "strength", "share", "texts changed", self.metric)
        rows = tuple(
            (
                *(each.kind, each.strength, f"{each.share:.0%} of the {NOISES[each.kind].of}"),
                *(each.changed, each.score, *each.loss.cells, each.example),
            )
            for each in self.noisy
        )
        title = f"{counted(self.texts, 'text')} with noise; clean {self.metric} {self.clean:.3f}"
        heads = (*columns, *interval_columns("loss"), "for example")
        return (Table("noise", title, heads, rows),) if rows else ()

    def _of(self, kind: str, strength: str) -> Noisy | None:
        found = (e for e in self.noisy if (e.kind, e.strength) == (kind, strength))
        return next(found, None)


def noise(evidence: Evidence, *, kinds: Sequence[str] = tuple(NOISES)) -> Noise:
    """Score the same examples with noise in their texts.

    Args:
        evidence: to ask; at most TEXTS of its examples are read, fewer where they are long.
        kinds: of NOISES; those that change no text are left out.
    """
    variants = [(kind, strength) for kind in kinds for strength in STRENGTHS]
    some = _affordable(evidence, len(variants))
    part = evidence.those(some)
    now = [evidence.results[index] for index in some.tolist()]
    changed = [_changed(part, kind, strength) for kind, strength in variants]
    new = [
        [
            number
            for number, pair in enumerate(zip(examples, part.examples, strict=True))
            if _differ(*pair)
        ]
        for examples in changed
    ]
    again = evidence.predict(
        [examples[n] for examples, at in zip(changed, new, strict=True) for n in at]
    )
    read = iter(again)
    clean = part.scorer(now)
    scores, kept = [], []
    for variant, examples, at in zip(variants, changed, new, strict=True):
        results = list(now)
        for number in at:
            results[number] = next(read)
        if at:
            scores.append(replace(part, examples=examples).scorer(results))
            kept.append((variant, len(at), _shown(examples[at[0]])))

    def losses(drawn: Indices) -> NDArray[np.float64]:
        return clean(drawn) - np.array([score(drawn) for score in scores])

    every = np.arange(len(some))
    found = intervals_together(
        losses, part.units, resamples=min(evidence.resamples, RESAMPLES), seed=evidence.seed
    )
    return Noise(
        evidence.task.main_metric,
        len(some),
        clean(every),
        tuple(
            Noisy(kind, strength, _share(kind, strength), count, score(every), loss, text)
            for ((kind, strength), count, text), score, loss in zip(
                kept, scores, found, strict=True
            )
        ),
    )


def _affordable(evidence: Evidence, times: int) -> Indices:
    """A sample of examples that may be read so often."""
    average = max(float(evidence.tokens.mean()), 1.0)
    count = max(min(TEXTS, int(TOKENS / (average * max(times, 1)))), 2 * TOO_FEW)
    every = np.arange(len(evidence.examples))
    if count >= len(every):
        return every
    return np.sort(evidence.generator("noise").choice(every, count, replace=False))


def _changed(part: Evidence, kind: str, strength: str) -> list[Any]:
    """The examples with noise, which is a function of the seed and each example's text."""
    share, form = _share(kind, strength), getattr(part.task, "form", None)

    def change(example: Any) -> Any:
        name = f"{kind} {strength} {example.text}"
        draw = np.random.default_rng([part.seed, zlib.crc32(name.encode())])
        spoil = NOISES[kind].change
        return noisy(example, lambda text: spoil(text, share, draw), part.task.name, form)

    return [change(example) for example in part.examples]


def _share(kind: str, strength: str) -> float:
    return NOISES[kind].weak if strength == "weak" else NOISES[kind].strong


def _differ(example: Any, original: Any) -> bool:
    return (example.text, example.pair) != (original.text, original.pair)


def _shown(example: Any) -> str:
    read = example.text if example.pair is None else f"{example.text} / {example.pair}"
    return read if len(read) <= 100 else f"{read[:100]}..."
