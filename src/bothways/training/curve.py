"""The learning curve: what less of the training data reaches on dev, and so what more may bring.

Shares are nested (a smaller one is a part of a larger one) and everything else is as in the run
that was kept: its learning rate, its seed, its number of epochs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bothways.checkpoints.parts import Parts
from bothways.data.randomness import keyed_random
from bothways.evaluation.intervals import RESAMPLES, Units, intervals, of_perfect_share
from bothways.evaluation.result import Figure, Metric, Series, Table
from bothways.files import read_json_object, write_json
from bothways.training.examples import TrainingData
from bothways.training.grid import RunResult, RunSpec
from bothways.training.runs import Runner
from bothways.training.saving import dev_results
from bothways.training.settings import FinetuneSettings
from bothways.training.state import refuse_other_settings

POINT_NAME = "point.json"


@dataclass(frozen=True)
class CurvePoint:
    """What a share of the training data reaches.

    Attributes:
        share: of the training data.
        examples: that it has.
        metric: name of the score.
        score: on dev, with its interval.
    """

    share: float
    examples: int
    metric: str
    score: Metric

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "share": self.share,
            "examples": self.examples,
            "metric": self.metric,
            **dataclasses.asdict(self.score),
        }


def part_of(count: int, share: float, seed: int) -> list[int]:
    """Places of a share of some examples, in their order; a smaller share is a part of a larger.

    Example:
        >>> set(part_of(10, 0.2, seed=0)) < set(part_of(10, 0.5, seed=0))
        True
    """
    order = keyed_random(seed, use="curve").permutation(count)
    wanted = max(1, math.ceil(round(share * count, 6)))
    return sorted(order[:wanted].tolist())


def learning_curve(
    settings: FinetuneSettings,
    runner: Runner,
    best: RunResult,
    data: TrainingData,
    parts: Parts,
    *,
    finish: Callable[[Parts], Parts],
) -> tuple[CurvePoint, ...]:
    """A run on each share that the settings ask for; those that are over are not repeated.

    Args:
        settings: of the command.
        runner: of the whole data.
        best: the run that was kept.
        data: the whole data, its task as it is saved.
        parts: what was kept, for the share 1.
        finish: makes trained parts ready for use.
    """
    shares = sorted(set(settings.tuning.learning_curve))
    smaller = [share for share in shares if share < 1.0]
    points = []
    for number, share in enumerate(shares, start=1):
        whole = len(data.splits.train)
        if share == 1.0:
            points.append(_point(settings, runner, share, whole, data, parts))
            continue
        name = f"share-{share:g}"
        folder = settings.output / "runs" / name
        spec = RunSpec(name, best.learning_rate, best.seed, number, len(smaller) + 1, folder)
        places = part_of(whole, share, best.seed)
        splits = dataclasses.replace(data.splits, train=[data.splits.train[i] for i in places])
        part = dataclasses.replace(data, splits=splits, train=runner.train.chosen(places))
        points.append(_run_on(settings, runner.over(part), spec, share, part, finish))
    return tuple(points)


def _run_on(
    settings: FinetuneSettings,
    runner: Runner,
    spec: RunSpec,
    share: float,
    data: TrainingData,
    finish: Callable[[Parts], Parts],
) -> CurvePoint:
    path = spec.folder / POINT_NAME
    if path.exists():
        stored = read_json_object(path)
        refuse_other_settings(stored["settings"], runner.deciding(spec), path)
        values = stored["point"]
        score = Metric(**{key: values.pop(key) for key in ("value", "low", "high")})
        return CurvePoint(score=score, **values)
    result, parts = runner.run(spec)
    point = _point(settings, runner, share, len(data.splits.train), data, finish(parts.trained()))
    if runner.runtime.is_main:
        write_json(path, {"point": point.as_dict(), "settings": runner.deciding(spec)})
    runner.forget(spec, result, all_weights=True)
    return point


def _point(
    settings: FinetuneSettings,
    runner: Runner,
    share: float,
    examples: int,
    data: TrainingData,
    parts: Parts,
) -> CurvePoint:
    tuned, results = dev_results(data, parts)
    task, dev = tuned.splits.task, tuned.splits.dev
    assert dev is not None
    name = runner.metric
    units = Units.of(len(dev), task.units(dev))
    scores = task.scorer(results, dev)
    found = intervals(
        lambda some: {name: scores(some)[name]},
        units,
        resamples=RESAMPLES,
        seed=settings.common.seed,
    )[name]
    if task.metric_directions[name] == 1:
        found = of_perfect_share(found, len(units))
    return CurvePoint(share, examples, name, found)


def curve_table(points: Sequence[CurvePoint]) -> Table:
    """Shares, examples and scores."""
    metric = points[0].metric
    rows = tuple(
        (point.share, point.examples, point.score.value, point.score.low, point.score.high)
        for point in points
    )
    columns = ("share", "training examples", metric, f"{metric} low", f"{metric} high")
    return Table("learning_curve", "What less training data reaches, on dev", columns, rows)


def curve_figure(points: Sequence[CurvePoint]) -> Figure:
    """The score over the number of training examples."""
    metric = points[0].metric
    scores = {str(point.examples): point.score for point in points}
    named = Series.of_metrics(metric, scores)
    series = dataclasses.replace(named, x=tuple(float(point.examples) for point in points))
    title = f"{metric} on dev by number of training examples, with 95 % intervals"
    return Figure("learning_curve", title, "line", "training examples", metric, (series,))
