"""The temperature that makes probabilities mean what they say, where one was fitted.

Logits are divided by it, which changes no prediction. It is fitted in `diagnostics/calibration.py`
and kept with the task in `bothways.json`; training starts without one.

Source: Guo et al. 2017, section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bothways.errors import CheckpointError


def tempered(log_shares: Tensor, temperature: float | None) -> Tensor:
    """Logarithms of probabilities (..., outcomes) at a temperature; as they are without one."""
    return log_shares if temperature is None else (log_shares / temperature).log_softmax(-1)


def stored_temperature(state: Mapping[str, Any]) -> float | None:
    """The temperature of a task's stored state; None where there is none.

    Raises:
        CheckpointError: when it is no number above 0.
    """
    value = state.get("temperature")
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise CheckpointError(f"the stored temperature is {value!r}; expected a number above 0")
    return float(value)


def temperature_state(temperature: float | None) -> dict[str, float]:
    """What a task's state says of it: nothing where there is none."""
    return {} if temperature is None else {"temperature": temperature}
