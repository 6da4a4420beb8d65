r"""Reader of jsonl: one JSON object a line, every value as the text that stands in the file.

`01`, `1.0` and `true` keep their spelling: a string is its content, anything else is the piece
of source between its first and last character, and null is an empty cell that is counted. JSON
files that are one value (SQuAD) are in `squad.py`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from bothways.data.lines import read_lines
from bothways.data.problems import Problems, shown
from bothways.data.rows import Row

_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Numbers as written: they are not needed as numbers, and Python refuses very long ones.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def read_json_lines(file: str, *, encoding: str, nulls: Counter[str]) -> Iterator[Row]:
    """Rows of a jsonl file; blank lines are skipped.

    Args:
        file: path.
        encoding: of the text.
        nulls: counts, by column, the nulls that became empty cells; filled while rows are read.

    Raises:
        DataError: for lines that are no JSON object, and for half surrogate pairs (no text can
            hold them); all such lines are named.
    """
    problems = Problems(
        file,
        what="lines that are not one JSON object of proper text",
        advice='expected on each line an object, as {"text": "...", "label": "..."}',
    )
    for number, line in enumerate(read_lines(file, encoding=encoding), 1):
        if not line.strip():
            continue
        try:
            cells, empty = split_object(line)
        except (ValueError, RecursionError) as error:
            problems.add(number, f"{error}, in {shown(line)}")
            continue
        surrogate = find_surrogate(line)
        if surrogate is not None:
            problems.add(number, surrogate)
        elif not problems:
            nulls.update(empty)
            yield Row(cells, file, number)
    problems.raise_if_any()


def split_object(source: str) -> tuple[dict[str, str], list[str]]:
    """The cells of a JSON object, and which of them were null.

    Raises:
        ValueError: when the source is not one object, or names a key twice.

    Example:
        >>> split_object('{"text": "a", "score": 1.50, "note": null}')
        ({'text': 'a', 'score': '1.50', 'note': ''}, ['note'])
    """
    cells: dict[str, str] = {}
    nulls: list[str] = []
    position = _expect(source, 0, "{")
    if source[position : position + 1] == "}":
        return cells, _end(source, position + 1, nulls)
    while True:
        if source[position : position + 1] != '"':
            raise ValueError(f"a key in quotes expected at character {position + 1}")
        key, position = _DECODER.raw_decode(source, position)
        position = _expect(source, position, ":")
        value, end = _DECODER.raw_decode(source, position)
        if key in cells:
            raise ValueError(f"key {key!r} stands twice")
        if value is None:
            nulls.append(key)
        text = value if isinstance(value, str) else source[position:end]
        cells[key] = "" if value is None else text
        position = _skip(source, end)
        if source[position : position + 1] == "}":
            return cells, _end(source, position + 1, nulls)
        position = _expect(source, position, ",")


def find_surrogate(source: str) -> str | None:
    r"""Where a JSON text holds half of a surrogate pair, as "\ud800" without its other half.

    Args:
        source: valid JSON.
    """
    if _SURROGATE_ESCAPE.search(source) is None:
        return None
    text = json.dumps(_DECODER.decode(source), ensure_ascii=False)
    found = _SURROGATE.search(text)
    if found is None:
        return None
    near = text[max(0, found.start() - 20) : found.end() + 20]
    return f"half of a surrogate pair, which is no character, in {near!r}"


def _skip(source: str, position: int) -> int:
    match = _SPACE.match(source, position)
    return match.end() if match else position


def _expect(source: str, position: int, mark: str) -> int:
    position = _skip(source, position)
    if source[position : position + 1] != mark:
        raise ValueError(f"{mark!r} expected at character {position + 1}")
    return _skip(source, position + 1)


def _end(source: str, position: int, nulls: list[str]) -> list[str]:
    position = _skip(source, position)
    if position != len(source):
        raise ValueError(f"more after the object, at character {position + 1}")
    return nulls
