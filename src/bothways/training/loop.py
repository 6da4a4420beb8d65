"""The training loop; there is one, for every objective.

A step: count the targets of all its micro-batches on all ranks, run each forward with torch
seeded from (seed, step, micro-step, rank), divide the loss sums by those counts, add up gradients,
clip, move the weights. So the gradient is that of the mean over the step's targets, whatever the
number of micro-batches and ranks, and a step's dropout depends on nothing that came before.

Here too: evaluation at the end of an epoch or every so many steps, the choice of the best
checkpoint, early stopping, going back before a bad step, saving when asked to stop. Not here: what
is minimised (`objectives.py`), which loss is bad (`meter.py`), where batches come from (`feed.py`),
devices and ranks (`runtime.py`).
"""

from __future__ import annotations

import dataclasses
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import torch
from torch import Tensor

from bothways.errors import BadStepError, RunStopped, TrainingError
from bothways.training.feed import Feed, StepBatches
from bothways.training.meter import Measured, Meter
from bothways.training.objectives import Objective
from bothways.training.optim import clip_gradients, set_learning_rate
from bothways.training.recorder import CheckpointSaved, Evaluated, Recorder, StepDone
from bothways.training.runtime import Runtime, seeded
from bothways.training.schedule import Schedule
from bothways.training.state import CheckpointStore, Progress

logger = logging.getLogger(__name__)

Evaluate = Callable[[], dict[str, float]]

# Bad steps that a run may leave out; with more, something other than a batch is wrong.
MOST_SKIPPED = 10


@dataclass(frozen=True)
class LoopPlan:
    """The numbers of a run.

    Attributes:
        steps: of the optimizer.
        schedule: factor on the learning rate, by step.
        seed: of the dropout.
        clip: largest global norm of the gradients; 0 for no limit.
        metric: what the best checkpoint is chosen by, one of the evaluation's names.
        direction: 1 where larger is better, -1 where smaller is.
        patience: evaluations without improvement after which the run ends; 0 for never.
        evaluate_every: steps between evaluations, the last step has one too; 0 for the end of
            each epoch.
        keep_best: whether an evaluation that is better than all before is saved.
        checkpoint_every: steps between checkpoints; 0 for one every `checkpoint_seconds`.
        checkpoint_seconds: used where `checkpoint_every` is 0.
        log_every: steps between lines of metrics.jsonl.
        spike: how many times its running mean the loss may be; 0 for any.
        on_bad_step: what a loss that is not finite, or a spike, does: stop the run, or go back to
            the newest checkpoint and skip the step when it comes again.
        resume_command: what goes on with a run that was asked to stop.
    """

    steps: int
    schedule: Schedule
    seed: int = 0
    clip: float = 1.0
    metric: str = "loss"
    direction: int = -1
    patience: int = 0
    evaluate_every: int = 0
    keep_best: bool = True
    checkpoint_every: int = 0
    checkpoint_seconds: float = 300.0
    log_every: int = 10
    spike: float = 0.0
    on_bad_step: Literal["stop", "skip"] = "stop"
    resume_command: str = "the same command with --resume"


def train(
    objective: Objective,
    *,
    optimizer: torch.optim.Optimizer,
    feed: Feed,
    plan: LoopPlan,
    runtime: Runtime,
    recorder: Recorder,
    store: CheckpointStore | None = None,
    evaluate: Evaluate | None = None,
) -> Progress:
    """Run an objective to its last step, from the newest checkpoint of the store if there is one.

    Args:
        objective: what is minimised; holds everything that learns, on the runtime's device.
        optimizer: over its parameters, with their peak rates as `initial_lr`.
        feed: the batches.
        plan: the numbers of the run.
        runtime: device and ranks.
        recorder: gets lines and events.
        store: keeps checkpoints, the best one among them; None for none.
        evaluate: scores held-out data, `plan.metric` among its names; on all ranks at once.

    Returns:
        Where the run ended. The objective has the weights of the last step, not the best ones.

    Raises:
        BadStepError: when the loss or a gradient is not finite, or the loss jumps, with step and
            batch; unless such steps are skipped and there are few.
        RunStopped: after SIGTERM, when a checkpoint is saved.
    """
    progress = Progress() if store is None else store.restore(objective, optimizer)
    recorder.start(progress.step)
    with StopRequest() as stop:
        loop = _Loop(objective, optimizer, feed, plan, runtime, recorder, store, evaluate, stop)
        return loop.run(progress)


class StopRequest:
    """Notes a SIGTERM instead of dying of it, and puts the old handler back afterwards.

    Python takes signals in the main thread only; in another one nothing is noted.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> StopRequest:
        """Start to listen."""
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.requested = True

    def __exit__(self, *error: object) -> None:
        """Stop listening."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)


@contextmanager
def stopped_at_once(resume_command: str) -> Iterator[None]:
    """A SIGTERM that comes outside of `train` ends the run where it stands.

    Args:
        resume_command: what goes on with it.

    Raises:
        RunStopped: when the signal comes.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise RunStopped(f"the run was asked to stop; go on with: {resume_command}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Loop:
    """A run and what of its state need not be stored."""

    objective: Objective
    optimizer: torch.optim.Optimizer
    feed: Feed
    plan: LoopPlan
    runtime: Runtime
    recorder: Recorder
    store: CheckpointStore | None
    evaluate: Evaluate | None
    stop: StopRequest

    def __post_init__(self) -> None:
        self.module = self.runtime.wrap(self.objective)
        self.parameters = [p for p in self.objective.parameters() if p.requires_grad]
        self.meter = Meter(self.objective, self.feed, self.runtime, spike=self.plan.spike)
        self.saved_at = self.started_at = time.perf_counter()

    def run(self, progress: Progress) -> Progress:
        """Steps until the last one, with bad ones left out where that is asked for."""
        self.spent, self.first = progress.seconds, progress.step
        if self.plan.on_bad_step == "skip" and self.store is not None and not self.store.steps():
            self._save(progress)  # there is something to go back to from the first step on
        while True:
            try:
                return self._steps(progress)
            except BadStepError as error:
                progress = self._go_back(error, progress.skipped)

    def _go_back(self, error: BadStepError, skipped: Sequence[int]) -> Progress:
        """The newest checkpoint, and one more step that is skipped from there on."""
        if self.plan.on_bad_step != "skip" or self.store is None:
            raise error
        if len(skipped) >= MOST_SKIPPED:
            raise TrainingError(
                f"{error}; {len(skipped)} steps were left out before it, so it is not the batches"
            ) from error
        self.optimizer.zero_grad(set_to_none=True)
        progress = self.store.restore(self.objective, self.optimizer)
        logger.warning(
            "%s. Back at step %d; step %d will be left out", error, progress.step, error.step + 1
        )
        self.recorder.start(progress.step)
        return dataclasses.replace(progress, skipped=sorted({*skipped, error.step}))

    def _steps(self, progress: Progress) -> Progress:
        """Steps until the last one, or until it is time to stop."""
        self.meter.start(progress.usual_loss, progress.looked_at)
        self.objective.train()
        for batches in self.feed.steps(progress.cursor):
            if progress.step >= self.plan.steps or progress.stopped_early:
                break
            rate = set_learning_rate(self.optimizer, self.plan.schedule(progress.step))
            counts, stopping, saving = self._agree(batches, progress.step)
            if progress.step not in progress.skipped:
                self._step(batches, progress.step, counts)
            progress = dataclasses.replace(
                progress,
                step=progress.step + 1,
                epoch=batches.epoch + int(batches.ends_epoch),
                cursor=batches.cursor,
                seconds=self.spent + time.perf_counter() - self.started_at,
            )
            stopping = stopping or (self.runtime.num_ranks == 1 and self.stop.requested)
            progress = self._after_step(progress, batches, rate, saving or stopping)
            done, to_do = progress.step - self.first, self.plan.steps - progress.step
            self.recorder.event(
                StepDone(
                    step=progress.step,
                    steps=self.plan.steps,
                    epoch=batches.epoch + 1,
                    loss=self.meter.last_loss,
                    learning_rate=rate,
                    tokens_per_second=self.meter.tokens_per_second,
                    seconds_left=self.meter.busy / done * to_do,
                    metrics=self.meter.metrics,
                )
            )
            if stopping and progress.step < self.plan.steps:
                kept = "is not kept" if self.store is None else "is saved"
                raise RunStopped(
                    f"the run was asked to stop; step {progress.step} of {self.plan.steps} {kept}; "
                    f"go on with: {self.plan.resume_command}"
                )
        return progress

    def _agree(self, batches: StepBatches, step: int) -> tuple[list[float], bool, bool]:
        """What all ranks must know alike before a step: targets, whether to stop, to save."""
        counts = [0.0] * len(self.objective.parts)
        for micro in batches.micro:
            if micro.counted:
                more = self.objective.counts(micro.batch)
                counts = [a + b for a, b in zip(counts, more, strict=True)]
        plan, save = self.plan, False
        if self.store is not None and plan.checkpoint_every:
            save = (step + 1) % plan.checkpoint_every == 0
        elif self.store is not None:
            save = time.perf_counter() - self.saved_at >= plan.checkpoint_seconds
        *counts, stopping, saving = self.runtime.sum(
            [*counts, float(self.stop.requested), float(save)]
        )
        return counts, stopping > 0, saving > 0

    def _step(self, batches: StepBatches, step: int, counts: Sequence[float]) -> None:
        """Gradients of all micro-batches, then one step of the optimizer."""
        runtime = self.runtime
        # Data parallel takes the mean over the ranks; times their number it is the sum.
        factors = torch.tensor(
            [
                part.weight * runtime.num_ranks / max(count, 1.0)
                for part, count in zip(self.objective.parts, counts, strict=True)
            ]
        ).to(runtime.device)
        found = []
        for index, micro in enumerate(batches.micro):
            batch = micro.batch.to(runtime.device)
            last = index + 1 == len(batches.micro)
            with nullcontext() if last else runtime.keep_local(self.module):
                with (
                    seeded(self.plan.seed, step, index, runtime.rank, device=runtime.device),
                    runtime.forward(),
                ):
                    sums: Tensor = self.module(batch).reshape(-1)
                if not micro.counted:
                    sums = sums * 0.0
                torch.autograd.backward((sums * factors).sum())
            found.append(sums.detach())
        norm = clip_gradients(self.parameters, self.plan.clip)
        self.meter.add(step, batches, torch.stack(found).sum(0), norm, counts)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _after_step(
        self, progress: Progress, batches: StepBatches, rate: float, saving: bool
    ) -> Progress:
        """Log, evaluate and save where they are due."""
        plan, step, epoch = self.plan, progress.step, batches.epoch + 1
        last = step == plan.steps
        due = batches.ends_epoch
        if plan.evaluate_every:
            due = last or step % plan.evaluate_every == 0
        evaluating = self.evaluate is not None and due
        if saving or evaluating or last or step % plan.log_every == 0:
            # Before each checkpoint too, so that a resumed run has counted every token.
            measured = self.meter.take()
            progress = dataclasses.replace(
                progress,
                tokens=progress.tokens + measured.tokens,
                usual_loss=self.meter.usual_loss,
                looked_at=self.meter.looked_at,
            )
            self._line("train", progress, epoch, rate, loss=measured.loss, measured=measured)
        with self.meter.paused():
            improved = False
            if evaluating:
                progress, improved = self._evaluate(progress, epoch, rate)
            if (improved and plan.keep_best) or (saving and not last):
                self._save(progress)
        return progress

    def _evaluate(self, progress: Progress, epoch: int, rate: float) -> tuple[Progress, bool]:
        """Score held-out data; whether it is the best so far."""
        assert self.evaluate is not None
        metrics = self.evaluate()
        self.objective.train()
        value, plan = metrics[self.plan.metric], self.plan
        improved = math.isfinite(value) and (
            progress.best is None or (value - progress.best) * plan.direction > 0
        )
        if improved:
            progress = dataclasses.replace(
                progress, best=value, best_step=progress.step, best_metrics=metrics, stale=0
            )
        else:
            progress = dataclasses.replace(progress, stale=progress.stale + 1)
        if 0 < plan.patience <= progress.stale and progress.step < plan.steps:
            progress = dataclasses.replace(progress, stopped_early=True)
        others = {name: score for name, score in metrics.items() if name != "loss"}
        self._line("dev", progress, epoch, rate, loss=metrics.get("loss"), metrics=others)
        best = improved if self.plan.keep_best else None
        self.recorder.event(Evaluated(progress.step, epoch, "dev", metrics, best))
        return progress, improved

    def _line(
        self,
        split: str,
        progress: Progress,
        epoch: int,
        rate: float,
        *,
        loss: float | None,
        measured: Measured | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        self.recorder.line(
            {
                "step": progress.step,
                "epoch": epoch,
                "split": split,
                "loss": loss,
                "learning_rate": rate,
                "tokens": progress.tokens,
                "tokens_per_second": measured.tokens_per_second if measured else None,
                "peak_share": measured.peak_share if measured else None,
                "seconds": progress.seconds,
            },
            measured.metrics if measured else metrics,
        )

    def _save(self, progress: Progress) -> None:
        """A checkpoint, written by the first rank while the others wait, or by all."""
        if self.store is None:
            return
        if self.runtime.is_main or self.store.every_rank:
            folder = self.store.save(self.objective, self.optimizer, progress)
            self.recorder.event(CheckpointSaved(progress.step, folder))
        self.runtime.wait()
        self.saved_at = time.perf_counter()
