"""The geometry of a batch: where each sequence lies, in one of two forms.

Packed: one row of tokens, sequence after sequence, nothing padded. Rectangular: (batch, length)
with a mask of what is kept, flattened to one row of batch * length tokens. Hidden states are
(tokens, hidden) in both. Positions, attention, convolution and pooling ask the layout; nothing
else needs to know which form it is. Here too: `Batch`, the tokens that go with a layout.

Dimension letters: T tokens, N sequences, B batch, L length, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bothways.errors import ConfigError

Owner = TypeVar("Owner")
Made = TypeVar("Made")


class _Once(Generic[Owner, Made]):
    """A property that is worked out at first use, in a form that everything can use.

    `functools.cached_property` takes a lock in Python 3.11, which a compiled graph cannot hold.
    Index tensors first asked for in inference mode would be closed to autograd, so they are made
    outside of it.
    """

    def __init__(self, make: Callable[[Owner], Made]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Owner, owner: type | None = None) -> Made:
        if torch.compiler.is_compiling():
            made = self.make(instance)
        else:
            with torch.inference_mode(mode=False):
                made = self.make(instance)
        instance.__dict__[self.name] = made
        return made


@dataclass(frozen=True)
class Group:
    """Sequences of one length in a packed row.

    Attributes:
        length: tokens in each.
        sequences: their indices in the batch, increasing.
        start: first token, when they lie one after another.
        index: (count * length,) token indices, when they do not.
    """

    length: int
    sequences: tuple[int, ...]
    start: int
    index: Tensor | None

    def take(self, rows: Tensor) -> Tensor:
        """Rows of a (T, ...) tensor as (count, length, ...); a view where possible."""
        count = len(self.sequences)
        if self.index is None:
            part = rows[self.start : self.start + count * self.length]
        else:
            part = rows.index_select(0, self.index)
        return part.view(count, self.length, *rows.shape[1:])


class Layout:
    """Lengths, starts, positions and groups of a batch.

    Make one with `Layout.packed(lengths)` or `Layout.rectangular(mask)`.

    Attributes:
        mask: (B, L), True where a token is kept; None in packed form.
        shape: (B, L) of the rectangle; None in packed form.
        device: where the index tensors lie.
    """

    def __init__(
        self,
        lengths: tuple[int, ...] | None,
        mask: Tensor | None,
        device: torch.device,
    ) -> None:
        self._lengths = lengths
        self.mask = mask
        self.device = device
        self.shape: tuple[int, int] | None = None
        if mask is not None:
            self.shape = (mask.shape[0], mask.shape[1])

    @classmethod
    def packed(cls, lengths: Sequence[int], device: torch.device | str = "cpu") -> Layout:
        """One row of tokens, nothing padded.

        Raises:
            ConfigError: when a length is below 1, with its index.
        """
        wrong = {index: length for index, length in enumerate(lengths) if length < 1}
        if wrong or not lengths:
            raise ConfigError(f"a layout needs sequences of at least one token; got {wrong or []}")
        return cls(tuple(int(length) for length in lengths), None, torch.device(device))

    @classmethod
    def rectangular(cls, mask: Tensor) -> Layout:
        """A rectangle with a mask of kept tokens: any pattern, left or right padded.

        Args:
            mask: (B, L), true or nonzero where a token is kept.
        """
        if mask.dim() != 2:
            raise ConfigError(f"a mask has shape (batch, length); got {tuple(mask.shape)}")
        return cls(None, mask.bool(), mask.device)

    @property
    def is_packed(self) -> bool:
        """Whether nothing is padded."""
        return self.mask is None

    @_Once
    def lengths(self) -> tuple[int, ...]:
        """Kept tokens of each sequence."""
        if self._lengths is not None:
            return self._lengths
        assert self.mask is not None
        return tuple(int(n) for n in self.mask.sum(1).tolist())

    @property
    def num_sequences(self) -> int:
        """How many sequences there are."""
        return len(self.lengths) if self.shape is None else self.shape[0]

    @_Once
    def num_tokens(self) -> int:
        """Rows of a hidden-state tensor, padding of the rectangle included."""
        return sum(self.lengths) if self.shape is None else self.shape[0] * self.shape[1]

    @_Once
    def longest(self) -> int:
        """The largest position + 1 that can occur."""
        return max(self.lengths) if self.shape is None else self.shape[1]

    @_Once
    def starts(self) -> Tensor:
        """(N + 1,) offset of each packed sequence and the end of the last, int32."""
        return torch.tensor(self._starts, dtype=torch.int32, device=self.device)

    @_Once
    def _starts(self) -> tuple[int, ...]:
        return (0, *accumulate(self.lengths))

    @_Once
    def positions(self) -> Int[Tensor, " T"]:
        """Index of each token in its own sequence, counting kept tokens only."""
        if self.mask is not None:
            return (self.mask.long().cumsum(1) - 1).clamp(min=0).flatten()
        lengths = torch.tensor(self.lengths)
        offsets = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return (torch.arange(len(offsets)) - offsets).to(self.device)

    @_Once
    def sequence_of_token(self) -> Int[Tensor, " T"]:
        """Which sequence each token belongs to."""
        if self.shape is not None:
            batch, length = self.shape
            return torch.arange(batch, device=self.device).repeat_interleave(length)
        counts = torch.tensor(self.lengths)
        return torch.arange(len(self.lengths)).repeat_interleave(counts).to(self.device)

    @_Once
    def first_index(self) -> Int[Tensor, " N"]:
        """Token index of each sequence's first kept token."""
        if self.mask is not None:
            batch, length = self.mask.shape
            first = self.mask.long().argmax(1)
            return first + torch.arange(batch, device=self.device) * length
        return self.starts[:-1].long()

    @_Once
    def groups(self) -> tuple[Group, ...]:
        """Packed sequences by length, shortest first; contiguous ones are taken without a copy."""
        members: dict[int, list[int]] = {}
        for sequence, length in enumerate(self.lengths):
            members.setdefault(length, []).append(sequence)
        groups = []
        for length, sequences in sorted(members.items()):
            run = sequences[-1] - sequences[0] + 1 == len(sequences)
            index = None
            if not run:
                first = torch.tensor([self._starts[s] for s in sequences])
                index = (first[:, None] + torch.arange(length)[None]).flatten().to(self.device)
            groups.append(Group(length, tuple(sequences), self._starts[sequences[0]], index))
        return tuple(groups)

    @_Once
    def _group_order(self) -> Tensor | None:
        """Inverse permutation from grouped token order to the packed row; None when equal."""
        parts = []
        for group in self.groups:
            if group.index is None:
                parts.append(torch.arange(len(group.sequences) * group.length) + group.start)
            else:
                parts.append(group.index.cpu())
        order = torch.cat(parts)
        if torch.equal(order, torch.arange(self.num_tokens)):
            return None
        return torch.argsort(order).to(self.device)

    def merge(self, parts: Sequence[Tensor]) -> Tensor:
        """Results of the groups, each (count, length, ...), back as one (T, ...) row."""
        rows = [part.reshape(-1, *part.shape[2:]) for part in parts]
        joined = rows[0] if len(rows) == 1 else torch.cat(rows)
        return joined if self._group_order is None else joined.index_select(0, self._group_order)

    def first(self, rows: Float[Tensor, "T H"]) -> Float[Tensor, "N H"]:
        """The vector of each sequence's first kept token."""
        return rows.index_select(0, self.first_index)

    def mean(
        self, rows: Float[Tensor, "T H"], keep: Bool[Tensor, " T"] | None = None
    ) -> Float[Tensor, "N H"]:
        """The mean vector of each sequence over its kept tokens.

        Args:
            rows: hidden states.
            keep: tokens to count; default all that the layout keeps.
        """
        weights = self._weights(keep)
        if weights is None:
            return self._by_sequence([group.take(rows).mean(1) for group in self.groups])
        # float32: half precision counts no further than 2,048 and sums no further than 65,504.
        counted = weights[:, None].float()
        count = self._sum(counted).clamp(min=1.0)
        return (self._sum(rows * counted) / count).to(rows.dtype)

    def max(
        self, rows: Float[Tensor, "T H"], keep: Bool[Tensor, " T"] | None = None
    ) -> Float[Tensor, "N H"]:
        """The largest value of each dimension over a sequence's kept tokens."""
        weights = self._weights(keep)
        if weights is not None:
            rows = rows.masked_fill(~weights[:, None], torch.finfo(rows.dtype).min)
        if self.shape is not None:
            return rows.view(*self.shape, -1).amax(1)
        return self._by_sequence([group.take(rows).amax(1) for group in self.groups])

    def _weights(self, keep: Tensor | None) -> Tensor | None:
        if self.mask is None:
            return keep
        mask = self.mask.flatten()
        return mask if keep is None else mask & keep

    def _sum(self, rows: Tensor) -> Tensor:
        if self.shape is not None:
            return rows.view(*self.shape, -1).sum(1)
        return self._by_sequence([group.take(rows).sum(1) for group in self.groups])

    def _by_sequence(self, parts: Sequence[Tensor]) -> Tensor:
        """Group results, each (count, ...), in the order of the sequences."""
        joined = parts[0] if len(parts) == 1 else torch.cat(list(parts))
        order = [sequence for group in self.groups for sequence in group.sequences]
        if order == list(range(len(order))):
            return joined
        return joined.index_select(0, torch.tensor(order, device=joined.device).argsort())

    def split(self, rows: Tensor) -> list[Tensor]:
        """A (T, ...) tensor as one (length, ...) tensor a sequence, padding left out."""
        if self.mask is not None:
            rows = rows[self.mask.flatten()]
        return list(rows.split_with_sizes(list(self.lengths)))


@dataclass(frozen=True)
class Batch:
    """Tokens and their layout: what an encoder takes.

    Attributes:
        ids: (T,) token ids.
        layout: where the sequences lie.
        type_ids: (T,) segment of each token; None means all zero.
        special: (T,) True for pieces the tokenizer's template added; None when unknown.
        targets: what the loss compares with, by name; the first dimension counts sequences or
            tokens.
        sources: for each sequence, where it came from (`data.collate.Source`); may be empty.
        head: which of several heads reads it; empty where there is one.
    """

    ids: Int[Tensor, " T"]
    layout: Layout
    type_ids: Int[Tensor, " T"] | None = None
    special: Bool[Tensor, " T"] | None = None
    targets: dict[str, Tensor] = field(default_factory=dict)
    sources: tuple[Any, ...] = ()
    head: str = ""

    def __post_init__(self) -> None:
        expected = (self.layout.num_tokens,)
        named = {"ids": self.ids, "type_ids": self.type_ids, "special": self.special}
        wrong = {
            name: tuple(values.shape)
            for name, values in named.items()
            if values is not None and values.shape != expected
        }
        if wrong:
            raise ConfigError(
                f"a batch of this layout has values of shape {expected}, one a token; got {wrong}"
            )

    @classmethod
    def packed(
        cls,
        ids: Sequence[Sequence[int]],
        type_ids: Sequence[Sequence[int]] | None = None,
        **more: Any,
    ) -> Batch:
        """Sequences one after the other.

        Args:
            ids: token ids of each sequence.
            type_ids: segments of each; None for all zero.
            more: other attributes.
        """
        joined, types = (
            None if rows is None else torch.tensor(list(chain.from_iterable(rows)))
            for rows in (ids, type_ids)
        )
        assert joined is not None
        return cls(joined, Layout.packed([len(row) for row in ids]), types, **more)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        if torch.device(device) == self.ids.device:
            return self
        layout = (
            Layout.packed(self.layout.lengths, device)
            if self.layout.mask is None
            else Layout.rectangular(self.layout.mask.to(device))
        )
        return Batch(
            self.ids.to(device),
            layout,
            None if self.type_ids is None else self.type_ids.to(device),
            None if self.special is None else self.special.to(device),
            {name: target.to(device) for name, target in self.targets.items()},
            self.sources,
            self.head,
        )


def pack(
    input_ids: Int[Tensor, "B L"],
    mask: Tensor | None = None,
    type_ids: Int[Tensor, "B L"] | None = None,
) -> Batch:
    """A padded rectangle as a packed batch; the mask's False tokens are left out.

    Raises:
        ConfigError: when a row keeps no token or the mask has another shape.
    """
    if mask is None:
        mask = torch.ones_like(input_ids, dtype=torch.bool)
    if mask.shape != input_ids.shape:
        raise ConfigError(
            f"the mask has shape {tuple(mask.shape)}, the ids {tuple(input_ids.shape)}"
        )
    mask = mask.bool()
    layout = Layout.packed(mask.sum(1).tolist(), input_ids.device)
    return Batch(input_ids[mask], layout, None if type_ids is None else type_ids[mask])


def pad(rows: Tensor, mask: Bool[Tensor, "B L"]) -> Tensor:
    """A packed (T, ...) tensor as (B, L, ...), zero where the mask is False."""
    out = rows.new_zeros((*mask.shape, *rows.shape[1:]))
    out[mask] = rows
    return out
