"""Which pieces of a text, or of a pair, are kept: numbers in, ranges out.

Here: the arithmetic of head, tail, head+tail and windows. Not here: special pieces, which are
added afterwards and never cut (`template.py`), and the account of what was lost (`assembly.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from bothways.errors import UsageError
from bothways.tokenization.encoding import Policy

Span = tuple[int, int]
Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Cut:
    """What is kept of one text or pair.

    Attributes:
        windows: for each window, the ranges of pieces kept of each member.
        tokens: pieces before cutting.
        tokens_cut: pieces that are in no window.
    """

    windows: tuple[tuple[Spans, ...], ...]
    tokens: int
    tokens_cut: int


def keep(length: int, room: int, policy: Policy) -> Spans:
    """The ranges kept of one text by a policy that makes a single piece of it.

    Example:
        >>> keep(10, 5, "head+tail")
        ((0, 3), (8, 10))
    """
    if length <= room:
        return ((0, length),)
    if policy == "tail":
        return ((length - room, length),)
    if policy == "head+tail":
        tail = room // 2
        return ((0, room - tail), (length - tail, length)) if tail else ((0, room),)
    return ((0, room),)


def share_room(first: int, second: int, room: int) -> tuple[int, int]:
    """How many pieces each member of a pair keeps when the longer one is cut first.

    Both end equally long where both must be cut; the longer one then keeps the odd piece.

    Example:
        >>> share_room(100, 10, 50)
        (40, 10)
    """
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (room - short, short) if first > second else (short, room - short)


def slide(length: int, room: int, overlap: int) -> tuple[Span, ...]:
    """Windows over a text; neighbours share `overlap` pieces, the last may be shorter.

    Raises:
        UsageError: when windows would not move forward.

    Example:
        >>> slide(10, 4, 1)
        ((0, 4), (3, 7), (6, 10))
    """
    if length <= room:
        return ((0, length),)
    step = room - overlap
    if step < 1:
        raise UsageError(
            f"overlap is {overlap}, but a window has room for {room} tokens of the text; "
            f"expected an overlap of at most {room - 1}"
        )
    count = -(-(length - overlap) // step)
    return tuple((start, min(start + room, length)) for start in range(0, count * step, step))


def cut(
    lengths: tuple[int, ...],
    room: int,
    policy: Policy,
    overlap: int = 0,
    *,
    whole_first: bool = False,
) -> Cut:
    """What is kept of a text (one length) or a pair (two).

    A pair in windows: the second member slides beside the whole first one. Where only the first
    is longer than half the room, the first slides; where both are, the first is cut to half.

    Args:
        lengths: pieces of each member.
        room: pieces of one window, special ones not counted.
        policy: what is kept.
        overlap: pieces that neighbouring windows share.
        whole_first: only the second member of a pair is cut or slides.

    Raises:
        UsageError: when the first member must stay whole and leaves no room for the second, or
            windows would not move forward.
    """
    total = sum(lengths)
    if total <= room:
        return Cut((tuple(((0, length),) for length in lengths),), total, 0)
    if whole_first and len(lengths) == 2:
        return _beside_whole_first(lengths[0], lengths[1], room, policy, overlap)
    if policy == "windows":
        return _windows(lengths, room, overlap)
    rooms = (room,) if len(lengths) == 1 else share_room(lengths[0], lengths[1], room)
    spans = tuple(keep(n, r, policy) for n, r in zip(lengths, rooms, strict=True))
    return Cut((spans,), total, total - sum(rooms))


def _windows(lengths: tuple[int, ...], room: int, overlap: int) -> Cut:
    total = sum(lengths)
    if len(lengths) == 1:
        return Cut(tuple(((span,),) for span in slide(total, room, overlap)), total, 0)
    first, second = lengths
    half = room // 2
    if first > half >= second:
        moving = slide(first, room - second, overlap)
        return Cut(tuple(((span,), ((0, second),)) for span in moving), total, 0)
    kept = min(first, half)
    moving = slide(second, room - kept, overlap)
    return Cut(tuple((((0, kept),), (span,)) for span in moving), total, first - kept)


def _beside_whole_first(first: int, second: int, room: int, policy: Policy, overlap: int) -> Cut:
    if first >= room:
        raise UsageError(
            f"the first text has {first} tokens and must stay whole, but a window has room for "
            f"{room}; expected at most {room - 1}"
        )
    whole = ((0, first),)
    if policy == "windows":
        moving = slide(second, room - first, overlap)
        return Cut(tuple((whole, (span,)) for span in moving), first + second, 0)
    kept = keep(second, room - first, policy)
    return Cut(((whole, kept),), first + second, first + second - room)
