"""`keyed_random`: random numbers that are a function of what is written down, and of nothing else.

A use gets its own stream of a (seed, epoch), so that adding one does not shift another.
"""

from __future__ import annotations

import numpy as np

# What random numbers are drawn for. New uses go to the end: the place is part of the key.
USES = ("order", "batches", "split", "sample")


def keyed_random(seed: int, *, epoch: int = 0, use: str) -> np.random.Generator:
    """A generator for one use of one epoch; the same arguments give the same numbers everywhere.

    Philox is counter-based: its state is the key, so nothing has to be stored or replayed.

    Args:
        seed: any integer.
        epoch: from 0.
        use: one of USES.

    Example:
        >>> first = keyed_random(1, use="order").random()
        >>> first == keyed_random(1, use="order").random()
        True
    """
    key = np.array([seed % 2**64, epoch], dtype=np.uint64)
    counter = np.array([0, 0, 0, USES.index(use)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
