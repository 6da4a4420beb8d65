"""The grid of runs over learning rates and seeds: what each is, what came of it, how they spread.

Training one is in `runs.py`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.evaluation.result import Table
from bothways.training.settings import FinetuneSettings


@dataclass(frozen=True)
class RunSpec:
    """One cell of the grid.

    Attributes:
        name: of the run and of its folder.
        learning_rate: the peak.
        seed: of its head, order and dropout.
        number, num_runs: which one of how many, from 1.
        folder: for its metrics and checkpoints.
    """

    name: str
    learning_rate: float
    seed: int
    number: int
    num_runs: int
    folder: Path


@dataclass(frozen=True)
class RunResult:
    """What came of a run.

    Attributes:
        name: of the run.
        learning_rate: the peak.
        seed: of its head, order and dropout.
        value: of the metric that the best weights were chosen by; None without held-out data.
        best_step: step of the weights that were kept.
        step: steps taken.
        stopped_early: whether it ended before its last step.
        metrics: on dev, at the best step.
        seconds: of all its parts together.
    """

    name: str
    learning_rate: float
    seed: int
    value: float | None
    best_step: int
    step: int
    stopped_early: bool
    metrics: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class Spread:
    """One score over the seeds of one learning rate.

    Attributes:
        mean: over the seeds.
        std: standard deviation of a single run (with n - 1).
        low, high: the least and the greatest.
    """

    mean: float
    std: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least two values.

        Example:
            >>> Spread.of([1.0, 3.0]).mean
            2.0
        """
        return cls(statistics.fmean(values), statistics.stdev(values), min(values), max(values))


def grid(settings: FinetuneSettings) -> list[RunSpec]:
    """The runs that the settings ask for; a single one has the output folder for itself."""
    rates, seeds = settings.optim.learning_rate, range(settings.loop.seeds)
    cells = [(rate, settings.common.seed + number) for rate in rates for number in seeds]
    specs = []
    for number, (rate, seed) in enumerate(cells, start=1):
        name = f"lr-{rate:g}-seed-{seed}"
        folder = settings.output / "runs" / name if len(cells) > 1 else settings.output
        specs.append(RunSpec(name, rate, seed, number, len(cells), folder))
    return specs


def spread(runs: Sequence[RunResult]) -> dict[float, dict[str, Spread]]:
    """How the dev scores spread over the seeds, by learning rate and metric.

    Empty where no learning rate had several seeds.
    """
    by_rate: dict[float, list[RunResult]] = {}
    for run in runs:
        by_rate.setdefault(run.learning_rate, []).append(run)
    return {
        rate: {name: Spread.of([run.metrics[name] for run in some]) for name in some[0].metrics}
        for rate, some in by_rate.items()
        if len(some) > 1
    }


def spread_as_list(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """`spread` as JSON values."""
    return [
        {
            "learning_rate": rate,
            "metrics": {name: dataclasses.asdict(each) for name, each in scores.items()},
        }
        for rate, scores in spread(runs).items()
    ]


def grid_tables(runs: Sequence[RunResult], best: RunResult) -> tuple[Table, ...]:
    """All runs side by side, and their spread over seeds; nothing for a single run."""
    if len(runs) < 2:
        return ()
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    rows = tuple(
        (
            f"{run.name} (kept)" if run is best else run.name,
            run.learning_rate,
            run.seed,
            run.best_step,
            *(run.metrics.get(metric) for metric in metrics),
            round(run.seconds, 1),
        )
        for run in runs
    )
    columns = ("run", "learning rate", "seed", "best step", *metrics, "seconds")
    tables = [Table("runs", "All runs, scored on dev", columns, rows)]
    spreads = tuple(
        (rate, name, *dataclasses.astuple(each))
        for rate, scores in spread(runs).items()
        for name, each in scores.items()
    )
    if spreads:
        seeds = len({run.seed for run in runs})
        title = f"Spread over {seeds} seeds, on dev: what another seed may change"
        heads = ("learning rate", "metric", "mean", "standard deviation", "least", "greatest")
        tables.append(Table("seeds", title, heads, spreads))
    return tuple(tables)
