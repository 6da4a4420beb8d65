"""Readers of csv, tsv and `label text` lines: records of cells, every cell text.

The csv module splits quoted records; a file without quoting is split at its delimiter and nothing
else, so that a quote is a character like any other. Columns are named by the header, or numbered
from 1. Which reader a file needs is decided in `readers.py`.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from bothways.data.lines import read_lines
from bothways.data.problems import Problems, shown
from bothways.data.rows import Row
from bothways.errors import DataError

logger = logging.getLogger(__name__)

# The csv module refuses longer cells, and by default it does so at 131,072 characters, less than
# a long document. The setting is the process's, and is only ever raised; this is a C long.
LONGEST_CELL = 2**31 - 1

_LABEL_LINE = re.compile(r"[ \t]*(\S+)(?:[ \t](.*))?")


def read_table(
    file: str, *, delimiter: str, encoding: str, header: bool, quoting: bool
) -> Iterator[Row]:
    """Rows of a csv or tsv file.

    With a header, or with quoting, every row must be as wide as the first. Without both, rows may
    have more cells or fewer, as in files that end with optional columns.

    Args:
        file: path.
        delimiter: one character between cells.
        encoding: of the text.
        header: the first record names the columns.
        quoting: a cell in double quotes may hold delimiters, line ends and doubled quotes.

    Raises:
        DataError: for rows of another width, all of them named, and for quotes that do not close.
    """
    records = _quoted(file, delimiter, encoding) if quoting else _plain(file, delimiter, encoding)
    names: list[str] = []
    problems: Problems | None = None
    for line, cells in records:
        blank = len(cells) == 1 and not cells[0].strip()
        if not names:
            if header and blank:
                continue
            names = _header(file, line, cells) if header else _numbers(cells)
            if header or quoting:
                problems = _width_problems(file, names, delimiter, quoting)
            if header:
                continue
        if blank and len(names) > 1:
            continue  # in a table of one column it is an empty text
        if problems is None:
            yield Row(dict(zip(_numbers(cells), cells, strict=True)), file, line)
        elif len(cells) != len(names):
            problems.add(line, f"{len(cells)}, starting with {shown(cells[0])}")
        elif not problems:
            yield Row(dict(zip(names, cells, strict=True)), file, line)
    if problems is not None:
        problems.raise_if_any()


def read_label_text(file: str, *, encoding: str, header: bool) -> Iterator[Row]:
    """Rows of a file whose lines are a label, a space or tab, and a text.

    Columns are "label" and "text", or with `header` off "1" and "2"; there is no header line in
    either case. Blank lines are skipped.

    Raises:
        DataError: for lines that are one word, all of them named.
    """
    label_column, text_column = ("label", "text") if header else ("1", "2")
    problems = Problems(
        file,
        what="lines with a label and no text after it",
        advice="expected a label, a space and the text on each line",
    )
    for number, line in enumerate(read_lines(file, encoding=encoding), 1):
        match = _LABEL_LINE.fullmatch(line)
        if match is None:
            continue
        label, text = match.groups()
        if text is None:
            problems.add(number, shown(line))
        elif not problems:
            yield Row({label_column: label, text_column: text.lstrip(" \t")}, file, number)
    problems.raise_if_any()


def read_texts(file: str, *, encoding: str, header: bool) -> Iterator[Row]:
    """A row a line, the whole of it a text; its column is "text", or with `header` off "1"."""
    column = "text" if header else "1"
    for number, line in enumerate(read_lines(file, encoding=encoding), 1):
        yield Row({column: line}, file, number)


def _quoted(file: str, delimiter: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their first line."""
    if csv.field_size_limit() < LONGEST_CELL:
        csv.field_size_limit(LONGEST_CELL)
    lines = read_lines(file, encoding=encoding, keep_ends=True)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    swallowed = 0
    line = 1
    try:
        for cells in reader:
            # A quote that opens by accident takes in all up to the next one. Where that leaves
            # the widths right, only the tabs inside the cell tell.
            if delimiter == "\t" and any("\n" in cell and "\t" in cell for cell in cells):
                swallowed += 1
                if swallowed == 1:
                    logger.warning(
                        "%s, line %d: a quoted cell goes over several lines with tabs in them; "
                        "if its quotes are plain characters, give --no-quoting",
                        file,
                        line,
                    )
            yield line, cells or [""]
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{file}, line {line}: the quotes do not fit: {error}. A quote inside a quoted cell "
            "is written twice; if quotes are plain characters here, give --no-quoting"
        ) from error


def _plain(file: str, delimiter: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(file, encoding=encoding), 1):
        yield number, line.split(delimiter)


def _numbers(cells: Sequence[str]) -> list[str]:
    return [str(number) for number in range(1, len(cells) + 1)]


def _header(file: str, line: int, cells: Sequence[str]) -> list[str]:
    """Column names; one without a name gets its number, as the index that pandas writes."""
    names = [cell.strip() or str(number) for number, cell in enumerate(cells, 1)]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(
            f"{file}, line {line}: columns with the same name: {', '.join(map(repr, twice))}; "
            "rename them, or give --no-header if the file has no header"
        )
    return names


def _width_problems(file: str, names: Sequence[str], delimiter: str, quoting: bool) -> Problems:
    cell = "tab" if delimiter == "\t" else "comma"
    advice = (
        f"put cells that hold a {cell} in quotes; if quotes are plain characters here, give "
        "--no-quoting"
        if quoting
        else f"a cell cannot hold a {cell} without quoting"
    )
    return Problems(file, what=f"rows that do not have {len(names)} cells", advice=advice)
