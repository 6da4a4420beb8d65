"""One rung: a candidate fine-tuned with all its seeds, and its bound on what chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.checkpoints.parts import Parts
from bothways.evaluation.intervals import Units
from bothways.evaluation.result import Metric
from bothways.ladder.candidates import Candidate
from bothways.ladder.ceiling import probabilities_of
from bothways.ladder.deciding import Bar, bound
from bothways.ladder.settings import ChooseSettings
from bothways.training.examples import TrainingData
from bothways.training.finetune import run_all
from bothways.training.grid import RunResult, grid
from bothways.training.recorder import OnEvent
from bothways.training.runtime import Runtime
from bothways.training.saving import dev_results, tune


@dataclass(frozen=True)
class Rung:
    """What came of a candidate.

    Attributes:
        score: of the run that was kept, on dev, between its corrected bounds.
        runs: value of the metric of each run, on dev.
        best: name of the run that was kept.
    """

    score: Metric
    runs: Mapping[str, float]
    best: str

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rung:
        """As `dataclasses.asdict` gave it."""
        return cls(Metric(**values["score"]), values["runs"], values["best"])

    def sentence(self, bar: Bar) -> str:
        """The score and the bound that decides, in words."""
        end = self.score.low if bar.direction == 1 else self.score.high
        side = "at least" if bar.direction == 1 else "at most"
        bound_ = "" if end is None else f" ({side} {end:.3f})"
        return f"{bar.metric} {self.score.value:.3f}{bound_}"

    def cleared(self, bar: Bar) -> bool:
        """Whether the bound on the wrong side of the score is good enough."""
        end = self.score.low if bar.direction == 1 else self.score.high
        return end is not None and bar.reached_by(end)


@dataclass(frozen=True)
class Trained:
    """A candidate with the weights that were kept.

    Attributes:
        data: with what the task decides on dev.
        parts: nothing random in them.
        runs: all of them.
        best: the one that was kept.
    """

    data: TrainingData
    parts: Parts
    runs: list[RunResult]
    best: RunResult


def train(
    candidate: Candidate,
    settings: ChooseSettings,
    runtime: Runtime,
    on_event: OnEvent | None = None,
) -> Trained:
    """All runs of a candidate; those that are over are not repeated.

    Args:
        candidate: as loaded.
        settings: of the command.
        runtime: device and ranks.
        on_event: told what happens.
    """
    runner = candidate.runner(settings, runtime, on_event)
    runs, best, parts = run_all(grid(candidate.given), runner)
    finish = getattr(candidate.data.splits.task, "finish", lambda done: done)
    parts = finish(parts.trained())
    return Trained(tune(candidate.data, parts), parts, runs, best)


def judge(trained: Trained, bar: Bar, *, seed: int = 0) -> tuple[Rung, NDArray[np.float64] | None]:
    """The score on dev, with its bounds.

    Args:
        trained: a candidate.
        bar: what is good enough, and how many are looked at.
        seed: of the draws.

    Returns:
        The rung, and (examples, labels) probabilities on dev where each example has one label.
    """
    tuned, results = dev_results(trained.data, trained.parts)
    task, dev = tuned.splits.task, tuned.splits.dev
    assert dev is not None
    scorer, units = task.scorer(results, dev), Units.of(len(dev), task.units(dev))
    score = bound(lambda some: scorer(some)[bar.metric], units, bar, seed=seed)
    runs = {run.name: float(run.value or 0.0) for run in trained.runs}
    rung = Rung(score, runs, trained.best.name)
    return rung, probabilities_of(list(results), task.labels)
