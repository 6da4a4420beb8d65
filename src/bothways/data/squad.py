"""Reader of SQuAD 1.1 and 2.0 JSON: one row a question.

The file is one JSON value, so it is held in memory. Whether an answer stands at its offset is for
the answering task to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bothways.data.json_lines import find_surrogate
from bothways.data.lines import read_text
from bothways.data.rows import Row
from bothways.errors import DataError

SQUAD_COLUMNS = (
    "id",
    "title",
    "paragraph",
    "question",
    "context",
    "answers",
    "is_impossible",
)


def read_squad(file: str, *, encoding: str) -> Iterator[Row]:
    """Questions of a SQuAD file.

    Cells: "answers" is the JSON list of the file ({"text", "answer_start"} each);
    "is_impossible" is true or false; "paragraph" numbers the contexts from 1, so that a split by
    it keeps the questions of a context together. `line` is that of the question's id.

    Raises:
        DataError: when the file is no JSON, or lacks what the format requires, with the place.
    """
    source = read_text(file, encoding=encoding)
    try:
        document = json.loads(source)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"{file}, line {line}: not valid JSON: {error}") from error
    surrogate = find_surrogate(source)
    if surrogate is not None:
        raise DataError(f"{file}: {surrogate}")
    lines = _Lines(source)
    paragraph = 0
    for number, article in enumerate(_list(file, document, "data", "the file")):
        place = f"data[{number}]"
        for inner, block in enumerate(_list(file, article, "paragraphs", place)):
            paragraph += 1
            where = f"{place}.paragraphs[{inner}]"
            context = _text(file, block, "context", where)
            for index, question in enumerate(_list(file, block, "qas", where)):
                here = f"{where}.qas[{index}]"
                identity = _text(file, question, "id", here)
                cells = {
                    "id": identity,
                    "title": str(article.get("title", "")),
                    "paragraph": str(paragraph),
                    "question": _text(file, question, "question", here),
                    "context": context,
                    "answers": json.dumps(question.get("answers", []), ensure_ascii=False),
                    "is_impossible": "true" if question.get("is_impossible") else "false",
                }
                yield Row(cells, file, lines.of(identity))


class _Lines:
    """Finds the lines of ids that are asked for in the order of the file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._line = 1

    def of(self, identity: str) -> int:
        """The line of the next place with this id, or of the last id where it is spelt oddly."""
        spelt = (json.dumps(identity), json.dumps(identity, ensure_ascii=False))
        places = [self._source.find(spelling, self._position) for spelling in spelt]
        found = min((place for place in places if place >= 0), default=-1)
        if found >= 0:
            self._line += self._source.count("\n", self._position, found)
            self._position = found
        return self._line


def _list(file: str, value: Any, key: str, place: str) -> list[Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, list):
        raise DataError(f"{file}: {place} has no list {key!r}; expected SQuAD's JSON")
    return inner


def _text(file: str, value: Any, key: str, place: str) -> str:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, str):
        raise DataError(f"{file}: {place} has no text {key!r}; expected SQuAD's JSON")
    return inner
