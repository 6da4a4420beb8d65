"""`Template`: the special pieces a checkpoint puts around a text or a pair.

It is read off the engine by encoding a probe, so every kind of post-processor is understood the
same way; what comes out is checked to be `special* A special*` or `special* A special* B special*`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from bothways.errors import TokenizerError

if TYPE_CHECKING:
    import tokenizers


Value = TypeVar("Value")
Filler = TypeVar("Filler")


@dataclass(frozen=True)
class Template:
    """Special pieces and segments for texts with a fixed number of members.

    Attributes:
        specials: ids before, between and after the members; one group more than members.
        special_types: segment of each of those.
        member_types: segment of each member's pieces.
    """

    specials: tuple[tuple[int, ...], ...]
    special_types: tuple[tuple[int, ...], ...]
    member_types: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many special pieces are added."""
        return sum(len(group) for group in self.specials)

    @property
    def has_types(self) -> bool:
        """Whether any segment is not zero."""
        return any(self.member_types) or any(any(group) for group in self.special_types)

    def wrap(self, members: Sequence[list[int]]) -> list[int]:
        """Ids of the members with the special pieces around them."""
        ids = list(self.specials[0])
        for member, group in zip(members, self.specials[1:], strict=True):
            ids += member
            ids += group
        return ids

    def surround(self, members: Sequence[Sequence[Value]], filler: Filler) -> list[Value | Filler]:
        """What is known of each piece, with a filler for each special piece."""
        values: list[Value | Filler] = [filler] * len(self.specials[0])
        for member, group in zip(members, self.specials[1:], strict=True):
            values += member
            values += [filler] * len(group)
        return values

    def types(self, lengths: Sequence[int]) -> list[int]:
        """Segments of a wrapped text whose members have these lengths."""
        kinds = list(self.special_types[0])
        for length, kind, group in zip(
            lengths, self.member_types, self.special_types[1:], strict=True
        ):
            kinds += [kind] * length
            kinds += group
        return kinds

    def mask(self, lengths: Sequence[int]) -> list[bool]:
        """True for the special pieces of a wrapped text whose members have these lengths."""
        return self.surround([[False] * length for length in lengths], True)

    def second(self, lengths: Sequence[int]) -> int | None:
        """Where the second member begins, the first having this length; None where there is one."""
        if len(lengths) == 1:
            return None
        return len(self.specials[0]) + lengths[0] + len(self.specials[1])


def read_templates(engine: tokenizers.Tokenizer) -> tuple[Template, Template]:
    """The templates of single texts and of pairs.

    Raises:
        TokenizerError: when the engine reads no probe at all, or puts members in another order.
    """
    probe = _probe(engine)
    return _read(engine.encode(probe), members=1), _read(engine.encode(probe, probe), members=2)


def _probe(engine: tokenizers.Tokenizer) -> str:
    """A text that becomes at least one piece."""
    for text in ("a", "1", *islice(engine.get_vocab(with_added_tokens=False), 100)):
        if engine.encode(text, add_special_tokens=False).ids:
            return text
    raise TokenizerError(
        "the tokenizer makes no piece of 'a', '1' or its own first 100 pieces; its vocabulary "
        "does not fit its pre-tokenizer; take the tokenizer files from the original checkpoint"
    )


def _read(encoding: tokenizers.Encoding, *, members: int) -> Template:
    specials: list[list[int]] = [[]]
    special_types: list[list[int]] = [[]]
    member_types: list[int] = []
    order: list[int] = []
    for piece, kind, member in zip(
        encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
    ):
        if member is None:
            specials[-1].append(piece)
            special_types[-1].append(kind)
        elif not order or order[-1] != member or specials[-1]:
            order.append(member)
            member_types.append(kind)
            specials.append([])
            special_types.append([])
    if order != list(range(members)):
        raise TokenizerError(
            f"the tokenizer's template puts its texts in the order {order}; "
            f"expected {list(range(members))}"
        )
    return Template(
        tuple(tuple(group) for group in specials),
        tuple(tuple(group) for group in special_types),
        tuple(member_types),
    )
