"""What is asked of a model, and of how much; without torch, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bothways.diagnostics.questions import QUESTIONS
from bothways.errors import UsageError, nearest


@dataclass(frozen=True)
class DiagnoseSettings:
    """What is asked, and of how much.

    Attributes:
        only: questions to ask; unset: all of them.
        slices: metadata columns by which examples are told apart.
        compare_tokenizers: folders or hub names of tokenizers to read the same texts with.
        masked_lm: folder or hub name of a masked language model that says how expected texts are;
            unset: the model's own head, if it has one.
        all: ask of all examples, not of a sample of 2,000.
    """

    only: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    compare_tokenizers: tuple[str, ...] = ()
    masked_lm: str | None = None
    all: bool = False

    def check(self) -> None:
        """Refuse questions that there are not.

        Raises:
            UsageError: with the nearest one.
        """
        unknown = [name for name in self.only if name not in QUESTIONS]
        if unknown:
            raise UsageError(
                f"there is no question {unknown[0]!r}; {nearest(unknown[0], QUESTIONS)}"
            )

    def options(self) -> dict[str, dict[str, Any]]:
        """What single questions are told besides the evidence."""
        return {
            "fragmentation": {"compare": self.compare_tokenizers},
            "domain": {"masked_lm": self.masked_lm},
        }
