"""Lengths and a token budget to batches; pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bothways.errors import UsageError

# Where a batch's activations stay in a CPU's cache and products are still large; measured in
# benchmarks/embed.py.
CPU_BATCH_TOKENS = 2048
GPU_BATCH_TOKENS = 65_536


def plan_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of texts, batch by batch, longest batch first, shortest text first in each.

    Every index appears once. A batch holds at most `batch_tokens` tokens, or one longer text.
    Going from long to short, the largest memory need shows at once.

    Args:
        lengths: tokens of each text.
        batch_tokens: budget of a batch.

    Raises:
        UsageError: when the budget is below 1.

    Example:
        >>> plan_batches([3, 9, 4, 3], batch_tokens=8)
        [[1], [3, 2], [0]]
    """
    if batch_tokens < 1:
        raise UsageError(f"batch_tokens is {batch_tokens}; it must be at least 1")
    order = np.argsort(np.asarray(lengths, dtype=np.int64), kind="stable")[::-1]
    batches: list[list[int]] = []
    filled = batch_tokens
    for index in order.tolist():
        if filled + lengths[index] > batch_tokens:
            batches.append([])
            filled = 0
        batches[-1].append(index)
        filled += lengths[index]
    return [batch[::-1] for batch in batches]
