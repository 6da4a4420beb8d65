"""What has become of each candidate so far."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from bothways.ladder.climbing import Rung
from bothways.ladder.costs import Cost
from bothways.ladder.evidence import Evidence

Outcome = Literal[
    "chosen", "below target", "skipped", "over a limit", "not needed", "no budget", "failed"
]


@dataclass
class Entry:
    """A candidate, from given to judged.

    Attributes:
        source: as given.
        name: as short as tells it from the others.
        number: its place among those given, from 1.
        outcome: what became of it; `not needed` until something did.
        why: in words.
        cost: as measured; None where it could not be loaded.
        evidence: of its frozen states; None where it was not asked.
        rung: what fine-tuning reached; None where it was not tried.
        seconds: that fine-tuning took.
    """

    source: str
    name: str
    number: int
    outcome: Outcome = "not needed"
    why: str = ""
    cost: Cost | None = None
    evidence: Evidence | None = None
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
        evidence = None
        if self.evidence is not None:
            evidence = {
                name: getattr(self.evidence, name) for name in ("probe", "neighbours", "logme")
            }
        return {
            "candidate": self.source,
            "outcome": self.outcome,
            "why": self.why,
            "cost": None if self.cost is None else dataclasses.asdict(self.cost),
            "evidence": evidence,
            "score": None if self.rung is None else dataclasses.asdict(self.rung.score),
            "runs": {} if self.rung is None else dict(self.rung.runs),
            "seconds": self.seconds,
        }


def entries_of(sources: Sequence[str]) -> list[Entry]:
    """An entry for each, named by the end of its path where that tells them apart.

    Example:
        >>> [entry.name for entry in entries_of(["models/small", "models/large"])]
        ['small', 'large']
    """
    ends = [PurePosixPath(source).name or source for source in sources]
    counts = Counter(ends)
    return [
        Entry(source, end if counts[end] == 1 else source, number)
        for number, (source, end) in enumerate(zip(sources, ends, strict=True), start=1)
    ]


def best_of(entries: Sequence[Entry], direction: int) -> Entry | None:
    """The chosen candidate, else the best of those that were tried; None where none was.

    Args:
        entries: any.
        direction: 1 where more of the metric is better, -1 where less is.
    """
    tried = [(entry, entry.rung.score.value) for entry in entries if entry.rung is not None]
    if not tried:
        return None
    return max(tried, key=lambda each: (each[0].outcome == "chosen", direction * each[1]))[0]


def cost_of_all(entries: Sequence[Entry]) -> float:
    """Seconds that fine-tuning every candidate would take.

    Of those that were fine-tuned it is the time taken; of the others the estimate, corrected by
    what the estimates of the first turned out to be worth.
    """
    measured = [(entry, entry.cost) for entry in entries if entry.cost is not None]
    tried = [(entry, cost) for entry, cost in measured if entry.rung is not None]
    estimated = sum(cost.training_seconds for _, cost in tried)
    taken = sum(entry.seconds for entry, _ in tried)
    correction = taken / estimated if estimated else 1.0
    rest = sum(cost.training_seconds for entry, cost in measured if entry.rung is None)
    return taken + correction * rest
