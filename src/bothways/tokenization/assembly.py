"""Pieces of texts, cut by a policy and put into the checkpoint's template, with the account.

The arithmetic of cutting is in `cutting.py`, the special pieces in `template.py`; where the pieces
come from is in `tokenizer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from bothways.errors import UsageError
from bothways.tokenization.alignment import Offset
from bothways.tokenization.cutting import Cut, Spans, cut
from bothways.tokenization.encoding import Encoding, End, Ledger, Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.reading import Reading
from bothways.tokenization.template import Template

Value = TypeVar("Value")

CUT_END: dict[Policy, End] = {
    "head": "tail",
    "tail": "head",
    "head+tail": "middle",
    "windows": "tail",  # only the member of a pair that stands still is cut, and keeps its head
}


@dataclass(frozen=True)
class Pieces:
    """One member of a text, uncut and without special pieces.

    Attributes:
        ids: token ids.
        offsets: range of each piece in the caller's text.
        words: index of each piece's word.
    """

    ids: list[int]
    offsets: list[Offset]
    words: list[int | None]

    def select(self, spans: Spans) -> Pieces:
        """The pieces in these ranges."""
        return Pieces(
            _select(self.ids, spans), _select(self.offsets, spans), _select(self.words, spans)
        )


class Assembler:
    """Cuts texts and puts them into a template, and counts what is lost.

    Args:
        template: what is put around each text.
        policy: how long an encoding may be; None cuts nothing.

    Raises:
        UsageError: when the policy leaves no room for a text.
    """

    def __init__(self, template: Template, policy: CutPolicy | None) -> None:
        if policy is not None and policy.max_length <= template.size:
            raise UsageError(
                f"max_length is {policy.max_length}, but {template.size} special tokens are put "
                f"around a text; expected at least {template.size + 1}"
            )
        self._template = template
        self._policy = policy
        self._room = None if policy is None else policy.max_length - template.size
        self._texts = self._tokens = self._tokens_cut = self._texts_cut = self._num_windows = 0

    def ids(self, members: tuple[list[int], ...]) -> tuple[list[int], list[int] | None]:
        """Ids of one text or pair in one encoding, and segments where any is not zero."""
        total = sum(map(len, members))
        if self._room is None or total <= self._room:
            self._texts += 1
            self._tokens += total
        else:
            (spans,) = self._cut(members).windows
            members = tuple(_select(m, part) for m, part in zip(members, spans, strict=True))
        types = self._template.types(list(map(len, members))) if self._template.has_types else None
        return self._template.wrap(members), types

    def encodings(self, members: Sequence[Pieces]) -> list[Encoding]:
        """One text or pair with everything known about its pieces; several are windows."""
        plan = self._cut([member.ids for member in members])
        end: End = CUT_END[self._policy.keep] if self._policy and plan.tokens_cut else "none"
        template = self._template
        result = []
        for spans in plan.windows:
            kept = [member.select(part) for member, part in zip(members, spans, strict=True)]
            lengths = [len(member.ids) for member in kept]
            result.append(
                Encoding(
                    ids=template.wrap([member.ids for member in kept]),
                    type_ids=template.types(lengths),
                    offsets=template.surround([member.offsets for member in kept], (0, 0)),
                    words=template.surround([member.words for member in kept], None),
                    special=template.mask(lengths),
                    tokens_cut=plan.tokens_cut,
                    tokens=plan.tokens,
                    end=end,
                    second=template.second(lengths),
                )
            )
        return result

    def ledger(self, reading: Reading) -> Ledger:
        """The account of all texts so far, which were read as `reading`."""
        end: End = CUT_END[self._policy.keep] if self._policy and self._tokens_cut else "none"
        return Ledger(
            texts=self._texts,
            texts_cut=self._texts_cut,
            tokens=self._tokens,
            tokens_cut=self._tokens_cut,
            end=end,
            windows=self._num_windows,
            special_in_text=reading.special_in_text,
            dropped_characters=reading.dropped_characters,
        )

    def _cut(self, members: Sequence[list[int]]) -> Cut:
        lengths = tuple(map(len, members))
        if self._policy is None or self._room is None:
            plan = cut(lengths, sum(lengths), "head")
        else:
            plan = cut(
                lengths,
                self._room,
                self._policy.keep,
                self._policy.overlap,
                whole_first=self._policy.whole_first,
            )
        self._texts += 1
        self._tokens += plan.tokens
        self._tokens_cut += plan.tokens_cut
        self._texts_cut += plan.tokens_cut > 0
        self._num_windows += len(plan.windows) if len(plan.windows) > 1 else 0
        return plan


def _select(values: list[Value], spans: Spans) -> list[Value]:
    """The values in these ranges, one after another."""
    return [value for start, stop in spans for value in values[start:stop]]
