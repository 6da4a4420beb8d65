"""Epochs that read as many texts of each label: rare ones again, frequent ones in turn.

An epoch has as many texts as the data; which ones is a function of (seed, epoch). Weighing the loss
instead is in `tasks/label_losses.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.data.randomness import keyed_random


def members(labels: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """The places of each label, labels sorted."""
    given = np.asarray(labels)
    return {label: np.flatnonzero(given == label) for label in sorted(set(labels))}


def copies(labels: Sequence[str]) -> list[int]:
    """Every text, and those of rare labels so often that an equal share can be drawn of each.

    A text that is read twice in an epoch is two examples, so that no batch takes it for windows of
    one.

    Example:
        >>> copies(["a", "a", "a", "b"])
        [0, 1, 2, 3, 3]
    """
    places = members(labels)
    share = -(-len(labels) // len(places))
    found = list(range(len(labels)))
    for some in places.values():
        missing = max(share - len(some), 0)
        found += np.resize(some, missing).tolist()
    return found


def balanced_epoch(labels: Sequence[str], count: int, *, seed: int, epoch: int) -> list[int]:
    """Which texts an epoch reads: an equal number of each label, one more of some.

    Args:
        labels: of all texts, copies among them.
        count: texts of an epoch.
        seed: of the run.
        epoch: from 0.
    """
    places = members(labels)
    random = keyed_random(seed, epoch=epoch, use="balance")
    share, more = divmod(count, len(places))
    lucky = set(random.permutation(len(places))[:more].tolist())
    found: list[int] = []
    for number, some in enumerate(places.values()):
        found += random.permutation(some)[: share + (number in lucky)].tolist()
    return sorted(found)
