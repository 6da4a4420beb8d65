"""`Corpus`: the documents of raw text, streamed from files or from the hub.

Text files are cut into documents at blank lines, at every line or not at all; every row of a jsonl,
parquet, csv or tsv file, and of a data set on the hub, is a document. Labelled data is read by
`readers.py`, and what becomes of documents is in `prepare.py` and in tokenizer training.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from bothways.data.lines import read_lines
from bothways.data.readers import cell, read_rows
from bothways.data.rows import Row
from bothways.errors import DataError, MissingExtraError

logger = logging.getLogger(__name__)

Boundary = Literal["blank-line", "line", "file"]

TEXT_COLUMN = "text"
_ROW_ENDINGS = (".jsonl", ".ndjson", ".parquet", ".pq", ".csv", ".tsv")
_HUB_NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(:(?P<subset>[\w.-]*))?(:(?P<split>[\w.-]+))?")


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of the inputs; can be read again and again.

    Attributes:
        inputs: files, or names on the hub: "owner/name", "owner/name:subset:split".
        document: where documents end in text files: blank lines (lines, in a file that has no
            blank line between lines), every line, or the end of the file.
        text: the column that holds the text, in files of rows; None: "text", or the only one.
        encoding: of the characters.

    Raises:
        DataError: when an input is neither a file nor a name on the hub; names them all.

    Example:
        >>> for document in Corpus(("a.txt", "b.jsonl")): ...
    """

    inputs: tuple[str, ...]
    document: Boundary = "blank-line"
    text: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        wrong = [name for name in self.inputs if not Path(name).is_file() and not _on_hub(name)]
        if wrong or not self.inputs:
            listed = ", ".join(wrong) or "none were given"
            raise DataError(
                f"input files that are not there: {listed} (looked in {Path.cwd()}); expected "
                "text, jsonl or parquet files, or data sets on the hub as owner/name"
            )

    def __iter__(self) -> Iterator[str]:
        """The documents; those of white space alone are left out.

        Raises:
            DataError: for what is wrong inside a file, with file and line.
        """
        for _, document in self.located():
            yield document

    def located(self) -> Iterator[tuple[str, str]]:
        """The documents, each with the input it comes from. Raises as iterating does."""
        for name in self.inputs:
            for document in self._documents(name):
                if document and not document.isspace():
                    yield name, document

    def _documents(self, name: str) -> Iterator[str]:
        if not Path(name).is_file():
            rows = _hub_rows(name)
        elif name.removesuffix(".gz").endswith(_ROW_ENDINGS):
            rows = read_rows(name, encoding=self.encoding)
        elif Path(name).stat().st_size == 0:
            logger.warning("%s is empty", name)
            return
        else:
            yield from self._cut(name)
            return
        yield from _texts(rows, self.text)

    def _cut(self, name: str) -> Iterator[str]:
        lines = read_lines(name, encoding=self.encoding)
        if self.document == "file":
            yield "\n".join(lines)
        elif self.document == "line" or not self._has_blank_line(name):
            yield from lines
        else:
            yield from _blocks(lines)

    def _has_blank_line(self, name: str) -> bool:
        """Whether a blank line stands between others."""
        text = blank = False
        for line in read_lines(name, encoding=self.encoding):
            if line.strip():
                if blank:
                    return True
                text = True
            else:
                blank = text
        logger.info("%s has no blank line between lines: every line is a document", name)
        return False


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []
    if block:
        yield "\n".join(block)


def _texts(rows: Iterable[Row], column: str | None) -> Iterator[str]:
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return
    if column is None:
        column = next(iter(first.cells)) if len(first.cells) == 1 else TEXT_COLUMN
    for row in chain([first], iterator):
        yield cell(row, column)


def _on_hub(name: str) -> bool:
    """Whether a name can only mean a data set on the hub, and not a file that is missing."""
    looks = _HUB_NAME.fullmatch(name)
    if looks is None or name.startswith((".", "/", "~")):
        return False
    return not Path(name).parent.is_dir() and not re.search(r"\.(txt|gz|\w*json\w*)$", name)


def _hub_rows(name: str) -> Iterator[Row]:
    found = _HUB_NAME.fullmatch(name)
    assert found is not None, name
    return stream_rows(found["name"], subset=found["subset"] or None, split=found["split"])


def stream_rows(
    source: str, *, subset: str | None = None, split: str | None = None
) -> Iterator[Row]:
    """Rows of a data set, streamed by the `datasets` library; values that are no text left out.

    Args:
        source: a name on the hub, or a folder of data files.
        subset: one of its configurations.
        split: one of its splits; None: train.

    Raises:
        MissingExtraError: when `datasets` is not installed.
        DataError: when there is no such data set, or it cannot be had.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "datasets") from error
    split = split or "train"
    try:
        rows: Iterable[dict[str, Any]] = datasets.load_dataset(
            source, subset, split=split, streaming=True
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"{source} is neither a file here nor a data set on the hub that can be read: "
            f"{str(error).splitlines()[0]}; check the name, the connection, and subset and split "
            "(owner/name:subset:split)"
        ) from error
    for number, row in enumerate(rows, 1):
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        yield Row(texts, source, number)
