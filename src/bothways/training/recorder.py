"""What a run leaves behind while it goes: lines in metrics.jsonl, events, trackers.

The command line draws its progress from the events; the library itself prints nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bothways.errors import CheckpointError, MissingExtraError, UsageError, nearest
from bothways.files import write_text

# The keys of every line, in this order; metrics follow by their names.
LINE_KEYS = (
    "step",
    "epoch",
    "split",
    "loss",
    "learning_rate",
    "tokens",
    "tokens_per_second",
    "peak_share",
    "seconds",
)


@dataclass(frozen=True)
class RunStarted:
    """A run begins, or goes on.

    Attributes:
        run: its name among the runs of the command.
        run_number, num_runs: which one of how many, from 1.
        step: steps done already, above 0 when resumed.
        steps: of the whole run.
        epochs: passes over the data; 0 where there is no such thing.
    """

    run: str
    run_number: int
    num_runs: int
    step: int
    steps: int
    epochs: int


@dataclass(frozen=True)
class StepDone:
    """The optimizer has taken a step.

    Attributes:
        step: steps done.
        steps: of the whole run.
        epoch: from 1.
        loss: mean over the targets since the last line, as far as it is known.
        learning_rate: of this step.
        tokens_per_second: since the last line.
        seconds_left: expected until the last step, evaluation not counted.
        metrics: other means since the last line, by name.
    """

    step: int
    steps: int
    epoch: int
    loss: float | None
    learning_rate: float
    tokens_per_second: float | None
    seconds_left: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluated:
    """Held-out data has been scored.

    Attributes:
        step: steps done.
        epoch: from 1.
        split: dev or test.
        metrics: by name, loss among them.
        is_best: whether it is the best so far; None where nothing is chosen by it.
    """

    step: int
    epoch: int
    split: str
    metrics: Mapping[str, float]
    is_best: bool | None


@dataclass(frozen=True)
class CheckpointSaved:
    """The run can go on from here."""

    step: int
    folder: Path


@dataclass(frozen=True)
class RunFinished:
    """A run has ended.

    Attributes:
        run: its name.
        step: steps done.
        seconds: of the run, all its parts together.
        stopped_early: whether it ended before its last step.
    """

    run: str
    step: int
    seconds: float
    stopped_early: bool


Event = RunStarted | StepDone | Evaluated | CheckpointSaved | RunFinished
OnEvent = Callable[[Event], None]


class Recorder:
    """Writes the lines of one run and passes its events on.

    Args:
        path: metrics.jsonl; None writes nothing (ranks other than the first).
        on_event: called with every event.
        trackers: names that accelerate knows: tensorboard, wandb, trackio, mlflow.
        run: the run's name for the trackers.

    Raises:
        UsageError: when a tracker is not known.
        MissingExtraError: when its library is not installed.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        on_event: OnEvent | None = None,
        trackers: tuple[str, ...] = (),
        run: str = "",
    ) -> None:
        self._path = path
        self._on_event = on_event
        folder = path.parent if path is not None else Path()
        self._trackers = [_tracker(name, run, folder) for name in trackers] if path else []

    def start(self, step: int = 0) -> None:
        """Keep the lines of an earlier part up to a step, and drop what came after it.

        A killed run may have written lines beyond its last checkpoint; those steps come again.
        """
        if self._path is None:
            return
        kept = []
        if step and self._path.exists():
            kept = [line for line in _whole_lines(self._path) if json.loads(line)["step"] <= step]
        write_text(self._path, "".join(line + "\n" for line in kept))

    def line(self, values: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """Write one line and flush it.

        Args:
            values: some of `LINE_KEYS`; the others are null.
            metrics: further keys.

        Raises:
            CheckpointError: when it cannot be written.
        """
        if self._path is None:
            return
        record = {key: values.get(key) for key in LINE_KEYS} | dict(metrics or {})
        for key, value in record.items():
            if isinstance(value, float) and not math.isfinite(value):
                record[key] = None  # JSON has no word for it
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise CheckpointError(
                f"{self._path} cannot be written: {error.strerror}; earlier checkpoints are "
                "intact: make room and go on with --resume"
            ) from error
        for tracker in self._trackers:
            numbers = {
                f"{record['split']}/{key}": value
                for key, value in record.items()
                if key not in ("step", "split") and value is not None
            }
            tracker.log(numbers, step=record["step"])

    def event(self, event: Event) -> None:
        """Pass an event on."""
        if self._on_event is not None:
            self._on_event(event)

    def close(self) -> None:
        """Tell the trackers that the run is over."""
        for tracker in self._trackers:
            tracker.finish()


def _whole_lines(path: Path) -> list[str]:
    """Lines of a file but the last one where a kill has cut it short."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that are not known or not installed.

    Args:
        names: as `Recorder` takes them.

    Raises:
        UsageError: for a name that is not known.
        MissingExtraError: when its library is not installed.
    """
    if not names:
        return
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    here = [str(getattr(known, "value", known)) for known in get_available_trackers()]
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            hint = nearest(name, LOGGER_TYPE_TO_CLASS)
            raise UsageError(f"--track: no tracker is called {name!r}; {hint}")
        if name not in here:
            raise MissingExtraError(name, "track")


def _tracker(name: str, run: str, folder: Path) -> Any:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    check_trackers([name])
    kind = LOGGER_TYPE_TO_CLASS[name]
    tracker = kind(run, logging_dir=str(folder)) if kind.requires_logging_directory else kind(run)
    tracker.start()
    return tracker
