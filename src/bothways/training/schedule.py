"""The learning rate as a pure function of the step.

A schedule takes a step, from 0, and gives a factor on the peak rate. It keeps no state, so a
resumed run needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bothways.errors import UsageError

Schedule = Callable[[int], float]


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
    if steps < 1:
        raise UsageError(f"a schedule over {steps} steps; expected at least 1")
    if not 0.0 <= warmup < 1.0:
        raise UsageError(f"warmup is {warmup}; expected a share of the steps, 0 up to below 1")
    rising = min(math.ceil(warmup * steps), steps - 1)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return max(0.0, (steps - step) / (steps - rising))

    return factor
