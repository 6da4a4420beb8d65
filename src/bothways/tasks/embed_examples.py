"""What embedders learn from: rows and retrieval sets as pairs, and which texts are the same.

Here too: the id of a text, by which copies are known whatever their case and spaces, and the
positives of each anchor, none of which may count as a negative. What is learned is in `embed.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bothways.data.problems import columns_of
from bothways.data.retrieval import RetrievalSet
from bothways.data.rows import Row
from bothways.errors import DataError, nearest
from bothways.tasks.columns import refuse
from bothways.tasks.task import Columns
from bothways.tasks.texts import read_cells

# Names that mean an anchor and its positive, besides those of pairs of any kind.
PAIR_NAMES = (
    ("anchor", "positive"),
    ("query", "positive"),
    ("question", "answer"),
    ("query", "document"),
    ("query", "passage"),
)
NEGATIVE_NAME = re.compile(r"negative(_?\d+)?")


@dataclass(frozen=True)
class EmbedExample:
    """Texts that belong together, or not.

    Attributes:
        text: the anchor.
        pair: its positive, or the text it is compared with.
        negatives: texts that do not belong to the anchor.
        score: how alike text and pair are; None where that is not said.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as a query; None where it stands alone.
    """

    text: str
    pair: str | None = None
    negatives: tuple[str, ...] = ()
    score: float | None = None
    place: str = ""
    group: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All its texts, in the order in which they are encoded."""
        return (self.text, *(() if self.pair is None else (self.pair,)), *self.negatives)


def read_examples(
    rows: Sequence[Row], columns: Columns, negative: Sequence[str], *, labelled: bool, fitted: bool
) -> list[EmbedExample]:
    """Examples of rows.

    Args:
        rows: of one file, or of several with the same columns.
        columns: those the caller named, or that training stored; with a label, it is the score.
        negative: columns of hard negatives; empty for those of the usual names.
        labelled: whether scores and negatives are read.
        fitted: whether training is over.

    Raises:
        DataError: for missing columns, cells or scores, each with all its rows.
    """
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    columns = _usual_pair(columns, names)
    scored = labelled and columns.label is not None
    cells = read_cells(rows, columns, labelled=scored, fitted=fitted)
    if cells[0].pair is None:
        raise DataError(
            f"{rows[0].file}: an embedder learns from pairs of texts, and one column is read; name "
            f"the second with --text-pair. The columns are: {columns_of(rows[0].file, names)}"
        )
    others = _negatives(rows[0].file, names, negative) if labelled and not scored else ()
    wrong = [
        f"{cell.place}: {cell.label!r}" for cell in cells if scored and _number(cell.label) is None
    ]
    if wrong:
        refuse(
            f"scores (column {columns.label!r}) that are no numbers",
            wrong,
            "a score is a number such as 3.8; without --label pairs are read as belonging together",
        )
    return [
        EmbedExample(
            cell.text,
            cell.pair,
            tuple(text for text in (row.cells.get(name, "") for name in others) if text.strip()),
            _number(cell.label) if scored else None,
            cell.place,
            cell.group,
        )
        for row, cell in zip(rows, cells, strict=True)
    ]


def pairs_of(found: RetrievalSet) -> list[EmbedExample]:
    """A pair a query and relevant document; the pairs of a query are a group."""
    return [
        EmbedExample(
            text,
            found.documents[document],
            place=found.places.get(query, ""),
            group=query,
        )
        for query, text in found.queries.items()
        for document, gain in found.gains.get(query, {}).items()
        if gain > 0
    ]


def check_pairs(examples: Sequence[EmbedExample], *, scored: bool) -> None:
    """Refuse examples without a second text, and without a score where there are scores.

    Raises:
        DataError: with each such example's file and line.
    """
    named = [(each, each.place or f"example {n}") for n, each in enumerate(examples)]
    lacking = {
        "a second text": [place for each, place in named if each.pair is None],
        "a score": [place for each, place in named if scored and each.score is None],
    }
    for what, places in lacking.items():
        if places:
            advice = "training and judging need pairs (--text-pair, --label)"
            refuse(f"examples without {what}", places, advice)


def check_negatives(examples: Sequence[EmbedExample], *, needed: bool) -> None:
    """Refuse pairs that have nothing to be told apart from.

    Args:
        examples: without scores.
        needed: whether each needs a negative of its own.

    Raises:
        DataError: with each example's file and line, where that one lacks something.
    """
    bare = [each.place or f"example {n}" for n, each in enumerate(examples) if not each.negatives]
    if needed and bare:
        refuse(
            "examples without a negative",
            bare,
            "triplets need one each: name its column with --negative, find some with `bothways "
            "mine negatives`, or use --loss-function negatives",
        )
    same = len({text_id(example.pair or "") for example in examples}) < 2
    if same and len(bare) == len(examples):
        raise DataError(
            "all second texts are the same, and no negatives are given: there is nothing to "
            "tell apart. Is the column the right one (--text-pair)?"
        )


def text_id(text: str) -> int:
    """A number that equal texts share, whatever their case and spaces; 64 bits with a sign.

    Example:
        >>> text_id("A  Text") == text_id("a text")
        True
    """
    plain = " ".join(text.casefold().split())
    digest = hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def known_positives(examples: Iterable[EmbedExample]) -> dict[int, tuple[int, ...]]:
    """For each anchor with more than its own positive, all texts that belong to it, by id.

    What stands on the other side of a pair belongs together too: the anchor of a pair is no
    negative of a text that is its positive elsewhere.
    """
    partners: dict[int, set[int]] = defaultdict(set)
    anchors: set[int] = set()
    for example in examples:
        one, other = text_id(example.text), text_id(example.pair or "")
        anchors.add(one)
        partners[one].add(other)
        partners[other].add(one)
    return {one: tuple(sorted(partners[one])) for one in anchors if len(partners[one]) > 1}


def _usual_pair(columns: Columns, names: Sequence[str]) -> Columns:
    """The columns, completed by the usual names of a pair where none is given."""
    if columns.text is not None or columns.text_pair is not None:
        return columns
    by_lower = {name.lower(): name for name in reversed(names)}
    for first, second in PAIR_NAMES:
        if first in by_lower and second in by_lower:
            return replace(columns, text=by_lower[first], text_pair=by_lower[second])
    return columns


def _negatives(file: str, names: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The columns of negatives: those named, else those of the usual names."""
    missing = [name for name in given if name not in names]
    if missing:
        raise DataError(
            f"{file} has no column --negative {', '.join(map(repr, missing))}; it has: "
            f"{columns_of(file, names)}. {nearest(missing[0], names)}"
        )
    return tuple(given) or tuple(name for name in names if NEGATIVE_NAME.fullmatch(name.lower()))


def _number(cell: str | None) -> float | None:
    """A finite number, or None for anything else."""
    try:
        number = float(cell or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def relevant_by_anchor(examples: Sequence[EmbedExample]) -> Mapping[int, set[int]]:
    """For each anchor the positives that the examples give it, by id."""
    found: dict[int, set[int]] = {}
    for example in examples:
        found.setdefault(text_id(example.text), set()).add(text_id(example.pair or ""))
    return found
