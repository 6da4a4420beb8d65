"""What a run measures between two lines of its log: loss, tokens, speed; and that loss is finite.

On a CPU every step is looked at before the weights move. On other devices looking would wait for
the device, so losses and norms stay there until the next line is due; no checkpoint is written
before they have been looked at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from bothways.errors import TrainingError
from bothways.training.feed import Feed, StepBatches
from bothways.training.objectives import Objective
from bothways.training.runtime import Runtime


@dataclass(frozen=True)
class Measured:
    """Means since the last line, over all ranks.

    Attributes:
        loss: over the targets.
        tokens: read.
        tokens_per_second: evaluation and checkpoints not counted.
        peak_share: FLOPs a second as a share of what the machine can do; None when not known.
    """

    loss: float
    tokens: int
    tokens_per_second: float
    peak_share: float | None


class Meter:
    """Collects the figures of steps.

    Args:
        objective: knows the FLOPs of a batch.
        feed: names a batch whose loss is not finite.
        runtime: device and ranks.

    Attributes:
        last_loss: mean loss of the newest step that has been looked at.
        tokens_per_second: of the last line.
    """

    def __init__(self, objective: Objective, feed: Feed, runtime: Runtime) -> None:
        self._objective = objective
        self._feed = feed
        self._runtime = runtime
        self._pending: list[tuple[int, StepBatches, Tensor, Tensor, float]] = []
        self._loss = self._count = self._flops = 0.0
        self._tokens = 0
        self._since = time.perf_counter()
        self._before = 0.0
        self.last_loss: float | None = None
        self.tokens_per_second: float | None = None

    @property
    def busy(self) -> float:
        """Seconds spent in steps so far."""
        return self._before + time.perf_counter() - self._since

    def add(
        self, step: int, batches: StepBatches, loss: Tensor, norm: Tensor, count: float
    ) -> None:
        """Take note of a step.

        Args:
            step: from 0.
            batches: what it read.
            loss: sum of this rank's losses.
            norm: of the gradients, all ranks together.
            count: targets of all ranks.

        Raises:
            TrainingError: when a loss or norm that is looked at is not finite.
        """
        for micro in batches.micro:
            if micro.counted:
                self._tokens += micro.batch.layout.num_tokens
                self._flops += self._objective.flops(micro.batch)
        self._pending.append((step, batches, loss, norm, count))
        if self._runtime.device.type == "cpu":
            self.look()

    def look(self) -> None:
        """Check the losses and norms of steps that have not been looked at.

        Raises:
            TrainingError: naming the first step where one is not finite, and its batch.
        """
        if not self._pending:
            return
        values = torch.stack([torch.stack((loss, norm)) for _, _, loss, norm, _ in self._pending])
        for (step, batches, _, _, count), (loss, norm) in zip(
            self._pending, values.tolist(), strict=True
        ):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise TrainingError(
                    f"step {step + 1}: the loss is {loss:g} and the norm of the gradients "
                    f"{norm:g}; the batch is {self._feed.describe(batches)}; training stopped, "
                    "earlier checkpoints are untouched: lower the learning rate, train in fp32, "
                    "or look at that batch"
                )
            self._loss += loss
            self._count += count
            # Of this rank's part only; a line has the mean over all.
            self.last_loss = loss * self._runtime.num_ranks / max(count, 1.0)
        self._pending.clear()

    def take(self) -> Measured:
        """The figures since the last time, and start anew.

        Raises:
            TrainingError: as `look`.
        """
        self.look()
        seconds = max(time.perf_counter() - self._since, 1e-9)
        loss, tokens, flops = self._runtime.sum([self._loss, float(self._tokens), self._flops])
        share = flops / seconds / self._runtime.matrix_peak if flops else None
        measured = Measured(loss / max(self._count, 1.0), int(tokens), tokens / seconds, share)
        self._before += seconds
        self.tokens_per_second = measured.tokens_per_second
        self._loss = self._count = self._flops = 0.0
        self._tokens = 0
        self._since = time.perf_counter()
        return measured

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside is not counted as training."""
        start = time.perf_counter()
        yield
        self._since += time.perf_counter() - start
