"""Which format a data file is in, from its name and first lines; a guess is never silent.

The order of the questions is the order of certainty: bytes that only one format starts with, then
the ending of the name, then the shape of the first lines. Where nothing fits, the error shows what
was seen. Reading the formats is for the readers.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from bothways.data.lines import check_encoding, read_head
from bothways.data.problems import shown
from bothways.errors import DataError

logger = logging.getLogger(__name__)

Format: TypeAlias = Literal[
    "csv", "tsv", "jsonl", "parquet", "label-text", "lines", "conll", "conllu", "squad", "smart"
]
FORMATS: tuple[Format, ...] = get_args(Format)

LINES_LOOKED_AT = 50

# By the ending of the name, ".gz" taken off. "csv" and "json" say little: their lines are asked.
ENDINGS: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".conllu": "conllu",
    ".smart": "smart",
}

_TAG = re.compile(r"(O|[BIESLUM]-\S+|-DOCSTART-.*)")
_TOKEN_LINE = re.compile(r"\d+([-.]\d+)?\t([^\t]*\t){8}[^\t]*")
_LABEL_LINE = re.compile(r"(\S+)[ \t](.*)")
_LETTER = re.compile(r"[^\W\d_]")


def detect_format(path: str | Path, *, encoding: str = "utf-8") -> Format:
    """The format of a data file.

    Raises:
        DataError: when the file cannot be read or fits no format; shows its first line.

    Example:
        >>> detect_format("train.csv")
        'csv'
    """
    head = read_head(path)
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.decode(check_encoding(encoding), errors="replace")
    lines = _first_lines(text, whole=len(head) < 1 << 16)
    ending = _ending(path)
    if ending in ENDINGS:
        return ENDINGS[ending]
    if ending == ".csv":
        return _commas_or_tabs(path, lines)
    found = _by_lines(lines)
    if found is None:
        raise DataError(_unknown(path, ending, text, lines))
    logger.info("%s: read as %s, by its first lines", path, found)
    return found


def begins_with_marks(path: str | Path, *, encoding: str = "utf-8") -> bool:
    """Whether the first line has two marked entities, as files of SemEval-2010 task 8 do.

    Such files have neither a header nor quoted cells.
    """
    line = read_head(path).decode(check_encoding(encoding), errors="replace").split("\n")[0]
    return all(mark in line for mark in ("<e1>", "</e1>", "<e2>", "</e2>"))


def _first_lines(text: str, *, whole: bool) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not whole or not lines[-1]:
        lines.pop()  # it may be cut in the middle
    return lines[:LINES_LOOKED_AT] or [text]


def _ending(path: str | Path) -> str:
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def _commas_or_tabs(path: str | Path, lines: list[str]) -> Format:
    """Files with tabs are often named csv: tabs in all lines and commas not in all decide."""
    filled = [line for line in lines if line.strip()]
    if filled and all("\t" in line for line in filled) and not all("," in line for line in filled):
        logger.info("%s: read as tsv, since all of its first lines have tabs", path)
        return "tsv"
    return "csv"


def _by_lines(lines: list[str]) -> Format | None:
    return next((name for name, fits in _SHAPES if fits(lines)), None)


def _is_json_lines(lines: list[str]) -> bool:
    try:
        return isinstance(json.loads(lines[0]), dict) and "paragraphs" not in lines[0]
    except ValueError:
        return False


def _is_squad(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return text.lstrip().startswith("{") and '"paragraphs"' in text


def _is_smart(lines: list[str]) -> bool:
    return re.match(r"\.I \d+\s*$", lines[0]) is not None


def _is_conllu(lines: list[str]) -> bool:
    filled = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(filled) and all(_TOKEN_LINE.fullmatch(line) for line in filled)


def _is_conll(lines: list[str]) -> bool:
    columns = [line.split() for line in lines if line.strip() and not line.startswith("# ")]
    return bool(columns) and all(
        len(row) >= 2 and (_TAG.fullmatch(row[-1]) or row[0] == "-DOCSTART-") for row in columns
    )


def _is_tsv(lines: list[str]) -> bool:
    filled = [line for line in lines if line.strip()]
    return bool(filled) and all("\t" in line for line in filled)


def _is_label_text(lines: list[str]) -> bool:
    """Lines start with a word, and these words are numbers or come again and again."""
    found = [_LABEL_LINE.fullmatch(line) for line in lines if line.strip()]
    labels = [match.group(1) for match in found if match]
    if not labels or len(labels) < len(found):
        return False
    with_letters = sum(bool(match and _LETTER.search(match.group(2))) for match in found)
    if 2 * with_letters < len(found):  # numbers after numbers, as in relevance judgements
        return False
    return all(label.isdigit() for label in labels) or len(set(labels)) <= len(labels) // 2


_SHAPES: tuple[tuple[Format, Callable[[list[str]], bool]], ...] = (
    ("squad", _is_squad),
    ("jsonl", _is_json_lines),
    ("smart", _is_smart),
    ("conllu", _is_conllu),
    ("conll", _is_conll),
    ("tsv", _is_tsv),
    ("label-text", _is_label_text),
)


def _unknown(path: str | Path, ending: str, text: str, lines: list[str]) -> str:
    seen = f"its name ends in {ending!r}" if ending else "its name has no ending"
    message = f"{path}: cannot tell its format: {seen} and it starts with {shown(lines[0])}"
    if text.lstrip().startswith("["):
        return message + "; this is a JSON list: write one object a line (jq -c '.[]')"
    return message + f"; give --format {'|'.join(FORMATS)} (lines: each is a text)"
