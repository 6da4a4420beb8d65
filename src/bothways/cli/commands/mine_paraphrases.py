"""`bothways mine paraphrases`: pairs of texts that say the same in other words."""

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
from bothways.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Find pairs of texts that are near each other, without copies.

    Attributes:
        model: folder or hub name of an embedder.
        input: a data file, or a .txt file with a text a line.
        output: a .jsonl file to write, a pair a line, that `finetune --task embed` reads.
        threshold: smallest cosine of a pair.
        top: most pairs of a text with earlier ones, the nearest first.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    output: Path
    threshold: float = 0.75
    top: int = 10
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Embed, compare, write."""
    if settings.top < 1:
        raise UsageError(f"--top is {settings.top}; expected at least 1")
    return write_alike(
        settings.input,
        settings.output,
        lambda texts: _lines_of(texts, settings.top),
        model_name=settings.model,
        threshold=settings.threshold,
        overwrite=settings.overwrite,
        columns=settings.columns,
        common=settings.common,
    )


def _lines_of(texts: list[str], top: int) -> Lines:
    """A line a pair; copies of a text are no paraphrases of it, and stand for it once."""
    from bothways.tasks.embed_examples import text_id

    ids = [text_id(text) for text in texts]
    first = {name: row for row, name in reversed(list(enumerate(ids)))}

    def lines(
        row: int, others: NDArray[np.int64], cosines: NDArray[np.float32]
    ) -> Iterator[Mapping[str, Any]]:
        if first[ids[row]] != row:
            return
        left = [at for at in range(len(others)) if first[ids[others[at]]] == others[at]]
        for at in sorted(left, key=lambda at: -cosines[at])[:top]:
            yield {
                "sentence1": texts[others[at]],
                "sentence2": texts[row],
                "cosine": round(float(cosines[at]), 4),
            }

    return lines
