"""Splits of a data set that do not leak, and the count of what leaked.

A split is a function of the seed and of each example's place, so that it is the same in every run.
Reading is in `readers.py`; the order of training is in `sampling.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from bothways.data.randomness import keyed_random
from bothways.errors import DataError, UsageError

Item = TypeVar("Item")


def split(
    examples: Sequence[Item],
    *,
    dev_share: float,
    seed: int,
    stratify: Sequence[str] | None = None,
    group: Sequence[Hashable] | None = None,
    texts: Sequence[str] | None = None,
) -> tuple[list[Item], list[Item]]:
    """Cuts examples into a train and a dev side, each in the order of the file.

    Args:
        examples: rows, or anything else.
        dev_share: part that goes to dev, between 0 and 1.
        seed: of the choice.
        stratify: a label an example; every label has the same share on both sides, up to
            rounding. A label's only example goes to train. With groups the shares are as near as
            whole groups allow.
        group: a key an example; examples with the same key stay on one side.
        texts: a text an example; examples with the same text stay on one side.

    Returns:
        (train, dev), neither of them empty.

    Raises:
        UsageError: when the share is not between 0 and 1.
        DataError: when one side would be empty.

    Example:
        >>> train, dev = split(list(range(10)), dev_share=0.2, seed=0)
        >>> len(train), len(dev)
        (8, 2)
    """
    if not 0 < dev_share < 1:
        raise UsageError(f"dev_share is {dev_share}; it must be between 0 and 1, as in 0.1")
    labels = stratify if stratify is not None else [""] * len(examples)
    keys = [keys for keys in (group, texts) if keys is not None]
    for column in (labels, *keys):
        if len(column) != len(examples):
            raise UsageError(f"{len(column)} labels, groups or texts for {len(examples)} examples")
    units = _units(len(examples), keys)
    order = keyed_random(seed, use="split").permutation(len(units))
    wanted = _wanted(Counter(labels), dev_share)
    chosen: set[int] = set()
    for unit in order.tolist():
        counts = Counter(labels[index] for index in units[unit])
        # Into dev if that brings the counts nearer to those wanted (sum of squares).
        if sum(count * (count - 2 * wanted[label]) for label, count in counts.items()) < 0:
            wanted.subtract(counts)
            chosen.update(units[unit])
    if not 0 < len(chosen) < len(examples):
        raise DataError(
            f"a dev share of {dev_share} of {len(examples)} examples in {len(units)} groups leaves "
            f"{len(chosen)} for dev; both sides need at least one: change the share, or give the "
            "dev set as a file of its own"
        )
    train = [example for index, example in enumerate(examples) if index not in chosen]
    dev = [example for index, example in enumerate(examples) if index in chosen]
    return train, dev


def duplicates_between(train: Iterable[str], dev: Iterable[str]) -> int:
    """How many dev texts also stand, letter by letter, in train.

    Example:
        >>> duplicates_between(["good", "bad"], ["bad", "bad", "fair"])
        2
    """
    known = set(train)
    return sum(text in known for text in dev)


def _wanted(counts: Counter[str], dev_share: float) -> Counter[str]:
    """Dev examples of each label: rounded so that their sum is right too (largest remainders)."""
    exact = {label: count * dev_share for label, count in counts.items()}
    wanted = Counter({label: int(share) for label, share in exact.items()})
    missing = round(sum(exact.values())) - wanted.total()
    by_remainder = sorted(exact, key=lambda label: (wanted[label] - exact[label], label))
    for label in [label for label in by_remainder if wanted[label] < counts[label] - 1][:missing]:
        wanted[label] += 1
    return wanted


def _units(count: int, keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """What may not be torn apart: examples joined, directly or through others, by equal keys."""
    parent = list(range(count))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for column in keys:
        first: dict[Hashable, int] = {}
        for index, key in enumerate(column):
            here, there = root(index), root(first.setdefault(key, index))
            parent[max(here, there)] = min(here, there)
    units: dict[int, list[int]] = {}
    for index in range(count):
        units.setdefault(root(index), []).append(index)
    return list(units.values())
