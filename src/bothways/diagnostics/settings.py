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
        wanted_precision: shares of right predictions to find probabilities for; unset: 0.8, 0.9,
            0.95 and 0.99.
        calibrate: store the temperature that makes the probabilities mean what they say with the
            model, so that predict uses it; its predictions stay the same.
        retrain: also fine-tune, as the model's recipe says, on parts of the input that should not
            do alone; takes as long as that.
        all: ask of all examples, not of a sample of 2,000.
    """

    only: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    compare_tokenizers: tuple[str, ...] = ()
    masked_lm: str | None = None
    wanted_precision: tuple[float, ...] = ()
    calibrate: bool = False
    retrain: bool = False
    all: bool = False

    def check(self) -> None:
        """Refuse questions that there are not, and what makes no sense.

        Raises:
            UsageError: with the nearest question, or the value.
        """
        unknown = [name for name in self.only if name not in QUESTIONS]
        if unknown:
            raise UsageError(
                f"there is no question {unknown[0]!r}; {nearest(unknown[0], QUESTIONS)}"
            )

        if self.calibrate and self.only and "calibration" not in self.only:
            raise UsageError("--calibrate needs the question calibration; add it to --only")
        wrong = [share for share in self.wanted_precision if not 0 < share < 1]
        if wrong:
            raise UsageError(f"--wanted-precision is {wrong[0]}; expected shares between 0 and 1")

    def options(self) -> dict[str, dict[str, Any]]:
        """What single questions are told besides the evidence."""
        wanted = {"wanted": self.wanted_precision} if self.wanted_precision else {}
        return {
            "calibration": wanted,
            "fragmentation": {"compare": self.compare_tokenizers},
            "domain": {"masked_lm": self.masked_lm},
        }
