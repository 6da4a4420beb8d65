"""The order of training: which examples make which batch of which epoch, as pure functions.

Everything here is a function of (seed, epoch) and the lengths, so a run that resumes makes the
epoch's plan again and slices it: nothing is stored and nothing replayed. Cutting texts to lengths
is the tokenizer's, and cutting a batch for several processes the training loop's. Batches for
prediction are planned in `inference/batches.py`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothways.data.randomness import keyed_random
from bothways.errors import UsageError

Batches: TypeAlias = list[list[int]]
Indices: TypeAlias = NDArray[np.int64]


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """The indices 0 to count - 1, shuffled by (seed, epoch).

    Example:
        >>> sorted(epoch_order(4, seed=1, epoch=0).tolist())
        [0, 1, 2, 3]
    """
    return keyed_random(seed, epoch=epoch, use="order").permutation(count)


def plan_batches(
    lengths: ArrayLike,
    *,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    seed: int,
    epoch: int,
    pool_batches: int = 50,
    group_by_length: bool = True,
    smallest: int = 1,
) -> Batches:
    """The batches of an epoch, in training order; every index stands in exactly one.

    Examples are shuffled, cut into pools of about `pool_batches` batches, sorted by length inside
    each pool and cut into batches, which are then shuffled: a batch holds examples of similar
    length, and which ones is still chance. Inside a batch the shortest stands first, so that
    examples of one length lie together.

    Args:
        lengths: tokens of each example.
        batch_size: examples a batch; the last one cut may have fewer.
        batch_tokens: most tokens of a batch, unless a single example has more.
        seed: of the run.
        epoch: from 0.
        pool_batches: batches a pool.
        group_by_length: without, batches are cut from the shuffled order as it is.
        smallest: batches of fewer examples are joined with the next one, the last with the one
            before.

    Raises:
        UsageError: unless exactly one of batch_size and batch_tokens is given, both at least 1.

    Example:
        >>> plan = plan_batches([5, 9, 5, 8], batch_size=2, seed=0, epoch=0)
        >>> sorted(plan)
        [[0, 2], [3, 1]]
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    budget = batch_size if batch_size is not None else batch_tokens
    if budget is None or (batch_size is not None and batch_tokens is not None):
        raise UsageError("give one of batch_size (examples) and batch_tokens (tokens)")
    for name, value in (("batch size", budget), ("pool_batches", pool_batches)):
        if value < 1:
            raise UsageError(f"the {name} is {value}; it must be at least 1")
    order = epoch_order(len(sizes), seed, epoch)
    costs = np.ones_like(sizes) if batch_size is not None else sizes
    if group_by_length:
        pools = (np.cumsum(costs[order]) - 1) // (budget * pool_batches)
        # Every other pool runs from long to short, so that the batch where two meet is even too.
        direction = np.where(pools % 2 == 0, 1, -1)
        order = order[np.lexsort((sizes[order] * direction, pools))]
    places = np.arange(len(order))
    batch_of = places // budget if batch_size is not None else _cut(costs[order], budget)
    batch_of = _joined(batch_of, smallest)
    order = order[np.lexsort((sizes[order], batch_of))]
    edges = np.flatnonzero(np.diff(batch_of)) + 1
    starts = [0, *edges.tolist()] if len(order) else []
    ends = [*edges.tolist(), len(order)]
    indices = order.tolist()
    batches = [indices[start:end] for start, end in zip(starts, ends, strict=False)]
    if not group_by_length:
        return batches
    shuffled = keyed_random(seed, epoch=epoch, use="batches").permutation(len(batches))
    return [batches[at] for at in shuffled]


def _cut(costs: Indices, budget: int) -> Indices:
    """The batch of each example when consecutive ones are put together up to a budget."""
    total = np.cumsum(costs)
    batch_of = np.empty(len(costs), dtype=np.int64)
    start = batch = 0
    while start < len(costs):
        spent = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, spent + budget, side="right")))
        batch_of[start:end] = batch
        start = end
        batch += 1
    return batch_of


def _joined(batch_of: Indices, smallest: int) -> Indices:
    """The batch of each example when those of too few examples are joined with a neighbour."""
    if smallest == 1 or not len(batch_of):
        return batch_of
    numbers, number, filled = [], -1, smallest
    for count in np.bincount(batch_of).tolist():
        if filled >= smallest:
            number, filled = number + 1, 0
        filled += count
        numbers.append(number)
    joined = np.array(numbers)
    if filled < smallest:
        joined[joined == number] = max(number - 1, 0)
    return joined[batch_of]
