"""What has become of each candidate so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bothways.ladder.climbing import Rung
from bothways.ladder.costs import Cost

Outcome = Literal[
    "chosen", "below target", "skipped", "over a limit", "not needed", "no budget", "failed"
]


@dataclass
class Entry:
    """A candidate, from given to judged.

    Attributes:
        source: as given.
        number: its place among those given, from 1.
        outcome: what became of it; `not needed` until something did.
        why: in words.
        cost: as measured; None where it could not be loaded.
        rung: what fine-tuning reached; None where it was not tried.
        seconds: that fine-tuning took.
    """

    source: str
    number: int
    outcome: Outcome = "not needed"
    why: str = ""
    cost: Cost | None = None
    rung: Rung | None = None
    seconds: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it may still be tried."""
        return self.outcome == "not needed"

    def settle(self, outcome: Outcome, why: str) -> None:
        """Say what became of it."""
        self.outcome, self.why = outcome, why

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "candidate": self.source,
            "outcome": self.outcome,
            "why": self.why,
            "cost": None if self.cost is None else dataclasses.asdict(self.cost),
            "score": None if self.rung is None else dataclasses.asdict(self.rung.score),
            "runs": {} if self.rung is None else dict(self.rung.runs),
            "seconds": self.seconds,
        }


def cost_of_all(entries: Sequence[Entry]) -> float:
    """Seconds that fine-tuning every candidate would have taken.

    Of those that were fine-tuned it is the time taken; of the others the estimate, corrected by
    what the estimates of the first turned out to be worth.
    """
    tried = [entry for entry in entries if entry.rung is not None and entry.cost is not None]
    estimated = sum(entry.cost.training_seconds for entry in tried if entry.cost is not None)
    taken = sum(entry.seconds for entry in tried)
    correction = taken / estimated if estimated else 1.0
    rest = sum(
        entry.cost.training_seconds
        for entry in entries
        if entry.rung is None and entry.cost is not None
    )
    return taken + correction * rest
