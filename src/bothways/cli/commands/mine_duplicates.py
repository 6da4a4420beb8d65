"""`bothways mine duplicates`: texts that say what an earlier one says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.cli.alike import Lines, write_alike
from bothways.cli.inputs import ColumnSettings
from bothways.cli.output import Output
from bothways.config import CommonSettings


@dataclass(frozen=True)
class Settings:
    """Find texts whose vector is that of an earlier text, or nearly so.

    Attributes:
        model: folder or hub name of an embedder.
        input: a data file, or a .txt file with a text a line.
        output: a .jsonl file to write: a line a duplicate, with the earlier text that is nearest.
        threshold: smallest cosine of duplicates.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    output: Path
    threshold: float = 0.95
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Embed, compare, write."""
    return write_alike(
        settings.input,
        settings.output,
        _lines_of,
        model_name=settings.model,
        threshold=settings.threshold,
        overwrite=settings.overwrite,
        columns=settings.columns,
        common=settings.common,
    )


def _lines_of(texts: list[str]) -> Lines:
    """One line a duplicate; texts are numbered from 1."""

    def lines(
        row: int, others: NDArray[np.int64], cosines: NDArray[np.float32]
    ) -> Iterator[Mapping[str, Any]]:
        nearest = int(cosines.argmax())
        other = int(others[nearest])
        yield {
            "number": row + 1,
            "text": texts[row],
            "earlier_number": other + 1,
            "earlier_text": texts[other],
            "cosine": round(float(cosines[nearest]), 4),
        }

    return lines
