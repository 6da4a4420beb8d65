"""Choosing: candidates in, the smallest that is good enough out, with the reasons.

Here: the order of things. What each part does stands in a file of its own: what is read in
`dividing.py`, what a candidate costs in `costs.py`, its runs in `climbing.py`, the rules in
`deciding.py`, what is stored to go on in `state.py`, the page in `page.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bothways.errors import (
    BothwaysError,
    CheckpointError,
    RunStopped,
    TrainingError,
    UsageError,
    nearest,
)
from bothways.evaluation.result import Report
from bothways.ladder.candidates import Candidate, runs_folder
from bothways.ladder.climbing import Rung, Trained, judge, train
from bothways.ladder.costs import Cost, at_work, over_rounds
from bothways.ladder.deciding import Bar, cheapest_first
from bothways.ladder.dividing import Divided, divide
from bothways.ladder.entries import Entry, cost_of_all
from bothways.ladder.page import ladder_report
from bothways.ladder.settings import ChooseSettings
from bothways.ladder.state import Memory, as_json, fingerprint
from bothways.report.write import write_report
from bothways.tasks.task import Task
from bothways.training.examples import new_task
from bothways.training.grid import grid
from bothways.training.loop import stopped_at_once
from bothways.training.output import claim_output, resume_command
from bothways.training.recorder import OnEvent
from bothways.training.run_tables import DataSettings
from bothways.training.runtime import Runtime
from bothways.training.saving import judge_result, save_result

logger = logging.getLogger(__name__)

# Times are taken in so many rounds over all candidates, and the best of each counts: what else
# the machine does then rarely decides the order.
ROUNDS = 3
# What a choice leaves, and one that replaces it begins by deleting.
LEFT = ("rungs", "model", "best")


@dataclass(frozen=True)
class ChooseResult:
    """What choosing found.

    Attributes:
        folder: of the report and the model.
        chosen: the candidate, as given; None where none is shown to reach the target.
        target_met: whether one is, and the data that nothing was chosen by do not contradict it.
        best: the best of those that were tried, as given.
        model: folder of the chosen model, else of the best.
        entries: all candidates, cheapest first; those that could not be loaded last.
        report: with the scores of that model on the data that nothing was chosen by.
        spent_seconds: all time spent, in this call and before.
        all_seconds: estimate of what fine-tuning every candidate would have taken.
    """

    folder: Path
    chosen: str | None
    target_met: bool
    best: str
    model: Path
    entries: tuple[Entry, ...]
    report: Report
    spent_seconds: float
    all_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The object that `choose --json` prints."""
        return {
            "chosen": self.chosen,
            "target_met": self.target_met,
            "best": self.best,
            "model": str(self.model),
            "task": self.report.task,
            "data": self.report.data,
            "metrics": {
                name: dataclasses.asdict(metric) for name, metric in self.report.metrics.items()
            },
            "spent_seconds": self.spent_seconds,
            "all_seconds": self.all_seconds,
            "rungs": [entry.as_dict() for entry in self.entries],
            "findings": [dataclasses.asdict(finding) for finding in self.report.findings],
            "ledger": self.report.ledger.as_dict(),
        }


def choose(settings: ChooseSettings, *, on_event: OnEvent | None = None) -> ChooseResult:
    """Fine-tune candidates from the cheapest upwards until one is good enough; judge and save it.

    Args:
        settings: everything.
        on_event: told what happens, for a progress bar.

    Raises:
        UsageError: for impossible settings, among them a metric that the task does not have.
        DataError: for what is wrong with the files.
        CheckpointError: when no candidate can be loaded.
        TrainingError: when the output folder is taken, the choice cannot be resumed, or the budget
            is too small for a single candidate.
        RunStopped: after SIGTERM, when what was found is saved.

    Example:
        >>> files = LabelledSettings(Path("reviews.csv"))  # doctest: +SKIP
        >>> settings = ChooseSettings(
        ...     Path("out"), "accuracy=0.75", candidates=("small", "large"), files=files
        ... )  # doctest: +SKIP
        >>> choose(settings).chosen  # doctest: +SKIP
        'small'
    """
    settings.check()
    given = settings.finetuning("candidate", settings.output)
    task = new_task(given)
    _direction(settings, task)
    common = settings.common
    runtime = Runtime(device=common.device, precision=common.precision, threads=common.threads)
    claim_output(settings, runtime, [])
    if settings.overwrite:
        for name in LEFT:
            shutil.rmtree(settings.output / name, ignore_errors=True)
    with stopped_at_once(resume_command(settings.output, "choose")):
        return _Choice(settings, divide(settings, task), runtime, on_event).made()


def _direction(settings: ChooseSettings, task: Task[Any]) -> int:
    """1 where more of the target's metric is better, -1 where less is.

    Raises:
        UsageError: when the task has no such metric; those that it has are listed.
    """
    metric, known = settings.wanted[0], task.metric_directions
    if metric not in known:
        listed = ", ".join(f"{name} ({'+' if known[name] > 0 else '-'})" for name in known)
        raise UsageError(
            f"--target names {metric!r}; {nearest(metric, known)} {task.name} has, with + where "
            f"more is better: {listed}"
        )
    return known[metric]


class _Choice:
    """One command: the data, what is known of each candidate, and what was spent."""

    def __init__(
        self,
        settings: ChooseSettings,
        divided: Divided,
        runtime: Runtime,
        on_event: OnEvent | None,
    ) -> None:
        self.settings, self.divided, self.runtime = settings, divided, runtime
        self.on_event = on_event
        self.splits = divided.splits
        names = settings.candidates
        self.entries = [Entry(name, number) for number, name in enumerate(names, start=1)]
        deciding = settings.deciding() | {"data as read": fingerprint(self.splits)}
        self.memory = Memory(as_json(deciding))

    def made(self) -> ChooseResult:
        """From measuring to the saved model."""
        self.measure()
        self.limit()
        bar = self.bar()
        self.climb(bar)
        return self.finish(bar)

    def bar(self) -> Bar:
        """What is good enough, corrected for every look that there may be."""
        metric, target = self.settings.wanted
        direction = _direction(self.settings, self.splits.task)
        runs = self.settings.finetuning("", self.settings.output).num_runs
        looks = sum(entry.is_open for entry in self.entries) * runs * self.settings.loop.epochs
        return Bar(metric, target, direction, max(looks, 1))

    def folder(self, entry: Entry) -> Path:
        """Where what is known of a candidate is stored."""
        return runs_folder(self.settings.output, entry.number, entry.source)

    def load(self, entry: Entry) -> Candidate:
        """A candidate with the data."""
        return Candidate.load(entry.source, entry.number, self.settings, self.splits)

    def measure(self) -> None:
        """What each costs, and the order that follows; those that cannot be loaded come last."""
        for entry in self.entries:
            try:
                found = self.memory.recall(
                    self.folder(entry) / "estimate.json", partial(self._estimate, entry)
                )
            except RunStopped:
                raise
            except BothwaysError as error:
                entry.settle("failed", str(error))
                logger.warning("%s is left out: %s", entry.source, error)
            else:
                entry.cost = Cost(**found, latency_ms=0.0, memory_mb=None)
        ready = [entry for entry in self.entries if entry.cost is not None]
        if not ready:
            listed = "\n".join(f"  {entry.source}: {entry.why}" for entry in self.entries)
            raise CheckpointError(f"no candidate can be loaded:\n{listed}")
        measured = self.memory.recall(
            self.settings.output / "rungs" / "costs.json", partial(self._at_work, ready)
        )
        costs = [Cost(**{**vars(entry.cost), **measured[entry.source]}) for entry in ready]
        for entry, cost in zip(ready, costs, strict=True):
            entry.cost = cost
        order = cheapest_first(
            [cost.latency_ms for cost in costs], [cost.size_mb for cost in costs]
        )
        failed = [entry for entry in self.entries if entry.cost is None]
        self.entries = [*(ready[place] for place in order), *failed]

    def _estimate(self, entry: Entry) -> dict[str, Any]:
        candidate = self.load(entry)
        seconds = candidate.runner(self.settings, self.runtime).estimated_seconds()
        return {"size_mb": candidate.megabytes, "training_seconds": seconds}

    def _at_work(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """Time and memory of each, measured in turn."""
        seed, candidates = (
            self.settings.common.seed,
            {each.source: self.load(each) for each in entries},
        )
        rounds = [
            {name: at_work(each, self.runtime, seed=seed) for name, each in candidates.items()}
            for _ in range(ROUNDS)
        ]
        return {name: over_rounds([each[name] for each in rounds]) for name in candidates}

    def limit(self) -> None:
        """Take out what is too slow or too large."""
        slowest, largest = self.settings.most_milliseconds, self.settings.most_megabytes
        for entry in self.entries:
            cost = entry.cost
            if cost is None:
                continue
            if slowest is not None and cost.latency_ms > slowest:
                told = f"{cost.latency_ms:.1f} ms a text; --max-latency is {slowest:g} ms"
                entry.settle("over a limit", told)
            elif largest is not None and cost.size_mb > largest:
                told = f"{cost.size_mb:.1f} MB; --max-size is {largest:g} MB"
                entry.settle("over a limit", told)

    def climb(self, bar: Bar) -> None:
        """Fine-tune upwards until one clears the bar, or the budget ends."""
        for place, entry in enumerate(self.entries):
            if not entry.is_open or not self._affordable(entry):
                continue
            logger.info("rung %d of %d: %s", place + 1, len(self.entries), entry.source)
            before = self.memory.spent
            try:
                found = self.memory.recall(
                    self.folder(entry) / "rung.json",
                    partial(self._rung, entry, bar),
                )
            except RunStopped:
                raise
            except BothwaysError as error:
                entry.settle("failed", str(error))
                logger.warning("%s is left out: %s", entry.source, error)
                continue
            entry.rung, entry.seconds = Rung.from_dict(found), self.memory.spent - before
            cleared = entry.rung.cleared(bar)
            sign = "at least" if bar.direction == 1 else "at most"
            end = entry.rung.score.low if bar.direction == 1 else entry.rung.score.high
            told = f"{bar.metric} {entry.rung.score.value:.3f}, {sign} {end:.3f}"
            entry.settle("chosen" if cleared else "below target", told)
            logger.info("%s: %s, target %g", entry.source, told, bar.target)
            if cleared:
                return

    def _affordable(self, entry: Entry) -> bool:
        """Whether the budget still has room for a candidate; says so where it has not.

        Raises:
            TrainingError: when it has not even for the first.
        """
        budget = self.settings.budget_seconds
        assert entry.cost is not None
        if budget is None or (self.folder(entry) / "rung.json").exists():
            return True
        needed = self.memory.spent + entry.cost.training_seconds
        if needed <= budget:
            return True
        told = (
            f"needs about {entry.cost.training_seconds:.0f} s, and {self.memory.spent:.0f} s of "
            f"the budget of {budget:.0f} s are spent"
        )
        if not any(other.rung is not None for other in self.entries):
            raise TrainingError(
                f"the budget is too small for one candidate: the cheapest, {entry.source}, {told}; "
                "give a larger --budget, or fewer --seeds or --epochs, and --resume"
            )
        entry.settle("no budget", told)
        return False

    def _rung(self, entry: Entry, bar: Bar) -> dict[str, Any]:
        candidate = self.load(entry)
        trained = train(candidate, self.settings, self.runtime, self.on_event)
        return dataclasses.asdict(judge(trained, bar, seed=self.settings.common.seed))

    def finish(self, bar: Bar) -> ChooseResult:
        """Judge the chosen one, or the best, on what nothing was chosen by; write everything."""
        tried = [entry for entry in self.entries if entry.rung is not None]
        if not tried:
            why = "\n".join(f"  {entry.source}: {entry.why}" for entry in self.entries)
            raise TrainingError(f"no candidate could be tried:\n{why}")
        chosen = next((entry for entry in tried if entry.outcome == "chosen"), None)
        best = chosen or max(
            tried, key=lambda entry: bar.direction * (entry.rung.score.value if entry.rung else 0)
        )
        begin = time.perf_counter()
        model = self.settings.output / ("model" if chosen else "best")
        report = self._save(best, model)
        self.memory.spent += time.perf_counter() - begin
        metric = report.metrics[bar.metric]
        reach = metric.high if bar.direction == 1 else metric.low
        contradicted = reach is not None and not bar.reached_by(reach)
        all_seconds = cost_of_all(self.entries)
        result = ChooseResult(
            folder=self.settings.output,
            chosen=chosen.source if chosen else None,
            target_met=chosen is not None and not contradicted,
            best=best.source,
            model=model,
            entries=tuple(self.entries),
            report=report,
            spent_seconds=self.memory.spent,
            all_seconds=all_seconds,
        )
        whole = ladder_report(result, bar)
        write_report(whole, self.settings.output)
        return dataclasses.replace(result, report=whole)

    def _save(self, entry: Entry, folder: Path) -> Report:
        """Write the model of a candidate, judged on test."""
        candidate = self.load(entry)
        trained = train(candidate, self.settings, self.runtime)
        splits = dataclasses.replace(trained.data.splits, test=self.splits.test)
        data = dataclasses.replace(trained.data, splits=splits)
        given = dataclasses.replace(candidate.given, output=folder, data=self._files())
        report = judge_result(given, data, trained.parts)
        report = dataclasses.replace(report, model=entry.source)
        if self.runtime.is_main:
            best = self._best_folder(candidate, trained)
            save_result(
                given, data, trained.parts, report, trained.runs, log=best / "metrics.jsonl"
            )
        return report

    def _best_folder(self, candidate: Candidate, trained: Trained) -> Path:
        return next(spec.folder for spec in grid(candidate.given) if spec.name == trained.best.name)

    def _files(self) -> DataSettings:
        """The files in the words of fine-tuning: what is learned from, chosen by, judged on."""
        files = self.settings.files
        share = None if files.dev else 0.2 if files.data else 0.25
        return DataSettings(
            files.whole,
            dev=files.dev,
            dev_share=share,
            test=files.test,
            text=files.text,
            text_pair=files.text_pair,
            label=files.label,
            group=files.group,
        )
