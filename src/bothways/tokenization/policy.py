"""`CutPolicy`: what is kept of a text that is longer than the model reads."""

from __future__ import annotations

from dataclasses import dataclass

from bothways.errors import UsageError
from bothways.tokenization.encoding import Policy


@dataclass(frozen=True)
class CutPolicy:
    """How long encodings may be and what is kept of longer texts.

    Attributes:
        max_length: pieces of one encoding, special ones included.
        keep: what is kept: head, tail, head+tail, or everything in windows.
        overlap: tokens that neighbouring windows share.
        whole_first: never cut the first text of a pair, such as a question; only the second is.
    """

    max_length: int
    keep: Policy = "head"
    overlap: int = 0
    whole_first: bool = False

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise UsageError(f"max_length is {self.max_length}; it must be at least 1")
        if not 0 <= self.overlap < self.max_length:
            raise UsageError(
                f"overlap is {self.overlap}; it must be at least 0 and below the window, "
                f"{self.max_length}"
            )
