"""`Problems`: everything of one kind that is wrong with a file, raised as one error.

Here too: how messages name the columns
there are. Nothing here reads files; `lines.py` and the readers do, and tasks use it when they check
rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from bothways.errors import DataError

LINES_SHOWN = 10
COLUMNS_SHOWN = 20
# Files that name their columns themselves, however they begin.
NAMING = frozenset({".jsonl", ".json", ".parquet"})


class Problems:
    """Lines of a file that are wrong, collected until all of them are known.

    A reader that has met a problem hands out no more rows, but reads on, so that its error can
    say how many lines there are to mend.

    Args:
        file: path for the message.
        what: what is wrong: "lines that are not JSON objects".
        advice: the next step.

    Example:
        >>> problems = Problems("a.jsonl", what="lines that are not JSON", advice="mend them")
        >>> problems.add(3, "no closing brace")
        >>> problems.raise_if_any()
        Traceback (most recent call last):
        bothways.errors.DataError: a.jsonl: lines that are not JSON: 1
          line 3: no closing brace
        mend them
    """

    def __init__(self, file: str, *, what: str, advice: str) -> None:
        self._file = file
        self._what = what
        self._advice = advice
        self._shown: list[str] = []
        self.count = 0

    def __bool__(self) -> bool:
        """True when there is a problem."""
        return self.count > 0

    def add(self, line: int, detail: str) -> None:
        """Notes that a line, from 1, is wrong, and in which way."""
        self.count += 1
        if self.count <= LINES_SHOWN:
            self._shown.append(f"  line {line}: {detail}")

    def raise_if_any(self) -> None:
        """Ends the collection.

        Raises:
            DataError: when at least one line is wrong; names the first ten.
        """
        if not self:
            return
        rest = self.count - len(self._shown)
        lines = [*self._shown, f"  and {rest} more"] if rest else self._shown
        head = f"{self._file}: {self._what}: {self.count}"
        raise DataError("\n".join([head, *lines, self._advice]))


def columns_of(file: str, names: Iterable[str], *, hint: bool = True) -> str:
    """The columns that a file has, for a message.

    Args:
        file: path.
        names: of its columns.
        hint: say what may be wrong where the first line named them; not where a better guess is
            at hand.

    Example:
        >>> columns_of("a.csv", ["a fine film", "good"])
        "'a fine film', 'good' (if the first line is data and no header, give --no-header)"
    """
    there = list(names)
    listed = ", ".join(map(shown, there[:COLUMNS_SHOWN]))
    if len(there) > COLUMNS_SHOWN:
        listed += f" and {len(there) - COLUMNS_SHOWN} more"
    numbered = there == [str(number) for number in range(1, len(there) + 1)]
    if not hint or numbered or NAMING & {*PurePath(file).suffixes}:
        return listed
    return f"{listed} (if the first line is data and no header, give --no-header)"


def shown(text: str, width: int = 60) -> str:
    """A text in quotes for a message, cut to a width in characters."""
    return repr(text if len(text) <= width else text[:width] + "...")
