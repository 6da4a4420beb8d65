"""Readers of retrieval sets: documents and queries in SMART format, and relevance judgements.

What a grade is worth, and that Cranfield's judgements number its queries by position, is for the
retrieval tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bothways.data.lines import read_lines
from bothways.data.problems import Problems, shown
from bothways.data.rows import Row
from bothways.errors import DataError

# Cells by the letter of a field; other letters name their cell themselves.
FIELDS = {
    "I": "id",
    "T": "title",
    "A": "author",
    "B": "bibliography",
    "K": "keywords",
    "W": "text",
    "X": "references",
}
QRELS_COLUMNS = ("query", "document", "grade")

_RECORD = re.compile(r"\.I[ \t]+(\S+)[ \t]*")
_FIELD = re.compile(r"\.([A-Z])[ \t]*")
_GRADE = re.compile(r"-?\d+(\.\d+)?")


def read_smart(file: str, *, encoding: str) -> Iterator[Row]:
    """Records of a SMART file.

    Cells: "id" as written (Cranfield's queries have gaps), "number" its position from 1, and one
    a field: title, author, bibliography, keywords, text, references; line ends inside are kept.

    Raises:
        DataError: when the file does not start with a record.
    """
    number = 0
    start = 0
    cells: dict[str, list[str]] = {}
    field: list[str] | None = None
    for line_number, line in enumerate(read_lines(file, encoding=encoding), 1):
        record = _RECORD.fullmatch(line)
        if record:
            if cells:
                yield _row(file, start, cells)
            number += 1
            start = line_number
            cells = {"id": [record.group(1)], "number": [str(number)]}
            field = None
            continue
        mark = _FIELD.fullmatch(line)
        if mark and cells:
            field = cells.setdefault(FIELDS.get(mark.group(1), mark.group(1)), [])
        elif field is not None:
            field.append(line)
        elif line.strip():
            raise DataError(
                f"{file}, line {line_number}: {shown(line)} stands before any field; SMART format "
                "starts each record with a line such as '.I 1' and each field with '.T' or '.W'"
            )
    if cells:
        yield _row(file, start, cells)


def read_qrels(path: str | Path, *, encoding: str = "utf-8") -> Iterator[Row]:
    """Relevance judgements: cells query, document and grade.

    Reads three columns (query document grade, as Cranfield and BEIR have them) and TREC's four
    (query iteration document grade), between spaces or tabs, or between commas where a line has
    neither; a first line without a number is a header.

    Raises:
        DataError: for lines of another width or without a number as grade, all of them named, and
            for a file without judgements.
    """
    file = str(path)
    problems = Problems(
        file,
        what="lines that are no judgements",
        advice="expected 'query document grade' or TREC's 'query iteration document grade'",
    )
    count = 0
    for number, line in enumerate(read_lines(file, encoding=encoding), 1):
        columns = line.split()
        columns = columns if len(columns) != 1 else [cell.strip() for cell in line.split(",")]
        if not columns or (number == 1 and not any(map(_GRADE.fullmatch, columns))):
            continue
        count += 1
        if len(columns) not in (3, 4) or not _GRADE.fullmatch(columns[-1]):
            problems.add(number, shown(line))
        elif not problems:
            values = (columns[0], columns[-2], columns[-1])
            yield Row(dict(zip(QRELS_COLUMNS, values, strict=True)), file, number)
    problems.raise_if_any()
    if not count:
        raise DataError(f"{file} has no judgements; a line such as '1 184 2' was expected")


def _row(file: str, line: int, cells: dict[str, list[str]]) -> Row:
    return Row({name: "\n".join(lines) for name, lines in cells.items()}, file, line)
