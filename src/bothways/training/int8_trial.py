"""Judging a quantized model beside the float one: by its task, or by the cosine of its vectors.

Both are scored on the same examples and the same resamples, with as much confidence as holds for
all the models together that a search looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from bothways.checkpoints.parts import Parts
from bothways.evaluation.intervals import CONFIDENCE, Units, interval, of_many, paired_difference
from bothways.evaluation.result import Metric
from bothways.inference.abilities import trained_task
from bothways.inference.batches import CPU_BATCH_TOKENS, plan_batches
from bothways.inference.inputs import one_window, text_columns
from bothways.inference.int8_layers import groups
from bothways.inference.model import Model
from bothways.inference.quantize import looks
from bothways.model.layout import Batch
from bothways.tasks.task import Task
from bothways.training.comparison import Score
from bothways.training.quantize_settings import QuantizeSettings

COSINE = "cosine"
# Sequences whose states are compared and whose reading is timed.
SAMPLE = 256


@dataclass(frozen=True)
class Yardstick:
    """What a model is measured by.

    Attributes:
        metric: its name.
        direction: 1 where larger is better, -1 where smaller is.
        units: what is drawn.
        score: of a model, on some examples.
        sequences: ids and segments of a sample.
    """

    metric: str
    direction: int
    units: Units
    score: Callable[[Model], Score]
    sequences: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]] | None]


@dataclass(frozen=True)
class Judged:
    """A quantized model beside the float one.

    Attributes:
        metric: its name.
        exact, int8: value in float and in int8.
        drop: in points of 100; negative where int8 is better.
    """

    metric: str
    exact: Metric
    int8: Metric
    drop: Metric

    @property
    def at_most(self) -> float:
        """The upper end of the drop's interval; the drop itself where no resample differs."""
        return self.drop.value if self.drop.high is None else self.drop.high


class Trial:
    """Judges quantized parts, for the search.

    Args:
        model: in float.
        examples: labelled examples of its task; texts or pairs where it has none or by cosine.
        settings: how much the drop may be, and what is judged.
        options: for `model.predict`: max_length, policy, overlap, batch_tokens.
        seed: of the resampling.

    Raises:
        TaskError: when the model has several heads, or a head that no task reads.
        UntrainedHeadError: when the head's weights are random.
    """

    def __init__(
        self,
        model: Model,
        examples: Sequence[Any],
        settings: QuantizeSettings,
        options: Mapping[str, Any],
        *,
        seed: int = 0,
    ) -> None:
        self.model, self.max_drop, self.seed = model, settings.max_drop, seed
        alone = model.task is None and model.head is None
        make = by_vectors if settings.by_cosine or alone else by_task
        self.yardstick = make(model, examples, options)
        self.exact = self.yardstick.score(model)
        # Only the upper end decides, so that each tail may be as large as both together are else.
        self.confidence = of_many(looks(len(groups(model.encoder))), 2 * CONFIDENCE - 1)

    def __call__(self, parts: Parts) -> tuple[bool, Judged]:
        """Whether the drop is within what is allowed, with confidence."""
        yardstick, exact = self.yardstick, self.exact
        other = Model(parts)
        other.task = self.model.task
        score = yardstick.score(other)
        drawn: dict[str, Any] = {"units": yardstick.units, "seed": self.seed}
        better, worse = (exact, score) if yardstick.direction > 0 else (score, exact)
        drop = paired_difference(better, worse, confidence=self.confidence, **drawn)
        judged = Judged(
            yardstick.metric,
            interval(exact, **drawn),
            interval(score, **drawn),
            _in_points(drop),
        )
        return judged.at_most <= self.max_drop, judged

    def batches(self) -> list[Batch]:
        """Of a sample of the texts."""
        ids, types = self.yardstick.sequences
        plan = plan_batches([len(each) for each in ids], CPU_BATCH_TOKENS)
        return [
            Batch.packed(
                [ids[index] for index in indices],
                None if types is None else [types[index] for index in indices],
            )
            for indices in plan
        ]


def _in_points(share: Metric) -> Metric:
    """Of 100."""
    low, high = (None if end is None else 100 * end for end in (share.low, share.high))
    return Metric(100 * share.value, low, high)


def by_task(model: Model, examples: Sequence[Any], options: Mapping[str, Any]) -> Yardstick:
    """The main metric of a model's task."""
    trained_task(model.parts, model.task)
    task: Task[Any] = model.task  # type: ignore[assignment]
    metric = task.main_metric

    def score(of: Model) -> Score:
        scored = task.scorer(of.predict(examples, **options), examples)
        return lambda some: scored(some)[metric]

    policy = model.policy(*(options.get(name) for name in ("max_length", "policy", "overlap")))
    windows, _ = task.encode_all(examples[:SAMPLE], model.tokenizer, policy)
    read = list(chain.from_iterable(windows))
    return Yardstick(
        metric,
        task.metric_directions[metric],
        Units.of(len(examples), task.units(examples)),
        score,
        ([each.ids for each in read], [each.type_ids for each in read]),
    )


def by_vectors(model: Model, texts: Sequence[Any], options: Mapping[str, Any]) -> Yardstick:
    """The mean cosine of a model's vectors to its float ones, which are 1."""
    given = {name: value for name, value in options.items() if name != "overlap"}
    wanted = model.embed(texts, normalize=True, **given).vectors

    def score(of: Model) -> Score:
        vectors = of.embed(texts, normalize=True, **given).vectors
        cosines = np.einsum("nd,nd->n", wanted, vectors)
        return lambda some: float(cosines[some].mean())

    ids, types, _ = model.tokenizer.encode_ids(
        *text_columns(texts[:SAMPLE], ""),
        policy=one_window(model.policy(options.get("max_length"), options.get("policy"))),
    )
    return Yardstick(COSINE, 1, Units.of(len(texts)), score, (ids, types))
