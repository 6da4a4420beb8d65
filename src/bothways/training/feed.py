"""Batches of a run, step by step, from any point of it.

A feed is asked for the steps after a cursor and hands each one out with the cursor behind it, so
that a checkpoint stores a few numbers and a resumed run replays nothing. Order is a function of
(seed, epoch), decided by the plan that the feed is given; how lengths become batches is in
`data/sampling.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from bothways.model.layout import Batch

# What a feed needs to go on: a few whole numbers, stored as JSON.
Cursor = Mapping[str, int]


@dataclass(frozen=True)
class MicroBatch:
    """What one forward and backward pass reads.

    Attributes:
        batch: the tokens and targets.
        counted: False for a stand-in, which a rank that has nothing left runs for the others'
            sake; its loss and its targets count as nothing.
    """

    batch: Batch
    counted: bool = True


@dataclass(frozen=True)
class StepBatches:
    """What one step of the optimizer reads on one rank.

    Attributes:
        micro: as many on every rank.
        epoch: which pass over the data it belongs to, from 0.
        ends_epoch: whether the next step belongs to another one.
        cursor: where the next step starts.
    """

    micro: tuple[MicroBatch, ...]
    epoch: int
    ends_epoch: bool
    cursor: Cursor


class Feed(Protocol):
    """A source of steps."""

    def steps(self, cursor: Cursor) -> Iterator[StepBatches]:
        """The steps from a cursor on; an empty cursor is the start."""
        ...

    def describe(self, batches: StepBatches) -> str:
        """Names what a step reads, for an error message."""
        ...


class Ahead:
    """The steps of another feed, made by a thread while the step before is computed.

    Args:
        feed: draws nothing from torch's global generator.
        ahead: steps that wait at most, at least 1.
    """

    def __init__(self, feed: Feed, ahead: int) -> None:
        self._feed = feed
        self._ahead = ahead

    def describe(self, batches: StepBatches) -> str:
        """As the other feed."""
        return self._feed.describe(batches)

    def steps(self, cursor: Cursor) -> Iterator[StepBatches]:
        """The same steps; what goes wrong while one is made is raised where it is asked for."""
        steps = self._feed.steps(cursor)
        with ThreadPoolExecutor(1) as pool:  # one thread: a step is made after the one before
            waiting = deque(pool.submit(next, steps, None) for _ in range(self._ahead))
            while (batches := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, steps, None))
                yield batches


class ExampleFeed:
    """Steps over a list of examples that is in memory.

    A step's examples do not depend on the number of ranks or micro-batches: they are cut into as
    many parts as there are of both together, neighbours (which have about the same length) going
    to different ranks.

    Args:
        make_batch: a batch of the examples with these indices.
        plan: the steps of an epoch, each a list of indices.
        epochs: passes over the data.
        micro_batches: parts that a rank reads one after another.
        rank: which rank this is.
        num_ranks: how many there are.
    """

    def __init__(
        self,
        make_batch: Callable[[Sequence[int]], Batch],
        plan: Callable[[int], Sequence[Sequence[int]]],
        *,
        epochs: int,
        micro_batches: int = 1,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._make_batch = make_batch
        self._plan = plan
        self._epochs = epochs
        self._micro_batches = micro_batches
        self._rank = rank
        self._num_ranks = num_ranks

    @property
    def num_steps(self) -> int:
        """Steps of all epochs."""
        return sum(len(self._plan(epoch)) for epoch in range(self._epochs))

    def steps(self, cursor: Cursor) -> Iterator[StepBatches]:
        """The steps from {"epoch": e, "step": s} on, s counting within the epoch."""
        first, start = cursor.get("epoch", 0), cursor.get("step", 0)
        for epoch in range(first, self._epochs):
            plan = self._plan(epoch)
            for step in range(start, len(plan)):
                ends = step + 1 == len(plan)
                after = {"epoch": epoch + ends, "step": 0 if ends else step + 1}
                yield StepBatches(self._micro(plan[step]), epoch, ends, after)
            start = 0

    def _micro(self, indices: Sequence[int]) -> tuple[MicroBatch, ...]:
        # No more parts than examples: an empty one costs a forward pass all the same.
        count = min(self._micro_batches, -(-len(indices) // self._num_ranks))
        parts = split_evenly(indices, count * self._num_ranks)
        mine = [parts[index * self._num_ranks + self._rank] for index in range(count)]
        return tuple(
            MicroBatch(self._make_batch(part or indices[:1]), counted=bool(part)) for part in mine
        )

    def describe(self, batches: StepBatches) -> str:
        """The numbers of the examples that a step reads on this rank."""
        read: dict[int, None] = {}
        for micro in batches.micro:
            if micro.counted:
                read.update((source.example, None) for source in micro.batch.sources)
        return "examples " + ", ".join(str(index) for index in read) if read else "no examples"


def split_evenly(indices: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Consecutive parts whose sizes differ by at most one; some are empty when too few.

    Example:
        >>> split_evenly([5, 6, 7, 8, 9], 3)
        [[5, 6], [7, 8], [9]]
    """
    size, more = divmod(len(indices), parts)
    bounds = [part * size + min(part, more) for part in range(parts + 1)]
    return [indices[low:high] for low, high in pairwise(bounds)]
