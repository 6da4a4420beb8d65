"""What a run measures between two lines of its log, and whether its loss is sound.

Sound is a loss that is finite and no multiple of what it was before. On a CPU every step is looked
at before the weights move. On other devices looking would wait for the device, so losses and norms
stay there until the next line is due; no checkpoint is written before they have been looked at.
Ranks look together and see the same numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bothways.errors import BadStepError
from bothways.training.feed import Feed, StepBatches
from bothways.training.objectives import Objective
from bothways.training.runtime import Runtime

# Steps before a jump means anything, and the share of a new loss in the running mean.
SPIKES_FROM = 50
SHARE_OF_NEW = 0.05


@dataclass(frozen=True)
class Measured:
    """Means since the last line, over all ranks.

    Attributes:
        loss: over the targets; not a number where there was no step.
        tokens: read.
        tokens_per_second: evaluation and checkpoints not counted.
        peak_share: FLOPs a second as a share of what the machine can do; None when not known.
        metrics: the means of the objective's parts, where there are several, and what
            `peak_share` is a share of.
    """

    loss: float
    tokens: int
    tokens_per_second: float
    peak_share: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Taken:
    """A step that has not been looked at."""

    step: int
    batches: StepBatches
    sums: Tensor
    norm: Tensor
    counts: tuple[float, ...]


class Meter:
    """Collects the figures of steps.

    Args:
        objective: knows its parts and the FLOPs of a batch.
        feed: names a batch whose loss is not sound.
        runtime: device and ranks.
        spike: how many times its running mean the loss may be; 0 for any.

    Attributes:
        last_loss: mean loss of the newest step that has been looked at.
        tokens_per_second: of the last line.
        metrics: of the last line.
        usual_loss: running mean of the loss.
        looked_at: steps in it.
    """

    def __init__(
        self, objective: Objective, feed: Feed, runtime: Runtime, *, spike: float = 0.0
    ) -> None:
        self._objective = objective
        self._feed = feed
        self._runtime = runtime
        self._spike = spike
        self._before = 0.0
        self.last_loss: float | None = None
        self.tokens_per_second: float | None = None
        self.metrics: Mapping[str, float] = {}
        self.start()

    def start(self, usual_loss: float | None = None, looked_at: int = 0) -> None:
        """Begin at a checkpoint; steps that have not been looked at are forgotten."""
        self.usual_loss, self.looked_at = usual_loss, looked_at
        self._pending: list[_Taken] = []
        self._begin_line()

    def _begin_line(self) -> None:
        parts = len(self._objective.parts)
        self._sums, self._counts = [0.0] * parts, [0.0] * parts
        self._tokens, self._flops = 0, 0.0
        self._since = time.perf_counter()

    @property
    def busy(self) -> float:
        """Seconds spent in steps so far."""
        return self._before + time.perf_counter() - self._since

    def add(
        self,
        step: int,
        batches: StepBatches,
        sums: Tensor,
        norm: Tensor,
        counts: Sequence[float],
    ) -> None:
        """Take note of a step.

        Args:
            step: from 0.
            batches: what it read.
            sums: this rank's, of each part of the objective.
            norm: of the gradients, all ranks together.
            counts: targets of each part, of all ranks.

        Raises:
            BadStepError: when what is looked at is not sound.
        """
        for micro in batches.micro:
            if micro.counted:
                self._tokens += micro.batch.layout.num_tokens
                self._flops += self._objective.flops(micro.batch)
        self._pending.append(_Taken(step, batches, sums.reshape(-1), norm, tuple(counts)))
        if self._runtime.device.type == "cpu":
            self.look()

    def look(self) -> None:
        """Check the losses and norms of steps that have not been looked at.

        Raises:
            BadStepError: naming the first step where one is not sound, and its batch.
        """
        pending, self._pending = self._pending, []
        if not pending:
            return
        sums = torch.stack([taken.sums for taken in pending]).double()
        norms = torch.stack([taken.norm for taken in pending]).tolist()
        totals = iter(self._runtime.sum(sums.flatten().tolist()))
        for taken, norm in zip(pending, norms, strict=True):
            found = [next(totals) for _ in self._objective.parts]
            loss = self._loss(found, taken.counts)
            self._check(taken, loss, norm)
            self._sums = [a + b for a, b in zip(self._sums, found, strict=True)]
            self._counts = [a + b for a, b in zip(self._counts, taken.counts, strict=True)]
            self.last_loss = loss
            usual = loss if self.usual_loss is None else self.usual_loss
            self.usual_loss = usual + SHARE_OF_NEW * (loss - usual)
            self.looked_at += 1

    def _loss(self, sums: Sequence[float], counts: Sequence[float]) -> float:
        """The weighted sum of the means."""
        means = [total / max(count, 1.0) for total, count in zip(sums, counts, strict=True)]
        parts = zip(self._objective.parts, means, strict=True)
        return sum(part.weight * mean for part, mean in parts if part.weight)

    def _check(self, taken: _Taken, loss: float, norm: float) -> None:
        batch = f"the batch is {self._feed.describe(taken.batches)}"
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise BadStepError(
                f"step {taken.step + 1}: the loss is {loss:g} and the norm of the gradients "
                f"{norm:g}; {batch}; training stopped, earlier checkpoints are untouched: lower "
                "the learning rate, train in fp32, or look at that batch",
                taken.step,
            )
        usual = self.usual_loss
        if not self._spike or usual is None or self.looked_at < SPIKES_FROM:
            return
        if loss > self._spike * usual:
            raise BadStepError(
                f"step {taken.step + 1}: the loss jumped to {loss:.4g}, {loss / usual:.1f} times "
                f"its running mean of {usual:.4g}; {batch}; training stopped, earlier checkpoints "
                "are untouched: lower the learning rate, look at that batch, or leave such steps "
                "out",
                taken.step,
            )

    def take(self) -> Measured:
        """The figures since the last time, and start anew.

        Raises:
            BadStepError: as `look`.
        """
        self.look()
        seconds = max(time.perf_counter() - self._since, 1e-9)
        tokens, flops = self._runtime.sum([float(self._tokens), self._flops])
        peak = self._runtime.matrix_peak if flops else None
        metrics = {} if peak is None else {"peak_flops": peak}
        parts = self._objective.parts
        losses = sum(part.weight > 0.0 for part in parts)
        self.metrics = {
            part.name: total / count
            for part, total, count in zip(parts, self._sums, self._counts, strict=True)
            # The only loss among them is the loss, which has a place of its own.
            if count and not (losses == 1 and part.weight > 0.0)
        }
        measured = Measured(
            loss=self._loss(self._sums, self._counts) if any(self._counts) else math.nan,
            tokens=int(tokens),
            tokens_per_second=tokens / seconds,
            peak_share=None if peak is None else flops / seconds / peak,
            metrics={**self.metrics, **metrics},
        )
        self._before += seconds
        self.tokens_per_second = measured.tokens_per_second
        self._begin_line()
        return measured

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside is not counted as training."""
        start = time.perf_counter()
        yield
        self._since += time.perf_counter() - start
