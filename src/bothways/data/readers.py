"""`read_rows`: the one way from a data file to rows, whatever its format; and how to ask rows.

The formats are read in `tables.py`, `json_lines.py`, `parquet.py`, `conll.py`, `squad.py` and
`smart.py`, and told apart in `detection.py`. Text corpora for pretraining are no rows and are not
read here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from bothways.data.conll import read_conll, read_conllu
from bothways.data.detection import FORMATS, Format, detect_format
from bothways.data.json_lines import read_json_lines
from bothways.data.lines import check_encoding, read_head
from bothways.data.parquet import read_parquet
from bothways.data.problems import Problems, columns_of
from bothways.data.rows import Row
from bothways.data.smart import read_smart
from bothways.data.squad import read_squad
from bothways.data.tables import read_label_text, read_table, read_texts
from bothways.errors import DataError, UsageError, nearest

logger = logging.getLogger(__name__)


class Rows(Iterator[Row]):
    """The rows of a file, read as they are asked for; an iterator, so once only.

    Attributes:
        file: path as given.
        format: that the file is read in.
        count: rows handed out so far.
        nulls: nulls of jsonl or parquet handed out so far as empty cells, by column.
    """

    def __init__(self, file: str, format: Format, rows: Iterator[Row], nulls: Counter[str]) -> None:  # noqa: A002
        self.file = file
        self.format = format
        self.count = 0
        self.nulls = nulls
        self._rows = rows
        self._finished = False

    def __next__(self) -> Row:
        """The next row; after the last, nulls are logged, and a file without rows is an error."""
        try:
            row = next(self._rows)
        except StopIteration:
            self._finish()
            raise
        self.count += 1
        return row

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        if not self.count:
            raise DataError(
                f"{self.file} has no rows (read as {self.format}); a file with at least one row "
                "was expected"
            )
        empty = {column: count for column, count in self.nulls.items() if count}
        if empty:
            listed = ", ".join(f"{count} in {column!r}" for column, count in empty.items())
            logger.warning("%s: null read as empty text: %s", self.file, listed)


def read_rows(
    path: str | Path,
    *,
    format: Format | Literal["auto"] = "auto",  # noqa: A002
    encoding: str = "utf-8",
    header: bool = True,
    quoting: bool = True,
) -> Rows:
    """Rows of a data file in order, streamed, every cell text.

    "NA", "null", "01" and "1.0" stay what they are. Files may be packed with gzip. A file that is
    wrong somewhere gives no rows after that place; its error names all lines of the kind.

    Args:
        path: the file.
        format: its format; "auto" asks the name and the first lines.
        encoding: of its text; a byte-order mark of UTF-8 is skipped.
        header: whether the first record of a csv or tsv names its columns; without, columns are
            numbers from "1" (of `label text` lines too).
        quoting: whether double quotes around a csv or tsv cell are not part of it.

    Raises:
        UsageError: for an unknown format or encoding.
        DataError: at once for a missing or empty file or one of unknown format; while reading
            for what is wrong inside, with file and line.

    Example:
        >>> rows = list(read_rows("train.csv"))
        >>> rows[0].cells["text"], rows[0].line
        ('I am still waiting on my card?', 2)
    """
    file = str(path)
    if format != "auto" and format not in FORMATS:
        raise UsageError(f"there is no format {format!r}; {nearest(format, ['auto', *FORMATS])}")
    check_encoding(encoding)
    read_head(path, 1)
    chosen = detect_format(path, encoding=encoding) if format == "auto" else format
    nulls: Counter[str] = Counter()
    rows = _open(file, chosen, encoding=encoding, header=header, quoting=quoting, nulls=nulls)
    return Rows(file, chosen, rows, nulls)


def _open(
    file: str,
    chosen: Format,
    *,
    encoding: str,
    header: bool,
    quoting: bool,
    nulls: Counter[str],
) -> Iterator[Row]:
    match chosen:
        case "csv" | "tsv":
            delimiter = "," if chosen == "csv" else "\t"
            return read_table(
                file, delimiter=delimiter, encoding=encoding, header=header, quoting=quoting
            )
        case "label-text":
            return read_label_text(file, encoding=encoding, header=header)
        case "lines":
            return read_texts(file, encoding=encoding, header=header)
        case "jsonl":
            return read_json_lines(file, encoding=encoding, nulls=nulls)
        case "parquet":
            return read_parquet(file, nulls=nulls)
        case "conll":
            return read_conll(file, encoding=encoding)
        case "conllu":
            return read_conllu(file, encoding=encoding)
        case "squad":
            return read_squad(file, encoding=encoding)
        case "smart":
            return read_smart(file, encoding=encoding)


def cell(row: Row, column: str) -> str:
    """The text of one column of a row.

    Raises:
        DataError: when the row has no such column; names those there are and the nearest.

    Example:
        >>> cell(Row({"text": "fine"}, "a.csv", 2), "text")
        'fine'
    """
    try:
        return row.cells[column]
    except KeyError:
        raise DataError(f"{row.place}: {_missing(row.file, column, list(row.cells))}") from None


def check_columns(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Passes rows on, as long as each has all of the columns.

    Args:
        rows: of one file.
        columns: names, or numbers where the file has no header.

    Raises:
        DataError: when the first row lacks a column, naming those there are and the nearest; or
            after the last row, when later ones lack some (jsonl, tables without header), naming
            them all.
    """
    problems: Problems | None = None
    for row in rows:
        missing = [column for column in columns if column not in row.cells]
        if problems is None:
            if missing:
                sentences = [_missing(row.file, column, list(row.cells)) for column in missing]
                raise DataError(f"{row.place}: " + "; ".join(sentences))
            problems = Problems(
                row.file, what="rows that lack a column", advice="every row needs these columns"
            )
        if missing:
            problems.add(row.line, "no " + ", ".join(map(repr, missing)))
        elif not problems:
            yield row
    if problems is not None:
        problems.raise_if_any()


def _missing(file: str, column: str, there: list[str]) -> str:
    """A sentence about a column that is not there."""
    guess = nearest(column, there)
    near = guess.startswith("did you mean")
    columns = columns_of(file, there, hint=not near)
    return f"there is no column {column!r}; the columns are {columns}{f'; {guess}' * near}"
