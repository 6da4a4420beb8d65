"""Sets of labels: examples that have one, how a cell spells it, and results that are one.

What is learned from them and how they are judged is in `multi_label.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bothways.errors import TaskError
from bothways.tasks.columns import refuse
from bothways.tasks.results import LabelSetResult, Result


@dataclass(frozen=True)
class MultiLabelExample:
    """A text with its labels.

    Attributes:
        text: the text.
        pair: the second text of a pair, or None.
        labels: the true ones, perhaps none; None where they are not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as a document; None where it stands alone.
    """

    text: str
    pair: str | None = None
    labels: tuple[str, ...] | None = None
    place: str = ""
    group: str | None = None


def label_set(cell: str, separator: str) -> tuple[str, ...]:
    """The labels of a cell, each once, in order: a JSON list, or what stands between separators.

    Example:
        >>> label_set("a; b;a", ";"), label_set('["a", "b;c"]', ";"), label_set("", ";")
        (('a', 'b'), ('a', 'b;c'), ())
    """
    parts: list[Any] = cell.split(separator)
    if cell.startswith("["):
        # Else it is a label that begins with a bracket.
        with contextlib.suppress(ValueError):
            parts = json.loads(cell, parse_int=str, parse_float=str)
    stripped = (part.strip() if isinstance(part, str) else json.dumps(part) for part in parts)
    return tuple(dict.fromkeys(label for label in stripped if label))


def label_set_results(results: Sequence[Result]) -> list[LabelSetResult]:
    """Results, all of which must be sets of labels.

    Raises:
        TaskError: when one is not.
    """
    found = [result for result in results if isinstance(result, LabelSetResult)]
    if len(found) < len(results):
        raise TaskError(
            f"{len(results) - len(found)} of {len(results)} results are not sets of labels"
        )
    return found


def known_label_sets(examples: Sequence[MultiLabelExample]) -> list[tuple[str, ...]]:
    """The true labels, which must be known of all."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.labels is None
    ]
    if missing:
        refuse("examples without labels", missing, "judging and training need labelled examples")
    return [example.labels for example in examples if example.labels is not None]
