"""Which columns of a file a task reads: as told, or by their usual names.

Nothing is guessed that is not obvious: where no column, or more than one, bears a usual name, the
error lists the columns there are. Here too: `refuse`, one error for many rows. Reading files is in
`data/`; what a cell means is in the task's own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import NoReturn

from bothways.data.problems import columns_of
from bothways.data.rows import Row
from bothways.errors import ColumnError, DataError, nearest
from bothways.tasks.task import Columns

TEXT_NAMES = (
    "text",
    "sentence",
    "review",
    "comment",
    "utterance",
    "content",
    "document",
    "question",
    "query",
    "tweet",
)
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
)
LABEL_NAMES = ("label", "category", "class", "gold_label", "intent", "topic", "sentiment", "target")

PLACES_SHOWN = 10
FLAGS = {"text": "--text", "text_pair": "--text-pair", "label": "--label", "group": "--group"}


def find_columns(rows: Sequence[Row], given: Columns, *, labelled: bool) -> Columns:
    """The columns to read: those given, and for the text and the label else the obvious ones.

    Args:
        rows: of a file; at least one.
        given: what the caller named.
        labelled: whether a label is needed; without it no label column is looked for.

    Raises:
        ColumnError: when a named column is missing.
        DataError: when a needed one is not obvious.

    Example:
        >>> rows = [Row({"Text": "fine", "label": "yes"}, "a.csv", 2)]
        >>> find_columns(rows, Columns(), labelled=True)
        Columns(text='Text', text_pair=None, label='label', group=None)
    """
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    file = rows[0].file
    named = {field.name: getattr(given, field.name) for field in fields(given)}
    if not labelled:
        named["label"] = None
    _check_named(file, names, named)
    by_lower = {name.lower(): name for name in reversed(names)}
    text, pair = named["text"], named["text_pair"]
    if text is None:
        text, found_pair = _find_text(file, names, by_lower, taken=pair)
        pair = pair or found_pair
    label = named["label"]
    if label is None and labelled:
        free = {lower: name for lower, name in by_lower.items() if name not in (text, pair)}
        label = _only(LABEL_NAMES, free) or _not_obvious(file, names, "label", LABEL_NAMES, free)
    return Columns(text, pair, label, named["group"])


def with_usual(rows: Sequence[Row], given: Columns, **usual: Sequence[str]) -> Columns:
    """The columns given, and the others by a task's own names, where just one of them is there.

    Args:
        rows: of a file.
        given: what the caller named.
        usual: for fields of `Columns`, names in lower case.

    Example:
        >>> rows = [Row({"text": "fine", "Stars": "4"}, "a.csv", 2)]
        >>> with_usual(rows, Columns(), label=("score", "stars")).label
        'Stars'
    """
    by_lower = {name.lower(): name for row in reversed(rows) for name in row.cells}
    taken = {name for name in vars(given).values() if name is not None}
    found = dict[str, str]()
    for field, names in usual.items():
        there = [by_lower[name] for name in names if by_lower.get(name, "") not in {"", *taken}]
        if getattr(given, field) is None and len(there) == 1:
            found[field] = there[0]
            taken.add(there[0])
    return replace(given, **found)


def refuse(what: str, places: Iterable[str], advice: str) -> NoReturn:
    """One error for every row with the same problem.

    Args:
        what: what is wrong, as in "rows without a label".
        places: `file, line 12` of each, with a detail where there is one.
        advice: the next step.

    Raises:
        DataError: always; it shows the first ten places and counts the rest.
    """
    listed = list(places)
    lines = [f"  {place}" for place in listed[:PLACES_SHOWN]]
    if len(listed) > PLACES_SHOWN:
        lines.append(f"  and {len(listed) - PLACES_SHOWN} more")
    raise DataError("\n".join([f"{what}: {len(listed)}", *lines, advice]))


def _check_named(file: str, names: Sequence[str], named: Mapping[str, str | None]) -> None:
    """Refuse columns that the file does not have, all in one error."""
    missing = {field: name for field, name in named.items() if name and name not in names}
    if missing:
        listed = ", ".join(f"{FLAGS[field]} {name!r}" for field, name in missing.items())
        words = (nearest(name, names) for name in missing.values() if name)
        hints = [hint for hint in words if hint.endswith("?")]
        there = columns_of(file, names, hint=not hints)
        message = f"{file} has no column {listed}; it has: {there}"
        raise ColumnError(". ".join([message, *hints]))
    if named["label"] is not None and named["label"] in (named["text"], named["text_pair"]):
        raise DataError(
            f"{file}: the column {named['label']!r} is named both as text and as --label; the "
            "label would stand in what is read. Name two columns"
        )


def _find_text(
    file: str, names: Sequence[str], by_lower: Mapping[str, str], *, taken: str | None
) -> tuple[str, str | None]:
    """The obvious text column, or the obvious pair of them."""
    free = {lower: name for lower, name in by_lower.items() if name != taken}
    pairs = [
        (free[first], free[second])
        for first, second in PAIR_NAMES
        if first in free and second in free and taken is None
    ]
    single = _only(TEXT_NAMES, free)
    if len(pairs) == 1 and (single is None or single in pairs[0]):
        return pairs[0]
    if single is None or pairs:
        _not_obvious(file, names, "text", TEXT_NAMES, free)
    return single, None


def _only(usual: Sequence[str], free: Mapping[str, str]) -> str | None:
    """The first of the usual names where it is present, else the only one that is."""
    present = [free[name] for name in usual if name in free]
    return present[0] if usual[0] in free or len(present) == 1 else None


def _not_obvious(
    file: str, names: Sequence[str], field: str, usual: Sequence[str], free: Mapping[str, str]
) -> NoReturn:
    """Refuse, listing the columns there are."""
    candidates = [free[name] for name in usual if name in free]
    why = f"could be any of {', '.join(map(repr, candidates))}" if candidates else "is not obvious"
    raise DataError(
        f"{file}: the column of the {field} {why}; the columns are: "
        f"{columns_of(file, names)}. Name it with {FLAGS[field]}"
    )
