"""Which questions there are, and what an answer is.

A question NAME is the function NAME(evidence, **options) in the file NAME.py beside this one; it
takes `Evidence`, returns an `Answer`, a frozen result type of its own, and raises `NotAsked` with
the reason where it cannot be asked. `diagnose.py` asks them in the order of the table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol

from bothways.evaluation.result import Figure, Finding, Table

# Name -> what it asks, as progress says it.
QUESTIONS: dict[str, str] = {
    "truncation": "what was cut, and what it cost",
    "fragmentation": "into how many pieces words are broken, and what it costs",
    "pooling": "whether another vector of the encoder says more",
    "domain": "how far the texts are from the training texts",
    "artifacts": "whether something tells the answer that should not",
    "duplicates": "what the training data has too, or the data twice",
    "slices": "on which kinds of texts it is worse",
    "noise": "what typos, other cases and lost marks cost",
    "calibration": "whether its probabilities mean what they say",
    "labels": "which labels are likely wrong",
    "attention": "where it looks, and which words speak for what it says",
    "errors": "where the model is wrong, and sure of it",
    "baseline": "whether something simpler does as well",
}


class Answer(Protocol):
    """What a question found; numbers as fields, and the same for a report."""

    def findings(self) -> tuple[Finding, ...]:
        """In words, each with the name of the question and a severity."""
        ...

    def figures(self) -> tuple[Figure, ...]:
        """To look at; a table of the same name holds the numbers, or the figure's own do."""
        ...

    def tables(self) -> tuple[Table, ...]:
        """Numbers; names begin with that of the question."""
        ...


def question(name: str) -> Callable[..., Answer]:
    """The function that asks a question of the table."""
    function: Callable[..., Answer] = getattr(
        importlib.import_module(f"bothways.diagnostics.{name}"), name
    )
    return function
