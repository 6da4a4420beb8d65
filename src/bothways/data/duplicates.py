"""Near-duplicate texts, by MinHash (Broder 1997) with bands (Leskovec et al. 2014, chapter 3).

A text is the set of its runs of five tokens, or characters. The smallest values of 128 hash
functions over that set are its signature: the share of values that two signatures have in common
estimates how alike the sets are (Jaccard's measure). Texts are compared only if one of 16 bands of
8 values agrees, which at a likeness of 0.8 happens in 95 % of all cases, and at 0.3 in 1 in 1,000.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.data.randomness import mix

SHINGLE = 5
NUM_BANDS, BAND_SIZE = 16, 8
NUM_HASHES = NUM_BANDS * BAND_SIZE
THRESHOLD = 0.8
PAIRS_AT_A_TIME = 1 << 16
MOST_OF_BAND = 20

Signatures = NDArray[np.uint32]


def signatures(texts: Sequence[NDArray[np.uint32]]) -> Signatures:
    """The signature of each text, (texts, NUM_HASHES).

    Args:
        texts: token ids, or code points of characters; at least one each.

    Example:
        >>> one, other = signatures([np.arange(99), np.arange(98)])
        >>> float((one == other).mean()) > 0.9
        True
    """
    if not len(texts):
        return np.empty((0, NUM_HASHES), np.uint32)
    # A text shorter than a run is one run, filled up with what is no token.
    padded = [
        np.concatenate([ids, np.full(max(SHINGLE - len(ids), 0), 2**32 - 1)]).astype(np.uint64)
        for ids in texts
    ]
    tokens = np.concatenate(padded)
    runs = np.zeros(len(tokens) - SHINGLE + 1, np.uint64)
    for place in range(SHINGLE):
        runs = mix(runs + tokens[place : place + len(runs)])
    counts = np.array([len(ids) - SHINGLE + 1 for ids in padded])
    starts = np.cumsum([0] + [len(ids) for ids in padded[:-1]])
    inside = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    runs = runs[inside + np.arange(counts.sum())]
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    factors = mix(np.arange(2 * NUM_HASHES, dtype=np.uint64)).reshape(2, NUM_HASHES)
    result = np.empty((len(texts), NUM_HASHES), np.uint32)
    for index in range(NUM_HASHES):
        values = (runs * (factors[0, index] | np.uint64(1)) + factors[1, index]) >> np.uint64(32)
        result[:, index] = np.minimum.reduceat(values, firsts)
    return result


def near_duplicates(found: Signatures, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """Which texts are much like an earlier one.

    Args:
        found: signatures, in the order of the texts.
        threshold: likeness from which on two texts count as duplicates, 0 to 1.

    Example:
        >>> near_duplicates(signatures([np.arange(99), np.arange(50), np.arange(99)])).tolist()
        [False, False, True]
    """
    duplicate = np.zeros(len(found), np.bool_)
    for band in range(NUM_BANDS):
        _, first, group = np.unique(_key(found, band), return_index=True, return_inverse=True)
        like = first[group]
        rows = np.flatnonzero((like != np.arange(len(found))) & ~duplicate)
        for start in range(0, len(rows), PAIRS_AT_A_TIME):
            some = rows[start : start + PAIRS_AT_A_TIME]
            alike = (found[some] == found[like[some]]).mean(axis=1) >= threshold
            duplicate[some[alike]] = True
    return duplicate


def candidates(
    known: Signatures, new: Signatures, *, most: int = MOST_OF_BAND
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of texts that have a band in common, and so may be alike; each pair once.

    Args:
        known: signatures.
        new: signatures of texts that are compared with those.
        most: of the texts with the same band, how many of the first a text is paired with.

    Returns:
        Indices of new texts and, as many, of known ones.

    Example:
        >>> known = signatures([np.arange(9), np.arange(99)])
        >>> [side.tolist() for side in candidates(known, signatures([np.arange(99)]))]
        [[0], [1]]
    """
    pairs = [np.empty(0, np.int64)]
    for band in range(NUM_BANDS):
        key = _key(known, band)
        order = np.argsort(key, kind="stable")
        wanted = _key(new, band)
        first, last = (np.searchsorted(key[order], wanted, side) for side in ("left", "right"))
        for step in range(min(most, int((last - first).max(initial=0)))):
            rows = np.flatnonzero(first + step < last)
            pairs.append(rows * len(known) + order[first[rows] + step])
    rows, others = np.divmod(np.unique(np.concatenate(pairs)), max(len(known), 1))
    return rows, others


def _key(found: Signatures, band: int) -> NDArray[np.uint64]:
    """One number for the values of a band, of each text."""
    key = np.zeros(len(found), np.uint64)
    for column in range(band * BAND_SIZE, (band + 1) * BAND_SIZE):
        key = mix(key + found[:, column])
    return key
