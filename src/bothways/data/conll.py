r"""Readers of CoNLL and CoNLL-U: one row a sentence, one cell a column, its words a line each.

A cell holds the column of the sentence from top to bottom with "\n" between (`words` splits it);
the cell "line" holds the line of each word in the file, for messages. What the tags mean, and
which column holds them, is for the tagging task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from bothways.data.lines import read_lines
from bothways.data.problems import Problems, shown
from bothways.data.rows import Row

LINE_COLUMN = "line"
CONLLU_COLUMNS = (
    "id",
    "form",
    "lemma",
    "upos",
    "xpos",
    "feats",
    "head",
    "deprel",
    "deps",
    "misc",
)
# Comments of a sentence that are kept as cells of their own.
CONLLU_COMMENTS = ("sent_id", "text")

# Not \s: a no-break space may be a word.
_SPACES = re.compile(r" +")
_WORD_ID = re.compile(r"\d+")
_NO_WORD_ID = re.compile(r"\d+[-.]\d+")
_COMMENT = re.compile(r"#\s*(\S+)\s*=\s*(.*)")

Numbered = tuple[int, str]


def words(cell: str) -> list[str]:
    r"""The words of a cell of a sentence.

    Example:
        >>> words("The\ncat")
        ['The', 'cat']
    """
    return cell.split("\n")


def read_conll(file: str, *, encoding: str) -> Iterator[Row]:
    """Sentences of a CoNLL file: lines of a word and its tags, blank lines between sentences.

    Columns are numbered from "1", split at tabs where the line has one and else at spaces.
    Lines with -DOCSTART- end a sentence and are no word; a line that starts with "# " and is not
    as wide as the others is a comment.

    Raises:
        DataError: for words with fewer or more columns than the first; all are named.
    """
    width = 0
    problems: Problems | None = None
    for sentence in _blocks(read_lines(file, encoding=encoding)):
        kept: list[tuple[int, list[str]]] = []
        for number, line in sentence:
            columns = _columns(line)
            if columns[0] == "-DOCSTART-" or (line.startswith("# ") and len(columns) != width):
                continue
            width = width or len(columns)
            problems = problems or _width_problems(file, width)
            if len(columns) != width:
                problems.add(number, f"{len(columns)}: {shown(line)}")
            kept.append((number, columns))
        if kept and not problems:
            names = [str(column) for column in range(1, width + 1)]
            yield _sentence(file, names, kept, {})
    if problems is not None:
        problems.raise_if_any()


def read_conllu(file: str, *, encoding: str) -> Iterator[Row]:
    """Sentences of a CoNLL-U file, columns by their names there, in small letters.

    The comments `sent_id` and `text` are cells too. Ranges such as "3-4" (a written word that
    is two syntactic ones) and empty nodes such as "8.1" are no words and left out.

    Raises:
        DataError: for lines without ten columns or without an id; all are named.
    """
    problems = Problems(
        file,
        what=f"lines that are not {len(CONLLU_COLUMNS)} columns between tabs, an id first",
        advice="expected the columns " + " ".join(CONLLU_COLUMNS),
    )
    for sentence in _blocks(read_lines(file, encoding=encoding)):
        kept: list[tuple[int, list[str]]] = []
        comments = dict.fromkeys(CONLLU_COMMENTS, "")
        for number, line in sentence:
            if line.startswith("#"):
                comment = _COMMENT.fullmatch(line)
                if comment and comment.group(1) in comments:
                    comments[comment.group(1)] = comment.group(2)
                continue
            columns = line.split("\t")
            if len(columns) == len(CONLLU_COLUMNS) and _WORD_ID.fullmatch(columns[0]):
                kept.append((number, columns))
            elif not _NO_WORD_ID.fullmatch(columns[0]):
                problems.add(number, shown(line))
        if kept and not problems:
            yield _sentence(file, CONLLU_COLUMNS, kept, comments)
    problems.raise_if_any()


def _blocks(lines: Iterable[str]) -> Iterator[list[Numbered]]:
    """Numbered lines between blank ones."""
    block: list[Numbered] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _columns(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else _SPACES.split(line.strip(" "))


def _sentence(
    file: str,
    names: Iterable[str],
    kept: list[tuple[int, list[str]]],
    comments: dict[str, str],
) -> Row:
    turned = zip(*(columns for _, columns in kept), strict=True)
    cells = {name: "\n".join(column) for name, column in zip(names, turned, strict=True)}
    cells |= comments
    cells[LINE_COLUMN] = "\n".join(str(number) for number, _ in kept)
    return Row(cells, file, kept[0][0])


def _width_problems(file: str, width: int) -> Problems:
    return Problems(
        file,
        what=f"lines that do not have {width} columns, as the first has",
        advice="every word needs the same columns, with a blank line between sentences",
    )
