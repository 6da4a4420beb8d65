"""A student beside its teacher: how much smaller, how much faster, how much worse.

Scores are compared on the same examples and the same resamples; speed is that of the two networks
alone, in turn, on the batches at hand.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bothways.checkpoints.parts import Parts
from bothways.evaluation.intervals import Indices, Units, interval, paired_difference
from bothways.evaluation.result import Metric, Table
from bothways.inference import prepacked
from bothways.inference.predictor import evaluating
from bothways.model.layout import Batch

ROUNDS = 5
Score = Callable[[Indices], float]


@dataclass(frozen=True)
class Scores:
    """One score of teacher and student on the same examples.

    Attributes:
        metric: its name.
        teacher, student: the score of each.
        difference: student minus teacher, paired.
    """

    metric: str
    teacher: Metric
    student: Metric
    difference: Metric

    @classmethod
    def of(
        cls, metric: str, *, teacher: Score, student: Score, units: Units, seed: int = 0
    ) -> Scores:
        """Both, with 95 % intervals over the same draws.

        Args:
            metric: its name.
            teacher, student: score of some examples, by index.
            units: what is drawn.
            seed: of the draws.
        """
        theirs, own = (interval(score, units, seed=seed) for score in (teacher, student))
        return cls(metric, theirs, own, paired_difference(student, teacher, units, seed=seed))


@dataclass(frozen=True)
class Comparison:
    """What became smaller, and what that costs.

    Attributes:
        teacher_parameters, student_parameters: numbers that each holds, heads included.
        teacher_megabytes, student_megabytes: of these numbers.
        times_faster: time of the teacher by that of the student; None where nothing was at hand.
        scores: None where nothing was judged.
    """

    teacher_parameters: int
    student_parameters: int
    teacher_megabytes: float
    student_megabytes: float
    times_faster: float | None = None
    scores: Scores | None = None

    @classmethod
    def of(
        cls,
        teacher: Parts,
        student: Parts,
        faster: float | None = None,
        scores: Scores | None = None,
    ) -> Comparison:
        """Compare sizes, beside what else is known."""
        (numbers, size), (fewer, smaller) = _size(teacher), _size(student)
        return cls(numbers, fewer, size, smaller, faster, scores)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return dataclasses.asdict(self)

    def table(self) -> Table:
        """A row a quantity."""
        rows: list[tuple[str | float | int | None, ...]] = [
            ("parameters", self.teacher_parameters, self.student_parameters),
            ("megabytes", round(self.teacher_megabytes, 1), round(self.student_megabytes, 1)),
        ]
        if self.times_faster is not None:
            rows.append(("speed", 1.0, round(self.times_faster, 2)))
        if self.scores is not None:
            found = self.scores
            rows.append((found.metric, str(found.teacher), str(found.student)))
            rows.append((f"{found.metric}, student - teacher", None, str(found.difference)))
        title = "The student beside its teacher"
        return Table("teacher", title, ("", "teacher", "student"), tuple(rows))


def times_faster(teacher: Parts, student: Parts, batches: Sequence[Batch]) -> float:
    """Time of the teacher's network over that of the student's, medians of rounds in turn.

    Args:
        teacher, student: on one device.
        batches: read by both.
    """
    taken: dict[int, list[float]] = {0: [], 1: []}
    device = student.encoder.embeddings.words.weight.device
    batches = [batch.to(device) for batch in batches]
    with evaluating(teacher.encoder), evaluating(student.encoder), torch.inference_mode():
        for parts in (teacher, student):
            prepacked.install(parts.encoder)
        for number in range(ROUNDS + 1):
            for which, parts in enumerate((teacher, student)):
                begin = time.perf_counter()
                for batch in batches:
                    parts.encoder(batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                if number:  # the first round warms up
                    taken[which].append(time.perf_counter() - begin)
    return statistics.median(taken[0]) / statistics.median(taken[1])


def _size(parts: Parts) -> tuple[int, float]:
    """Numbers that are learned, shared ones once, and their megabytes."""
    modules = (parts.encoder, *((parts.reader,) if parts.reader is not None else ()))
    found = {id(p): p for module in modules for p in module.parameters()}.values()
    return sum(p.numel() for p in found), sum(p.numel() * p.element_size() for p in found) / 1e6
