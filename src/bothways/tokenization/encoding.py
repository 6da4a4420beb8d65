"""`Encoding`, one text as pieces, and `Ledger`, the account of what a call lost.

Both are plain values. How texts become encodings is in `tokenizer.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bothways.errors import agreeing, counted

Policy = Literal["head", "tail", "head+tail", "windows"]
End = Literal["head", "tail", "middle", "mixed", "none"]
SpecialInText = Literal["text", "parse", "refuse"]
# Where texts lost tokens, in a sentence.
PLACES: dict[End, str] = {
    "head": "at the head",
    "tail": "at the tail",
    "middle": "in the middle",
    "mixed": "in different places",
    "none": "nowhere",
}


@dataclass(frozen=True)
class Ledger:
    """What a call read and what it lost; ledgers add up.

    Attributes:
        texts: texts read (a pair is one).
        texts_cut: texts that lost at least one token.
        tokens: tokens before cutting, special pieces excluded.
        tokens_cut: tokens that no model saw.
        end: which end was cut.
        windows: windows made of texts that did not fit in one.
        special_in_text: special tokens that stood in the texts as plain characters.
        dropped_characters: characters that became no piece (NUL and others), spaces excluded.
        targets_cut: what was to be learned or found, such as an answer, and lies whole in no
            window.
    """

    texts: int = 0
    texts_cut: int = 0
    tokens: int = 0
    tokens_cut: int = 0
    end: End = "none"
    windows: int = 0
    special_in_text: int = 0
    dropped_characters: int = 0
    targets_cut: int = 0

    def __add__(self, other: Ledger) -> Ledger:
        """The account of both calls together."""
        ends = {self.end, other.end} - {"none"}
        end: End = "none" if not ends else ends.pop() if len(ends) == 1 else "mixed"
        counts = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in dataclasses.fields(self)
            if field.name != "end"
        }
        return Ledger(end=end, **counts)

    @classmethod
    def total(cls, ledgers: Iterable[Ledger]) -> Ledger:
        """The account of many calls."""
        result = cls()
        for ledger in ledgers:
            result = result + ledger
        return result

    @property
    def share_cut(self) -> float:
        """Tokens cut per token read, 0 to 1."""
        return self.tokens_cut / self.tokens if self.tokens else 0.0

    @property
    def lost(self) -> bool:
        """Whether anything of the texts was not read."""
        return bool(self.texts_cut or self.dropped_characters)

    def sentence(self) -> str:
        """What was lost, for a person.

        Example:
            >>> Ledger(texts=9, texts_cut=2, tokens=400, tokens_cut=40, end="tail").sentence()
            '2 of 9 texts were cut (40 of 400 tokens, 10.0 %, at the tail)'
        """
        if self.texts_cut:
            told = (
                f"{self.texts_cut} of {counted(self.texts, 'text')} "
                f"{agreeing(self.texts_cut, 'were')} cut ({self.tokens_cut} of "
                f"{counted(self.tokens, 'token')}, {self.share_cut:.1%}, {PLACES[self.end]})"
            ).replace("%", " %")
        else:
            told = (
                f"nothing was cut ({counted(self.texts, 'text')}, {counted(self.tokens, 'token')})"
            )
        if self.windows:
            told += f"; {counted(self.windows, 'window')}"
        if self.special_in_text:
            told += f"; {counted(self.special_in_text, 'special token')} in texts "
            told += f"{agreeing(self.special_in_text, 'were')} read as plain text"
        if self.dropped_characters:
            told += f"; {counted(self.dropped_characters, 'character')} became no token"
        if self.targets_cut:
            told += f"; {self.targets_cut} of what was to be found lies in no window whole"
        return told

    def as_dict(self) -> dict[str, int | str]:
        """The JSON object `ledger`."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Encoding:
    """One text, or one window of it, as pieces.

    Attributes:
        ids: token ids, special pieces included.
        type_ids: segment of each piece.
        offsets: (start, end) of each piece in the caller's text (a pair: in its own member);
            (0, 0) for special pieces.
        words: index of the word each piece belongs to, in its own text; None for special pieces.
        special: True for pieces that the template added.
        tokens_cut: tokens of this text that are in no encoding.
        tokens: tokens before cutting, special pieces excluded.
        end: which end was cut.
        second: where the pieces of the second text of a pair begin, or would; None for one text.
    """

    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int | None]
    special: list[bool]
    tokens_cut: int = 0
    tokens: int = 0
    end: End = "none"
    second: int | None = None

    def __len__(self) -> int:
        """Pieces, special ones included."""
        return len(self.ids)
