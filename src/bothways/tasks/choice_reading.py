"""Questions with choices from rows: `question`, perhaps `context`, `choices` and the right one.

Choices are a JSON list, `["a", "b"]`, or texts with names, `{"text": ["a", "b"], "label": ["A",
"B"]}`. The right one is given by its number from 0, by its text, or by its name. What is done with
examples is in `choice.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bothways.data.problems import columns_of, shown
from bothways.data.rows import Row
from bothways.errors import DataError
from bothways.tasks.columns import refuse, with_usual
from bothways.tasks.task import Columns

QUESTION_NAMES = ("question", "query", "prompt", "stem", "text", "sentence")
CONTEXT_NAMES = ("context", "passage", "article", "premise")
CHOICES_NAMES = ("choices", "options", "answers", "endings")
LABEL_NAMES = ("label", "answer", "answerkey", "answer_key", "correct", "gold_label")


@dataclass(frozen=True)
class ChoiceExample:
    """A question with its choices.

    Attributes:
        text: the question; empty where the context is all there is.
        choices: at least two.
        pair: what the question is about, or None.
        label: index of the right choice; None where it is not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as an article; None where it stands alone.
    """

    text: str
    choices: tuple[str, ...]
    pair: str | None = None
    label: int | None = None
    place: str = ""
    group: str | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What is read for each choice: (context, question and choice), else (question, choice)."""
        if self.pair is None:
            return [(self.text, choice) for choice in self.choices]
        return [(self.pair, f"{self.text} {choice}".strip()) for choice in self.choices]


def read_choices(rows: Sequence[Row], columns: Columns, *, labelled: bool) -> list[ChoiceExample]:
    """Examples of rows.

    Args:
        rows: of one file, or of several with the same columns.
        columns: those the caller named: question (text), context (text_pair), label, group.
        labelled: whether each row must say which choice is right.

    Raises:
        DataError: for missing columns, choices that are no list of two or more texts, and right
            choices that are none of them; each kind with all its rows.
    """
    if not rows:
        return []
    usual = {"text": QUESTION_NAMES, "text_pair": CONTEXT_NAMES, "label": LABEL_NAMES}
    at = with_usual(rows, columns, **usual)
    listed = with_usual(rows, Columns(), text=CHOICES_NAMES).text
    needed = {
        "--text (question)": at.text or at.text_pair,
        "choices": listed,
        "--label": at.label if labelled else "",
    }
    absent = [name for name, column in needed.items() if column is None]
    if absent:
        names = dict.fromkeys(name for row in rows for name in row.cells)
        raise DataError(
            f"{rows[0].file}: no column for {', '.join(absent)}; it has: "
            f"{columns_of(rows[0].file, names)}. Expected lines such as "
            '{"question": "2 + 2?", "choices": ["3", "4"], "label": 1}'
        )
    found, wrong_choices, wrong_labels = list[ChoiceExample](), list[str](), list[str]()
    for row in rows:
        cell = row.cells.get(listed or "", "")
        choices, names_of = choices_of(cell)
        if len(choices) < 2:
            wrong_choices.append(f"{row.place}: {shown(cell)}")
            continue
        label = None
        if labelled:
            given = row.cells.get(at.label or "", "").strip()
            label = right_choice(given, choices, names_of)
            if label is None:
                wrong_labels.append(f"{row.place}: {given!r} among {shown(', '.join(choices))}")
        found.append(
            ChoiceExample(
                row.cells.get(at.text or "", ""),
                tuple(choices),
                row.cells.get(at.text_pair) if at.text_pair else None,
                label,
                row.place,
                row.cells.get(at.group) if at.group else None,
            )
        )
    if wrong_choices:
        advice = f'expected at least two texts in column {listed!r}, as ["yes", "no"]'
        refuse("rows whose choices are no list of texts", wrong_choices, advice)
    if wrong_labels:
        refuse(
            f"rows whose right choice (column {at.label!r}) is not clear",
            wrong_labels,
            "expected the number of the choice, from 0, or its text, which must stand there once "
            "and be no number of another choice",
        )
    return found


def choices_of(cell: Any) -> tuple[list[str], list[str]]:
    """The texts of choices and their names, where they have some; none for what is no choices.

    Args:
        cell: JSON source, or a value.

    Example:
        >>> choices_of('{"text": ["red", "blue"], "label": ["A", "B"]}')
        (['red', 'blue'], ['A', 'B'])
    """
    try:
        value = json.loads(cell, parse_int=str, parse_float=str) if isinstance(cell, str) else cell
    except ValueError:
        return [], []
    named = isinstance(value, Mapping)
    texts, names = (value.get("text"), value.get("label", [])) if named else (value, [])
    if not (isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)):
        return [], []
    return list(texts), [str(name) for name in names]


def right_choice(given: str, choices: Sequence[str], names: Sequence[str] = ()) -> int | None:
    """The index of the right choice; None where it is none of them, or several.

    Example:
        >>> right_choice("1", ["red", "blue"]), right_choice("red", ["red", "blue"])
        (1, 0)
        >>> right_choice("1", ["1", "2"]) is None  # the first by its text, the second by number
        True
    """
    if given in names:
        return list(names).index(given)
    meant = {index for index, choice in enumerate(choices) if choice.strip() == given}
    if given.isdecimal() and int(given) < len(choices):
        meant.add(int(given))
    return meant.pop() if len(meant) == 1 else None


def example_of(value: Any) -> ChoiceExample | None:
    """The example that a caller means; None for what is none."""
    question: Any
    context: Any
    match value:
        case ChoiceExample():
            return value
        case (str() as question, list() | tuple() as listed):
            context = None
        case {"choices": listed, **rest}:
            question, context = rest.get("question", ""), rest.get("context")
        case _:
            return None
    choices, _ = choices_of(listed)
    if len(choices) < 2 or not isinstance(question, str):
        return None
    return ChoiceExample(question, tuple(choices), context)
