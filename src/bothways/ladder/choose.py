"""Choosing: candidates in, the smallest that is good enough out, with the reasons.

Here: the public function and its result. Its steps are in `choice.py` and `ending.py`; what each
asks stands in a file of its own: the data in `dividing.py`, costs in `costs.py`, cheap evidence in
`evidence.py`, runs in `climbing.py`, the rules in `deciding.py`.
"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.errors import UsageError
from bothways.evaluation.result import Report
from bothways.ladder.choice import Choice
from bothways.ladder.dividing import divide
from bothways.ladder.ending import BEST, MODEL, Ending
from bothways.ladder.entries import Entry, cost_of_all
from bothways.ladder.findings import confirmed
from bothways.ladder.settings import ChooseSettings
from bothways.report.write import write_report
from bothways.tasks.task import Task
from bothways.training.examples import new_task
from bothways.training.loop import stopped_at_once
from bothways.training.output import claim_output, resume_command
from bothways.training.recorder import OnEvent
from bothways.training.runtime import Runtime

# What a choice leaves, and one that replaces it begins by deleting.
LEFT = ("rungs", MODEL, BEST)


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
    direction = _direction(settings, new_task(settings.finetuning("candidate", settings.output)))
    common = settings.common
    runtime = Runtime(device=common.device, precision=common.precision, threads=common.threads)
    if runtime.num_ranks > 1:
        raise UsageError(
            f"choosing measures times, on which {runtime.num_ranks} processes would not agree; run "
            "it in one, without a launcher"
        )
    claim_output(settings, runtime, [])
    if settings.overwrite:
        for name in LEFT:
            shutil.rmtree(settings.output / name, ignore_errors=True)
    with stopped_at_once(resume_command(settings.output, "choose")):
        divided = divide(settings, new_task(settings.finetuning("candidate", settings.output)))
        # Which metrics there are may be up to the data.
        direction = _direction(settings, divided.splits.task)
        choice = Choice(settings, divided, direction, runtime, on_event)
        choice.gather()
        choice.measure()
        choice.limit()
        choice.weigh()
        bar = choice.bar()
        choice.climb(bar)
        ending = Ending(choice, bar)
        report = ending.report()
        write_report(report, settings.output)
    return ChooseResult(
        folder=settings.output,
        chosen=ending.best.source if ending.is_chosen else None,
        target_met=ending.is_chosen and confirmed(report.metrics[bar.metric], bar),
        best=ending.best.source,
        model=ending.folder,
        entries=tuple(choice.entries),
        report=report,
        spent_seconds=choice.memory.spent,
        all_seconds=cost_of_all(choice.entries),
    )


def _direction(settings: ChooseSettings, task: Task[Any]) -> int:
    """1 where more of the target's metric is better, -1 where less is.

    Raises:
        UsageError: when the task has no such metric; those that it has are listed.
    """
    metric, known = settings.wanted[0], task.metric_directions
    if metric not in known:
        listed = ", ".join(f"{name} ({'+' if known[name] > 0 else '-'})" for name in known)
        raise UsageError(
            f"--target names {metric!r}, which {task.name} does not have; it has, with + where "
            f"more is better: {listed}"
        )
    return known[metric]
