"""Random numbers that are a function of what is written down, and of nothing else.

`keyed_random` is a generator for one use of a (seed, epoch), so that adding a use does not shift
another. `keyed_hash` gives each of many things a number of its own, whatever else is asked for at
the same time: what happens to a text is then the same in any batch, on any worker, in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Hashes = NDArray[np.uint64]

# What random numbers are drawn for. New uses go to the end: the place is part of the key.
# New uses come last: the place of a use is a part of its key.
USES = (
    "order",
    "batches",
    "split",
    "sample",
    "masks",
    "pairs",
    "negatives",
    "balance",
    "curve",
    "few-shot",
)


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


def keyed_hash(use: str, *keys: ArrayLike) -> Hashes:
    """A number for each combination of keys, as good as random and always the same.

    Args:
        use: one of USES.
        keys: whole numbers or arrays of them, that broadcast; the last changes fastest.

    Returns:
        An array, of one number where all keys are numbers.

    Example:
        >>> keyed_hash("masks", 7, 0, [12, 13]).shape
        (2,)
    """
    result = np.full(1, USES.index(use), np.uint64)
    for key in keys:
        result = mix(result + _GOLDEN * (_whole(key) + np.uint64(1)))
    return result


def mix(values: Hashes) -> Hashes:
    """Scatter whole numbers over all 64 bits; one to one (SplitMix64, Steele et al. 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def to_unit(hashes: Hashes) -> NDArray[np.float64]:
    """Hashes as numbers from 0 to 1, 1 excluded."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def to_range(hashes: Hashes, count: int) -> NDArray[np.int64]:
    """Hashes as whole numbers from 0 to count - 1; count is below 2**32."""
    return (((hashes >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def permuted(places: ArrayLike, count: int, key: Hashes) -> NDArray[np.int64]:
    """Which of `count` things stands at each place of a shuffled order that is nowhere stored.

    A Feistel network over the smallest even number of bits that holds them, walked along until the
    result is below count (Black and Rogaway 2002).

    Args:
        places: 0 to count - 1.
        count: of things.
        key: one number; each gives another order.

    Example:
        >>> sorted(permuted(range(5), 5, keyed_hash("order", 1, 0)).tolist())
        [0, 1, 2, 3, 4]
    """
    half = np.uint64(max((max(count - 1, 1).bit_length() + 1) // 2, 1))
    low = (np.uint64(1) << half) - np.uint64(1)
    values = np.atleast_1d(np.asarray(places, np.uint64)).copy()
    walking = np.arange(len(values))
    while len(walking):
        left, right = values[walking] >> half, values[walking] & low
        for turn in range(_TURNS):
            left, right = right, left ^ (keyed_hash("order", key, turn, right) & low)
        values[walking] = (left << half) | right
        walking = walking[values[walking] >= count]
    return values.astype(np.int64)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TURNS = 6


def _whole(key: ArrayLike) -> Hashes:
    """Whole numbers of any sign and size, as 64 bits."""
    if isinstance(key, int):
        return np.full(1, key % 2**64, np.uint64)
    return np.atleast_1d(np.asarray(key)).astype(np.uint64)
