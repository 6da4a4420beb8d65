"""`Row`: one record of a data file, every cell text, with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A record.

    Attributes:
        cells: text by column name, or by number from "1" where there is no header.
        file: path it was read from.
        line: first line of the record, from 1.
    """

    cells: Mapping[str, str]
    file: str
    line: int

    @property
    def place(self) -> str:
        """`file, line 12`, for messages."""
        return f"{self.file}, line {self.line}"
