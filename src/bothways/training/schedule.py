"""The learning rate and the size of a step as pure functions of the step.

A schedule takes a step, from 0, and gives a factor on the peak. It keeps no state, so a resumed
run needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from bothways.errors import UsageError

Schedule = Callable[[int], float]
ScheduleName = Literal["linear", "cosine", "trapezoid"]


def linear(*, steps: int, warmup: float = 0.06) -> Schedule:
    """Warm up in a line, then decay in a line to 0 at the step after the last.

    No step is wasted on a rate of 0: the first one has 1/n of the peak, n being the steps of the
    warm-up, and the last one has a rate above 0.

    Args:
        steps: of the whole run.
        warmup: share of the steps that warm up, in [0, 1).

    Raises:
        UsageError: when `warmup` or `steps` is out of range.

    Example:
        >>> rate = linear(steps=10, warmup=0.2)
        >>> [rate(step) for step in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.125]
    """
    return _shaped(steps, warmup, lambda left: left)


def cosine(*, steps: int, warmup: float = 0.06) -> Schedule:
    """Warm up in a line, then decay along half a cosine to 0 at the step after the last.

    Args:
        steps, warmup: as in `linear`.

    Raises:
        UsageError: as `linear`.

    Source: Loshchilov and Hutter 2017, without restarts.
    """
    return _shaped(steps, warmup, lambda left: 0.5 - 0.5 * math.cos(math.pi * left))


def trapezoid(*, steps: int, warmup: float = 0.06, decay: float = 0.2) -> Schedule:
    """Warm up in a line, stay at the peak, decay in a line at the end.

    A run that is to last longer goes on from a checkpoint before the decay.

    Args:
        steps, warmup: as in `linear`.
        decay: share of the steps that decay, in (0, 1 - warmup].

    Raises:
        UsageError: as `linear`, and when `decay` is out of range.

    Source: Zhai et al. 2022; called warm-up, stable, decay by Hu et al. 2024.
    """
    if not 0.0 < decay <= 1.0:
        raise UsageError(f"decay is {decay}; expected a share of the steps, above 0 up to 1")
    if 0.0 <= warmup < 1.0 < warmup + decay:
        raise UsageError(f"warmup {warmup} and decay {decay} are more than the whole run")
    # Of what is left after the warm-up; where that is no share, `_shaped` says so.
    falling = decay / max(1.0 - warmup, decay)
    return _shaped(steps, warmup, lambda left: min(1.0, left / falling))


def _shaped(steps: int, warmup: float, fall: Callable[[float], float]) -> Schedule:
    """A line up, then `fall` of the share of the remaining steps that is left, from 1 to 0."""
    if steps < 1:
        raise UsageError(f"a schedule over {steps} steps; expected at least 1")
    if not 0.0 <= warmup < 1.0:
        raise UsageError(f"warmup is {warmup}; expected a share of the steps, 0 up to below 1")
    rising = min(math.ceil(warmup * steps), steps - 1)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return fall(max(0.0, (steps - step) / (steps - rising)))

    return factor


def batch_ramp(*, steps: int, ramp: float = 0.0, start: float = 0.25) -> Schedule:
    """Share of the full batch that a step reads: from `start` in a line to 1.

    Small batches at the beginning, where gradients agree most, save text and time.

    Args:
        steps: of the whole run.
        ramp: share of the steps over which the batch grows, in [0, 1]; 0 for full ones throughout.
        start: share of the full batch at the first step, in (0, 1].

    Raises:
        UsageError: when `ramp` or `start` is out of range.

    Source: Smith et al. 2018.

    Example:
        >>> size = batch_ramp(steps=10, ramp=0.4, start=0.2)
        >>> [round(size(step), 1) for step in (0, 1, 4, 9)]
        [0.2, 0.4, 1.0, 1.0]
    """
    if not 0.0 <= ramp <= 1.0 or not 0.0 < start <= 1.0:
        raise UsageError(
            f"the batch ramp is {ramp} of the steps from {start} of the batch; expected 0 to 1, "
            "and above 0 up to 1"
        )
    growing = ramp * steps

    def share(step: int) -> float:
        return 1.0 if step >= growing else start + (1.0 - start) * step / growing

    return share


def make_schedule(
    name: ScheduleName, *, steps: int, warmup: float = 0.06, decay: float = 0.2
) -> Schedule:
    """The schedule of that name.

    Args:
        name: its shape.
        steps, warmup: as in `linear`.
        decay: for the trapezoid.

    Raises:
        UsageError: as the schedules.
    """
    if name == "trapezoid":
        return trapezoid(steps=steps, warmup=warmup, decay=decay)
    shapes = {"linear": linear, "cosine": cosine}
    return shapes[name](steps=steps, warmup=warmup)
