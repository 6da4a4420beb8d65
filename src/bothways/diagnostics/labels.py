"""Labels: which are likely wrong, how many are by that, and which texts are like no other.

How surely a text contradicts its label is in `doubts.py`. Every model contradicts labels, because
texts are hard; the alarm rests on those that stay contradicted where texts are clear. Labels that
annotators confused systematically look like hard texts and are listed, not counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bothways.data.problems import shown
from bothways.diagnostics.doubts import Lapses, clearness, lapses, out_of_fold
from bothways.diagnostics.evidence import MOST_STATES, Evidence
from bothways.diagnostics.probing import folds_of
from bothways.errors import NotAsked, counted
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.result import Figure, Finding, Metric, Series, Severity, Table
from bothways.inference.nearest import nearest
from bothways.tasks.results import LabelResult

# A share of wrong labels that is surely above this is an alarm.
LEAST_SHARE = 0.01
# Where more labels than this are contradicted in all, how hard texts do it is not known well enough
# for an alarm.
HARDEST = 0.15
# Labels of fewer examples are not learned from the others, so nothing is said of them.
LEAST_EACH = 5
LISTED = 50
OUTLIERS = 10
NEIGHBOURS = 10
TENTHS = 10
TEXT_SHOWN = 160


@dataclass(frozen=True)
class Doubt:
    """A label that its text contradicts.

    Attributes:
        place: `file, line 12`, or nothing.
        text: cut to TEXT_SHOWN characters.
        label: as given.
        likelier: the label that model and neighbours prefer.
        clearness: log-odds of that against all other labels.
        expected: how often a text as clear contradicts a label that is right.
    """

    place: str
    text: str
    label: str
    likelier: str
    clearness: float
    expected: float


@dataclass(frozen=True)
class Outlier:
    """A text that is like no other here.

    Attributes:
        place, text, label: as in Doubt.
        distance: mean cosine distance to the ten nearest texts, as a multiple of the median's.
    """

    place: str
    text: str
    label: str
    distance: float


@dataclass(frozen=True)
class Labels:
    """What the texts say of their labels.

    Attributes:
        judged: examples whose labels were asked about.
        left_out: examples of labels that too few have.
        lapses: the share of wrong labels, and how often right ones are contradicted.
        doubts: contradicted labels, surest first.
        tenths: share contradicted, and how many are expected with no label wrong, by tenth of
            clearness.
        outliers: the farthest texts.
    """

    judged: int
    left_out: int
    lapses: Lapses
    doubts: tuple[Doubt, ...]
    tenths: tuple[tuple[float, float], ...]
    outliers: tuple[Outlier, ...]

    def findings(self) -> tuple[Finding, ...]:
        """One finding: the share of wrong labels, and the surest."""
        share = self.lapses.share
        low = share.low or 0.0
        hard = len(self.doubts) / max(self.judged, 1) > HARDEST
        sure = low >= LEAST_SHARE and not hard
        severity: Severity = "alarm" if sure else "note" if low > 0 else "fine"
        if self.judged < TOO_FEW:
            severity = "note"
            text = f"{counted(self.judged, 'label')} are too few to find wrong ones by the others."
        elif severity == "fine":
            text = (
                f"Of {self.judged:,} labels {len(self.doubts):,} are contradicted by their texts, "
                f"no more than hard texts explain (wrong by accident: {_percent(share.value)}, "
                f"at most {_percent(share.high or 0)})."
            )
        else:
            text = (
                f"About {_percent(share.value)} of the labels seem wrong "
                f"[{_percent(low)}, {_percent(share.high or 0)}]: so many are contradicted "
                f"however clear the text is."
            )
            if hard:
                text += (
                    f" But {_percent(len(self.doubts) / self.judged)} are contradicted in all: "
                    f"texts that are hard for this model may explain that."
                )
        if self.doubts and self.judged >= TOO_FEW:
            first = self.doubts[0]
            text += (
                f" The surest: {shown(first.text, 80)} is labelled {first.label!r} and reads like "
                f"{first.likelier!r}."
            )
        if self.left_out:
            text += f" {counted(self.left_out, 'example')} of rare labels not asked about."
        numbers: dict[str, float | int | str | None] = {
            "share_wrong": share.value,
            "share_wrong_low": share.low,
            "share_wrong_high": share.high,
            "labels": self.judged,
            "contradicted": len(self.doubts),
        }
        return (Finding("labels", severity, text, numbers),)

    def figures(self) -> tuple[Figure, ...]:
        """How often labels are contradicted, from the least to the most clear texts."""
        if not self.tenths:
            return ()
        x = tuple(range(1, len(self.tenths) + 1))
        found, expected = zip(*self.tenths, strict=True)
        lines = (Series("found", x, found), Series("expected of right labels", x, expected))
        title = "Contradicted labels, from the least clear tenth of the texts to the clearest"
        return (Figure("labels_tenths", title, "line", "tenth", "share contradicted", lines),)

    def tables(self) -> tuple[Table, ...]:
        """The likeliest errors and the farthest texts, each with its text."""
        tables = []
        if self.doubts:
            rows = tuple(
                (each.place, each.text, each.label, each.likelier, each.clearness, each.expected)
                for each in self.doubts[:LISTED]
            )
            columns = ("place", "text", "label", "likelier label", "log-odds", "expected by chance")
            title = "Labels that are likely wrong, surest first"
            tables.append(Table("labels", title, columns, rows))
        if self.outliers:
            far = tuple(
                (each.place, each.text, each.label, each.distance) for each in self.outliers
            )
            heads = ("place", "text", "label", "times the median distance")
            tables.append(Table("labels_outliers", "Texts that are like no other here", heads, far))
        return tuple(tables)


def labels(evidence: Evidence) -> Labels:
    """Ask which labels are contradicted by their texts.

    Args:
        evidence: to ask; examples that the model was not trained on, or it repeats what it learned.

    Raises:
        NotAsked: where examples do not have one label each, or no two labels have enough.
    """
    evidence = evidence.part(MOST_STATES)
    given = [getattr(example, "label", None) for example in evidence.examples]
    said = [result for result in evidence.results if isinstance(result, LabelResult)]
    if len(said) < len(given) or not all(isinstance(label, str) for label in given):
        raise NotAsked("Labels are asked about where every example has one label.")
    counts = Counter(given)
    names = [name for name in evidence.task.labels if counts[name] >= LEAST_EACH]
    if len(names) < 2:
        raise NotAsked(f"Wrong labels are found where two labels have {LEAST_EACH} examples each.")
    judged = np.array([number for number, label in enumerate(given) if label in names])
    vectors = evidence.states.of_examples("mean")[-1]
    number_of = {name: number for number, name in enumerate(names)}
    truth = np.array([number_of[str(given[index])] for index in judged.tolist()])
    folds = folds_of(evidence.units, evidence.generator("labels"))
    model = np.array([[said[i].probabilities[name] for name in names] for i in judged.tolist()])
    together = np.log(np.maximum(model, 1e-12)) + out_of_fold(vectors[judged], truth, folds[judged])
    first, clear = clearness(together)
    found = lapses(clear, first != truth)
    expected = replace(found, share=Metric(0.0)).expected(clear)
    wrong = np.flatnonzero(first != truth)
    doubts = [
        Doubt(
            *_described(evidence, int(judged[number])),
            likelier=names[first[number]],
            clearness=float(clear[number]),
            expected=float(expected[number]),
        )
        for number in wrong[np.argsort(-clear[wrong], kind="stable")].tolist()
    ]
    return Labels(
        judged=len(judged),
        left_out=len(given) - len(judged),
        lapses=found,
        doubts=tuple(doubts),
        tenths=_tenths(clear, first != truth, expected),
        outliers=_outliers(evidence, vectors),
    )


def _described(evidence: Evidence, index: int) -> tuple[str, str, str]:
    """Place, text and label of an example."""
    example = evidence.examples[index]
    read = example.text if example.pair is None else f"{example.text} / {example.pair}"
    text = read if len(read) <= TEXT_SHOWN else f"{read[:TEXT_SHOWN]}..."
    return example.place, text, example.label


def _tenths(
    clear: NDArray[np.float64], wrong: NDArray[np.bool_], expected: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """Means of what is found and of what is expected, from the least clear tenth on."""
    parts = np.array_split(np.argsort(clear, kind="stable"), TENTHS)
    return tuple((float(wrong[p].mean()), float(expected[p].mean())) for p in parts if len(p))


def _outliers(evidence: Evidence, vectors: NDArray[np.float32]) -> tuple[Outlier, ...]:
    if len(vectors) < TOO_FEW:
        return ()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    products, _ = nearest(unit, unit, k=NEIGHBOURS + 1)
    # The nearest of all is the text itself.
    distance = 1 - products[:, 1:].mean(1)
    times = distance / max(float(np.median(distance)), 1e-9)
    farthest = np.argsort(-times, kind="stable")[:OUTLIERS].tolist()
    return tuple(Outlier(*_described(evidence, i), distance=float(times[i])) for i in farthest)


def _percent(share: float) -> str:
    return f"{share:.1%}"
