"""Training events as a person sees them: a bar with loss, speed and time left, and a line a score.

All on standard error. Where nobody watches (no terminal), the bar becomes a line now and then.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bothways.errors import counted
from bothways.training.recorder import (
    Evaluated,
    Event,
    OnEvent,
    RunFinished,
    RunStarted,
    StepDone,
)

if TYPE_CHECKING:
    from rich.progress import Progress

logger = logging.getLogger(__name__)

# Without a terminal, a line every so many seconds.
QUIET_SECONDS = 30.0


@contextmanager
def follow(*, quiet_seconds: float = QUIET_SECONDS) -> Iterator[OnEvent]:
    """A function for `on_event` that shows what happens.

    Args:
        quiet_seconds: without a terminal, how often steps are told.
    """
    if not sys.stderr.isatty():
        yield _Lines(quiet_seconds)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        yield _Bar(bar)


class _Bar:
    """Draws the steps as a bar, and the rest as lines above it."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.job = bar.add_task("", total=None, told="")

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepDone):
            self.bar.update(
                self.job, completed=event.step, total=event.steps, told=_step_words(event)
            )
            return
        if isinstance(event, RunStarted):
            told = event.run if event.num_runs > 1 else "training"
            self.bar.reset(self.job, total=event.steps, completed=event.step, description=told)
        words = _words(event)
        if words:
            self.bar.console.print(words, markup=False, highlight=False)


class _Lines:
    """Logs what `_Bar` draws, steps only now and then."""

    def __init__(self, quiet_seconds: float) -> None:
        self.quiet_seconds = quiet_seconds
        self.last = time.monotonic()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepDone):
            if time.monotonic() - self.last >= self.quiet_seconds:
                self.last = time.monotonic()
                logger.info("%s", _step_words(event))
            return
        words = _words(event)
        if words:
            logger.info("%s", words)


def _step_words(event: StepDone) -> str:
    parts = [f"epoch {event.epoch}"] if event.epoch else []
    parts.append(f"{event.step}/{event.steps}")
    if event.loss is not None:
        parts.append(f"loss {event.loss:.3f}")
    parts += [f"{name} {value:.3f}" for name, value in event.metrics.items()]
    if event.tokens_per_second is not None:
        parts.append(f"{event.tokens_per_second:,.0f} tokens/s")
    if event.seconds_left is not None:
        parts.append(f"{_clock(event.seconds_left)} left")
    return "  ".join(parts)


def _words(event: Event) -> str | None:
    match event:
        case RunStarted(run, number, runs, step, steps, _):
            resumed = f", resumed at step {step}" if step else ""
            which = f"run {number} of {runs} ({run}): " if runs > 1 else ""
            return f"{which}{counted(steps, 'step')}{resumed}"
        case Evaluated(step, epoch, split, metrics, is_best):
            scores = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            best = "  (best so far)" if is_best else ""
            where = f"epoch {epoch}, step {step}" if epoch else f"step {step}"
            return f"{where}, {split}: {scores}{best}"
        case RunFinished(_, step, seconds, early):
            why = ", stopped early" if early else ""
            return f"{counted(step, 'step')} in {_clock(seconds)}{why}"
        case _:
            return None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
