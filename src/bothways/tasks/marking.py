"""Two marked entities in a text: from `<e1>..</e1>` or spans to examples, marks and cut windows.

A model reads the text with one plain character on each side of an entity ("$" about the first, "#"
about the second, as Wu and He 2019 do), so the vocabulary stays as it is. What is learned from
that is in `relate.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bothways.data.problems import columns_of, shown
from bothways.data.rows import Row
from bothways.errors import DataError
from bothways.tasks.columns import LABEL_NAMES, TEXT_NAMES, refuse, with_usual
from bothways.tasks.task import Columns
from bothways.tokenization.encoding import Encoding, End

MARKS = ("$", "#")
ENTITIES = ("e1", "e2")

# A mark with the space that sets it off from what it encloses.
_MARK = re.compile(r"<(e[12])>\s?|\s?</(e[12])>")

Span = tuple[int, int]


@dataclass(frozen=True)
class RelateExample:
    """A text with two entities.

    Attributes:
        text: without marks.
        first, second: the entities, e1 and e2: text[start:end].
        label: how they are related; None where it is not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as a document; None where it stands alone.
    """

    text: str
    first: Span
    second: Span
    label: str | None = None
    place: str = ""
    group: str | None = None
    pair: None = None

    @property
    def marked(self) -> tuple[str, tuple[int, int]]:
        """The text as the model reads it, and where the entities' opening marks stand in it."""
        marks = []
        for mark, (start, end) in zip(MARKS, (self.first, self.second), strict=True):
            # At one place closing marks stand before opening ones, the inner closing one first.
            marks += [(start, 1, -end, f"{mark} "), (end, 0, -start, f" {mark}")]
        pieces, at, length = list[str](), 0, 0
        opened: dict[str, int] = {}
        for place, opens, _, mark in sorted(marks):
            pieces.append(self.text[at:place])
            length += place - at
            at = place
            if opens:
                opened[mark.strip()] = length
            pieces.append(mark)
            length += len(mark)
        text = "".join([*pieces, self.text[at:]])
        return text, (opened[MARKS[0]], opened[MARKS[1]])


def parse_marks(text: str) -> tuple[str, Span, Span]:
    """A text without its marks, and the two spans that they enclose.

    Raises:
        ValueError: when a mark is missing, stands twice, or encloses nothing.

    Example:
        >>> parse_marks("The <e1> ear </e1> of the <e2>elephant</e2>.")
        ('The ear of the elephant.', (4, 7), (15, 23))
    """
    plain, at, found = "", 0, dict[str, list[int]]()
    for match in _MARK.finditer(text):
        plain += text[at : match.start()]
        at = match.end()
        opening, closing = match.groups()
        found.setdefault(f"<{opening}>" if opening else f"</{closing}>", []).append(len(plain))
    plain += text[at:]
    spans = []
    for name in ENTITIES:
        opened, closed = found.get(f"<{name}>", []), found.get(f"</{name}>", [])
        if len(opened) != 1 or len(closed) != 1:
            raise ValueError(f"{len(opened)} <{name}> and {len(closed)} </{name}>")
        if opened[0] >= closed[0] or not plain[opened[0] : closed[0]].strip():
            raise ValueError(f"nothing between <{name}> and </{name}>")
        spans.append((opened[0], closed[0]))
    return plain, spans[0], spans[1]


def read_relations(rows: Sequence[Row], columns: Columns, *, labelled: bool) -> list[RelateExample]:
    """Examples of rows: marked texts, or texts with spans `e1` and `e2` as [start, end].

    Args:
        rows: of one file, or of several with the same columns.
        columns: those the caller named. In a file without a header the text is the column with
            marks, and the label the only other one.
        labelled: whether each row must have a label.

    Raises:
        DataError: for missing columns or labels, and entities that are not clear; each kind with
            all its rows.
    """
    if not rows:
        return []
    at = _columns(rows, columns, labelled=labelled)
    found, unclear, unlabelled = list[RelateExample](), list[str](), list[str]()
    for row in rows:
        cell = row.cells.get(at.text or "", "")
        try:
            text, first, second = _entities(cell, row.cells)
        except ValueError as error:
            unclear.append(f"{row.place}: {error}, in {shown(cell)}")
            continue
        label = row.cells.get(at.label or "", "").strip() if labelled else None
        if label == "":
            unlabelled.append(row.place)
        group = row.cells.get(at.group) if at.group else None
        found.append(RelateExample(text, first, second, label, row.place, group))
    if unclear:
        refuse(
            "rows whose two entities are not clear",
            unclear,
            "expected each of <e1>..</e1> and <e2>..</e2> once about some text, or columns e1 and "
            "e2 that hold [start, end]",
        )
    if unlabelled:
        refuse("rows without a label", unlabelled, "label them, or take them out of the file")
    return found


def _columns(rows: Sequence[Row], given: Columns, *, labelled: bool) -> Columns:
    first = rows[0]
    if given.text is None:
        marked = [name for name, cell in first.cells.items() if "<e1>" in cell]
        given = replace(given, text=marked[0] if len(marked) == 1 else None)
    others = [name for name in first.cells if name != given.text]
    if given.label is None and labelled and len(others) == 1 and given.text is not None:
        given = replace(given, label=others[0])
    names = ("relation", *LABEL_NAMES)
    at = with_usual(rows, given, text=TEXT_NAMES, **({"label": names} if labelled else {}))
    absent = [
        flag
        for flag, column, needed in (("--text", at.text, True), ("--label", at.label, labelled))
        if needed and (column is None or column not in first.cells)
    ]
    if absent:
        raise DataError(
            f"{first.file}: no column for {', '.join(absent)}; it has: "
            f"{columns_of(first.file, first.cells)}. Expected a text with <e1>..</e1> and "
            "<e2>..</e2>, and a label"
        )
    return at


def _entities(cell: str, cells: Mapping[str, str]) -> tuple[str, Span, Span]:
    if "<e1>" in cell or not all(name in cells for name in ENTITIES):
        return parse_marks(cell)
    first, second = (span_of(cells[name], cell, name) for name in ENTITIES)
    return cell, first, second


def span_of(value: Any, text: str, name: str) -> Span:
    """A span of a text, from [start, end] or its JSON.

    Raises:
        ValueError: when it is none, or lies outside the text.
    """
    try:
        read = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        read = None
    match read:
        case [int() as start, int() as end] if 0 <= start < end <= len(text):
            return start, end
    raise ValueError(f"{name} is {value!r} of a text of {len(text)} characters")


def around(
    encoding: Encoding, marks: Sequence[int], max_length: int
) -> tuple[Encoding, tuple[int, ...]]:
    """An encoding cut to a length about its entities, and the piece where each of them begins.

    The window is centred between the two opening marks. Where they lie farther apart than a
    window, it begins at the first of them, and the other is lost.

    Args:
        encoding: of one text, whole.
        marks: where the opening marks stand in the text.
        max_length: most pieces, special ones included.

    Returns:
        The encoding, and for each mark its piece; -1 where it was cut away.
    """
    before = next((i for i, special in enumerate(encoding.special) if not special), 0)
    after = encoding.special[::-1].index(False) if not all(encoding.special) else 0
    inner = range(before, len(encoding) - after)
    places = [
        next((i for i in inner if encoding.offsets[i][0] <= mark < encoding.offsets[i][1]), -1)
        for mark in marks
    ]
    room = max(max_length - before - after, 0)
    if len(inner) <= room:
        return encoding, tuple(places)
    low, high = min(places), max(places)
    start = low if high - low >= room else (low + high + 1 - room) // 2
    start = min(max(start, before), before + len(inner) - room)
    kept = [*range(before), *range(start, start + room), *range(inner.stop, len(encoding))]
    end: End = "tail" if start == before else "head" if start + room == inner.stop else "mixed"
    cut = replace(
        encoding,
        ids=[encoding.ids[i] for i in kept],
        type_ids=[encoding.type_ids[i] for i in kept],
        offsets=[encoding.offsets[i] for i in kept],
        words=[encoding.words[i] for i in kept],
        special=[encoding.special[i] for i in kept],
        tokens_cut=len(inner) - room,
        end=end,
    )
    shift = start - before
    moved = [place - shift if start <= place < start + room else -1 for place in places]
    return cut, tuple(moved)
