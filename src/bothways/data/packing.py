"""The order of pretraining: which passages of which documents are read together, and when.

An epoch visits the rows of the shards in an order that is nowhere stored: a keyed bijection gives
the row at each place (`permuted`). The order is cut into windows of 4,096 rows (more where they are
short). Within a window rows that are longer than the model are cut into passages, passages are
sorted by length into packs of a token budget, and the packs are shuffled. So the state is
(epoch, window, offset), and going to any place costs the plan of one window.

A pack is the same for any number of ranks and workers; a step takes one or several. Documents in a
pack do not see each other: each passage becomes a sequence of its own (`sequences.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.data.passages import cut_places
from bothways.data.randomness import keyed_hash, permuted
from bothways.data.shards import Shards
from bothways.errors import UsageError

WINDOW_ROWS = 4096
# A window holds at least so many packs, since its last one is not full.
WINDOW_PACKS = 128


@dataclass(frozen=True)
class Place:
    """Where reading stands: the next pack is number `offset` of a window of an epoch.

    Attributes:
        epoch, window, offset: from 0.
    """

    epoch: int = 0
    window: int = 0
    offset: int = 0

    def cursor(self) -> dict[str, int]:
        """The place as whole numbers by name, for a checkpoint."""
        return {"epoch": self.epoch, "window": self.window, "offset": self.offset}

    @classmethod
    def at(cls, cursor: Mapping[str, int]) -> Place:
        """The place of a cursor; an empty one is the start."""
        return cls(*(cursor.get(name, 0) for name in ("epoch", "window", "offset")))


@dataclass(frozen=True)
class Pack:
    """Passages that are read together, the shortest first.

    Attributes:
        rows: of the shards, one a passage.
        starts, stops: pieces of the row.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.rows)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Pieces of each passage, special ones not counted."""
        return self.stops - self.starts

    def take(self, which: NDArray[np.int64] | slice) -> Pack:
        """Some of the passages."""
        return Pack(self.rows[which], self.starts[which], self.stops[which])

    def split(self, parts: int) -> tuple[Pack, ...]:
        """Parts for ranks, of almost equal tokens: neighbours go to different ones."""
        return tuple(self.take(slice(part, None, parts)) for part in range(parts))


class Packer:
    """Plans the packs of shards.

    Args:
        shards: one split.
        max_length: of a sequence, special pieces included.
        num_special: special pieces around each passage.
        pack_tokens: most tokens of a pack, special ones included.
        seed: of the run.

    Attributes:
        num_windows: of an epoch.

    Raises:
        UsageError: when there is no room for a passage, or a pack is smaller than a sequence.

    Example:
        >>> packer = Packer(
        ...     shards, max_length=128, num_special=2, pack_tokens=4096
        ... )  # doctest: +SKIP
        >>> for pack, next_place in packer.packs(Place()): ...  # doctest: +SKIP
    """

    def __init__(
        self,
        shards: Shards,
        *,
        max_length: int,
        num_special: int,
        pack_tokens: int,
        seed: int = 0,
    ) -> None:
        if max_length <= num_special:
            raise UsageError(
                f"a sequence of {max_length} tokens has no room beside {num_special} special ones; "
                f"expected at least {num_special + 1}"
            )
        if pack_tokens < max_length:
            raise UsageError(
                f"a pack of {pack_tokens} tokens is smaller than a sequence of {max_length}; give "
                "a larger budget or a smaller length"
            )
        self.shards = shards
        self._room = max_length - num_special
        self._num_special = num_special
        self._pack_tokens = pack_tokens
        self._seed = seed
        mean = shards.num_tokens / shards.num_rows + num_special
        windows = math.ceil(WINDOW_PACKS * pack_tokens / (mean * WINDOW_ROWS))
        self._window_rows = WINDOW_ROWS * windows
        self.num_windows = -(-shards.num_rows // self._window_rows)
        self._planned: tuple[tuple[int, int], tuple[Pack, ...]] | None = None

    def count_long(self) -> int:
        """Rows that are longer than a sequence and are read in several passages."""
        count = self.shards.num_rows
        parts = np.array_split(np.arange(count), -(-count // WINDOW_ROWS))
        return sum(int((self.shards.lengths(part) > self._room).sum()) for part in parts)

    def packs(self, place: Place) -> Iterator[tuple[Pack, Place]]:
        """The packs from a place on, each with the place after it; epoch after epoch, endless.

        Args:
            place: of the first; its offset may be that of the window's end.
        """
        while True:
            packs = self.window(place.epoch, place.window)
            for offset in range(place.offset, len(packs)):
                last = offset + 1 == len(packs)
                yield (
                    packs[offset],
                    (self._after(place) if last else Place(place.epoch, place.window, offset + 1)),
                )
            place = self._after(place)

    def epoch(self, epoch: int = 0) -> Iterator[Pack]:
        """The packs of one epoch."""
        for window in range(self.num_windows):
            yield from self.window(epoch, window)

    def window(self, epoch: int, window: int) -> tuple[Pack, ...]:
        """The packs of a window, in order; the last one asked for is remembered."""
        if self._planned is None or self._planned[0] != (epoch, window):
            self._planned = ((epoch, window), self._plan(epoch, window))
        return self._planned[1]

    def _after(self, place: Place) -> Place:
        if place.window + 1 < self.num_windows:
            return Place(place.epoch, place.window + 1)
        return Place(place.epoch + 1)

    def _plan(self, epoch: int, window: int) -> tuple[Pack, ...]:
        count = self.shards.num_rows
        places = np.arange(window * self._window_rows, min((window + 1) * self._window_rows, count))
        rows = permuted(places, count, keyed_hash("order", self._seed, epoch))
        passages = self._passages(rows)
        filled = fill(passages.lengths + self._num_special, self._pack_tokens)
        order = np.argsort(keyed_hash("batches", self._seed, epoch, window, np.arange(len(filled))))
        return tuple(passages.take(filled[index]) for index in order.tolist())

    def _passages(self, rows: NDArray[np.int64]) -> Pack:
        """Rows in pieces that fit the model."""
        lengths = self.shards.lengths(rows)
        short = np.flatnonzero(lengths <= self._room)
        parts = [(rows[short], np.zeros(len(short), np.int64), lengths[short])]
        for row in rows[lengths > self._room].tolist():
            arrays = self.shards.row(row)
            places = np.array(cut_places(arrays.word_starts, arrays.sentence_starts, self._room))
            parts.append((np.full(len(places) - 1, row), places[:-1], places[1:]))
        return Pack(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def fill(lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Sequences in packs: again and again the longest that is left and fits.

    A pack so holds sequences of few different lengths, and short ones fill its end. Inside, the
    shortest stands first.

    Args:
        lengths: of the sequences.
        budget: tokens of a pack; a sequence that is longer stands alone.

    Returns:
        Indices of the sequences of each pack; each sequence is in exactly one.

    Example:
        >>> [pack.tolist() for pack in fill(np.array([3, 5, 2, 4]), 7)]
        [[2, 1], [0, 3]]
    """
    order = np.argsort(lengths, kind="stable")
    sizes, firsts, counts = np.unique(lengths[order], return_index=True, return_counts=True)
    stacks = _Stacks(sizes.tolist(), firsts.tolist(), counts.tolist())
    packs = []
    while stacks.left:
        slices: list[tuple[int, int]] = []
        room = budget
        while (found := stacks.pop(room, alone=not slices)) is not None:
            start, stop, size = found
            slices.append((start, stop))
            room -= size * (stop - start)
        packs.append(np.concatenate([order[start:stop] for start, stop in reversed(slices)]))
    return packs


class _Stacks:
    """Sequences by length; those of one length are a range of the sorted order.

    Args:
        sizes: the lengths there are, increasing.
        firsts, counts: of the range of each.
    """

    def __init__(self, sizes: Sequence[int], firsts: Sequence[int], counts: Sequence[int]) -> None:
        self._ranges = {
            size: [first, first + count]
            for size, first, count in zip(sizes, firsts, counts, strict=True)
        }
        # A bit for each length of which there are some.
        self._there = sum(1 << size for size in sizes)

    @property
    def left(self) -> bool:
        """Whether there is any sequence."""
        return self._there != 0

    def pop(self, room: int, *, alone: bool) -> tuple[int, int, int] | None:
        """As many as fit of the longest that fit: range and length; None when none fits.

        Args:
            room: tokens.
            alone: take the longest of all if it does not fit.
        """
        size = self._there.bit_length() - 1
        if size > room and not alone:
            size = (self._there & ((2 << max(room, 0)) - 1)).bit_length() - 1
        if size < 0:
            return None
        there = self._ranges[size]
        stop = there[1]
        start = max(there[0], stop - max(room // size, 1))
        there[1] = start
        if start == there[0]:
            self._there ^= 1 << size
        return start, stop, size
