"""The lines of a text file, decoded, numbered from 1, with clear errors; and its first bytes.

Opens plain and gzip files (known by their first bytes, not their names). Only a line feed ends a
line, so that the form feeds, next-line characters and lone carriage returns of real text stay in
it. What the lines mean is for the readers.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from bothways.data.problems import Problems
from bothways.errors import DataError, UsageError

GZIP_MAGIC = b"\x1f\x8b"
# First bytes of files that are no text, and what to do about them.
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as csv",
    b"\xff\xfe": "text in UTF-16; give --encoding utf-16",
    b"\xfe\xff": "text in UTF-16; give --encoding utf-16",
    b"%PDF": "a PDF; extract its text first",
    b"PAR1": "a parquet file; give --format parquet",
    b"ARROW1": "an Arrow file; save it as parquet",
    b"SQLite format 3": "a SQLite database; export the table as csv",
}


def open_bytes(path: str | Path) -> BinaryIO:
    """A data file opened for reading bytes, unpacked if it is gzip.

    Raises:
        DataError: when it is missing, a folder, or may not be read.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(entry.name for entry in path.iterdir() if entry.is_file())[:10]
        inside = "it holds " + ", ".join(files) if files else "it holds no files"
        raise DataError(f"{path} is a folder, and one data file was expected; {inside}")
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is no regular file; write its content into a file first")
        with path.open("rb") as stream:
            packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")
    except FileNotFoundError:
        raise DataError(f"there is no file {path} (looked in {Path.cwd()})") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def read_head(path: str | Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, unpacked if it is gzip.

    Raises:
        DataError: when the file cannot be read or has no bytes.
    """
    with open_bytes(path) as stream, _unpacking(path):
        head = stream.read(size)
    if not head:
        raise DataError(f"{path} is empty; a file with at least one row was expected")
    return head


def check_encoding(encoding: str) -> str:
    """The name of an encoding as Python writes it; a byte-order mark of UTF-8 is skipped.

    Raises:
        UsageError: when Python knows no such encoding of text.
    """
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)
    except LookupError:
        raise UsageError(
            f"there is no text encoding {encoding!r}; common ones are utf-8, latin-1, cp1252, "
            "utf-16, gb18030, shift_jis, euc-kr, big5, koi8-r"
        ) from None
    return "utf-8-sig" if name == "utf-8" else name


def read_lines(
    path: str | Path, *, encoding: str = "utf-8", keep_ends: bool = False
) -> Iterator[str]:
    """Lines of a file in order.

    Args:
        path: the file, plain or gzip.
        encoding: of its text.
        keep_ends: leave the line feed, or carriage return and line feed, on each line.

    Raises:
        UsageError: for an unknown encoding.
        DataError: when the file cannot be read or has bytes that the encoding does not allow;
            names the lines.

    Example:
        >>> for number, line in enumerate(read_lines("reviews.txt", encoding="latin-1"), 1): ...
    """
    name = check_encoding(encoding)
    _refuse_other_kinds(path, name)
    with open_bytes(path) as stream, _unpacking(path):
        # Where a line feed is one byte, lines are cut before decoding, so that an error knows
        # its line. UTF-16 and UTF-32 are decoded as a stream.
        if "\n".encode(name.removesuffix("-sig")) == b"\n":
            lines = _decoded(stream, str(path), name, encoding)
        else:
            lines = _decoded_stream(stream, str(path), name)
        yield from lines if keep_ends else map(_without_end, lines)


def read_text(path: str | Path, *, encoding: str = "utf-8") -> str:
    """A whole file, for formats that are one value."""
    return "".join(read_lines(path, encoding=encoding, keep_ends=True))


def _decoded(stream: BinaryIO, file: str, name: str, asked: str) -> Iterator[str]:
    advice = (
        "if the file is in an older encoding, name it: --encoding latin-1 (or cp1252)"
        if name == "utf-8-sig"
        else f"is the file really in {asked}? the usual one is --encoding utf-8"
    )
    problems = Problems(file, what=f"lines that are not {asked}", advice=advice)
    later = name.removesuffix("-sig")
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.decode(name if number == 1 else later)
        except UnicodeDecodeError as error:
            problems.add(number, _bad_bytes(raw, error))
            continue
        if not problems:
            yield line
    problems.raise_if_any()


def _decoded_stream(stream: BinaryIO, file: str, name: str) -> Iterator[str]:
    number = 0
    try:
        with io.TextIOWrapper(stream, encoding=name, newline="\n") as text:
            for line in text:
                number += 1
                yield line
    except UnicodeError as error:
        raise DataError(f"{file}, after line {number}: not {name}: {error}") from error


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _bad_bytes(raw: bytes, error: UnicodeDecodeError) -> str:
    near = raw[max(0, error.start - 20) : error.start + 20].decode("ascii", "backslashreplace")
    return f"byte 0x{raw[error.start]:02x} at position {error.start + 1}, in '{near.strip()}'"


def _refuse_other_kinds(path: str | Path, name: str) -> None:
    if name.startswith(("utf-16", "utf-32")):
        return
    head = read_head(path, 64)
    for magic, what in NOT_TEXT.items():
        if head.startswith(magic):
            raise DataError(f"{path} is not text but {what}")


@contextlib.contextmanager
def _unpacking(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file: {error}") from error
