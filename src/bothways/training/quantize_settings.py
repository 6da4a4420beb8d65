"""The settings of quantizing."""

from __future__ import annotations

from dataclasses import dataclass

from bothways.errors import UsageError


@dataclass(frozen=True)
class QuantizeSettings:
    """What int8 may cost.

    Attributes:
        max_drop: points of 100 that the task's main metric may drop by, with confidence; for a
            model without a task, of the mean cosine to the float vectors.
        weight_bits: 8 or 7; unset: what this processor multiplies exactly. 7 runs everywhere.
        by_cosine: judge the vectors, whatever the task; the data are texts then.
        overwrite: replace int8 weights, or what is in the output folder.
    """

    max_drop: float = 0.5
    weight_bits: int | None = None
    by_cosine: bool = False
    overwrite: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: for a drop that is no number of points.
        """
        if not 0 <= self.max_drop <= 100:
            raise UsageError(f"--max-drop is {self.max_drop:g}; it must be from 0 to 100 points")
