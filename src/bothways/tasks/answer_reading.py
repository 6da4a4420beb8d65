"""Questions, contexts and answers of rows: SQuAD's JSON, or one object a line.

Answers are a list of {"text", "answer_start"} or {"text": [...], "answer_start": [...]}; an empty
list is a question without an answer. Offsets count characters. An answer that does not stand where
it says would teach something else, so that training refuses it; judging compares texts only.
Finding answers is in `answer_search.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bothways.data.problems import shown
from bothways.data.rows import Row
from bothways.errors import agreeing, counted
from bothways.tasks.columns import find_columns, refuse
from bothways.tasks.task import Columns

logger = logging.getLogger(__name__)

USUAL = Columns(text="question", text_pair="context", label="answers")


@dataclass(frozen=True)
class Answer:
    """An answer that counts as right.

    Attributes:
        text: as given.
        start: its first character in the context; None where it does not stand where it says.
    """

    text: str
    start: int | None

    @property
    def end(self) -> int | None:
        """After its last character."""
        return None if self.start is None else self.start + len(self.text)


@dataclass(frozen=True)
class AnswerExample:
    """A question on a context.

    Attributes:
        question: its text.
        context: where the answer is sought.
        answers: those that count as right, the first is learned; empty where there is none, None
            where that is not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to; the context, unless a column says otherwise.
    """

    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    place: str = ""
    group: str | None = None

    @property
    def text(self) -> str:
        """The question."""
        return self.question

    @property
    def pair(self) -> str:
        """The context."""
        return self.context


def read_answers(
    rows: Sequence[Row],
    columns: Columns,
    *,
    labelled: bool,
    learning: bool,
    drop_misaligned: bool = False,
) -> list[AnswerExample]:
    """Examples of rows.

    Args:
        rows: of one file, or of several with the same columns.
        columns: those the caller named, or that training stored.
        labelled: whether answers are read.
        learning: whether each answer must stand where it says.
        drop_misaligned: while learning, leave out those that do not, and their question where it
            has no other.

    Raises:
        DataError: for missing columns, cells or answers, and answers that are not where they say,
            each with all its rows.
    """
    if not rows:
        return []
    at = find_columns(rows, _over_usual(columns, rows), labelled=labelled)
    for column in filter(None, (at.text, at.text_pair, at.label, at.group)):
        absent = [row.place for row in rows if column not in row.cells]
        if absent:
            refuse(f"rows without {column!r}", absent, "give each row that field, if empty")
    answers: list[tuple[Answer, ...] | None] = [None] * len(rows)
    if labelled:
        answers = [*_answers(rows, at, learning=learning)]
    examples = [
        AnswerExample(
            question=row.cells[at.text or ""],
            context=row.cells[at.text_pair or ""],
            answers=given,
            place=row.place,
            group=row.cells[at.group or at.text_pair or ""],
        )
        for row, given in zip(rows, answers, strict=True)
    ]
    say_empty(examples)
    return _aligned(examples, learning=learning, drop=drop_misaligned) if labelled else examples


def say_empty(examples: Sequence[AnswerExample]) -> None:
    """Log how many contexts are empty; their questions have no answer."""
    empty = [example for example in examples if not example.context.strip()]
    if empty:
        where = f" (the first: {empty[0].place})" if empty[0].place else ""
        logger.warning(
            "%d of %s %s empty, where no answer can be found%s",
            len(empty),
            counted(len(examples), "context"),
            agreeing(len(empty), "are"),
            where,
        )


def _over_usual(columns: Columns, rows: Sequence[Row]) -> Columns:
    """The named columns, else the usual ones; a group is only what is there."""
    group = columns.group
    if group is not None and not any(group in row.cells for row in rows):
        group = None
    return Columns(
        columns.text or USUAL.text,
        columns.text_pair or USUAL.text_pair,
        columns.label or USUAL.label,
        group,
    )


def _answers(rows: Sequence[Row], at: Columns, *, learning: bool) -> list[tuple[Answer, ...]]:
    """The answers of each row, as they say of themselves."""
    found, unreadable, contradicting = [], [], []
    for row in rows:
        source = row.cells[at.label or ""]
        try:
            given = parse_answers(source, need_start=learning)
        except ValueError as error:
            unreadable.append(f"{row.place}: {error}, in {shown(source)}")
            continue
        found.append(given)
        impossible = row.cells.get("is_impossible", "")
        if impossible in ("true", "false") and (impossible == "true") == bool(given):
            contradicting.append(f"{row.place}: {len(given)} answers, is_impossible {impossible}")
    if unreadable:
        refuse(
            "rows whose answers cannot be read",
            unreadable,
            'expected [{"text": "...", "answer_start": 12}], or {"text": ["..."], "answer_start": '
            "[12]}; an empty list where there is no answer",
        )
    if contradicting:
        refuse(
            "questions whose answers contradict is_impossible",
            contradicting,
            "a question without an answer has an empty list and is_impossible true. To predict "
            "questions that nobody has answered, use `bothways predict`",
        )
    return found


def parse_answers(source: str, *, need_start: bool) -> tuple[Answer, ...]:
    """Answers of their JSON, in either form; not yet compared with the context.

    Args:
        source: a JSON value.
        need_start: whether each needs an offset.

    Raises:
        ValueError: when it is neither form.

    Example:
        >>> parse_answers('{"text": ["Rhine"], "answer_start": [4]}', need_start=True)
        (Answer(text='Rhine', start=4),)
    """
    value = json.loads(source)
    if isinstance(value, Mapping):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list):
            raise ValueError("no list 'text'")
        starts = [None] * len(texts) if starts is None else starts
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise ValueError("'text' and 'answer_start' are not lists of the same length")
        value = [
            {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
        ]
    if not isinstance(value, list):
        raise ValueError("neither a list nor an object")
    return tuple(_answer(each, need_start=need_start) for each in value)


def _answer(value: Any, *, need_start: bool) -> Answer:
    text = value.get("text") if isinstance(value, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("an answer without a text")
    start = value.get("answer_start")
    if start is None and not need_start:
        return Answer(text, None)
    if not isinstance(start, int) or isinstance(start, bool):
        raise ValueError("an answer whose 'answer_start' is no whole number")
    return Answer(text, start)


def _aligned(
    examples: Sequence[AnswerExample], *, learning: bool, drop: bool
) -> list[AnswerExample]:
    """The examples with what is wrong about offsets refused, left out, or only counted."""
    wrong = [
        (number, answer)
        for number, example in enumerate(examples)
        for answer in example.answers or ()
        if answer.start is not None and not _stands(example.context, answer)
    ]
    if not wrong:
        return list(examples)
    if learning and not drop:
        refuse(
            "answers that do not stand at their answer_start",
            (_told(examples[number], answer) for number, answer in wrong),
            "offsets count characters (code points, not bytes or UTF-16 units) from 0. Mend them, "
            "or leave these answers out with --drop-misaligned",
        )
    bad = {id(answer) for _, answer in wrong}
    kept: list[AnswerExample] = []
    for example in examples:
        given = example.answers or ()
        right = tuple(answer for answer in given if id(answer) not in bad)
        if not learning:
            told = (Answer(a.text, None) if id(a) in bad else a for a in given)
            kept.append(replace(example, answers=tuple(told)))
        elif right or not given:
            kept.append(replace(example, answers=right))
    logger.warning(
        "%s not at the stated answer_start: %s (the first: %s)",
        counted(len(wrong), "answer"),
        f"left out, with {counted(len(examples) - len(kept), 'question')} that had no other"
        if learning
        else "predictions are compared with the text",
        _told(examples[wrong[0][0]], wrong[0][1]),
    )
    return kept


def _stands(context: str, answer: Answer) -> bool:
    start = answer.start
    assert start is not None
    return start >= 0 and context.startswith(answer.text, start)


def _told(example: AnswerExample, answer: Answer) -> str:
    start, length = answer.start or 0, len(answer.text)
    there = example.context[start : start + length] if start >= 0 else ""
    place = example.place or "an example"
    return f"{place}: {shown(answer.text)} at {start}, where the context has {shown(there)}"
