"""`bothways predict`: run a fine-tuned model over a file, streamed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bothways.cli.inputs import ColumnSettings, file_options, open_model, task_of
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.tokenization.encoding import Ledger

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Predict every row of a file.

    Attributes:
        model: folder of a fine-tuned model, or hub name.
        input: data file; labels in it are not read.
        output: a .jsonl file to write, a line a row; unset: standard output.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    output: Path | None = None
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Predict, and write the results or hand them out."""
    from bothways.cli.files import claim
    from bothways.files import Staged

    start = time.perf_counter()
    output = settings.output
    ledgers: list[Ledger] = []
    if output is None:
        found = _stream(settings, ledgers, None)
        return Output((_line(result) for result in found), found)
    claim(output, overwrite=settings.overwrite, source=settings.input)
    with (
        Staged(output.parent) as files,
        files.stream(output.name) as stream,
        counting("examples") as count,
    ):
        for result in _stream(settings, ledgers, count):
            stream.write((_line(result) + "\n").encode())
    ledger = Ledger.total(ledgers)
    seconds = time.perf_counter() - start
    return Output(
        f"{output}: {ledger.texts} results in {seconds:.1f} s\n{ledger.sentence()}",
        {
            "model": settings.model,
            "output": str(output),
            "count": ledger.texts,
            "seconds": seconds,
            "ledger": ledger.as_dict(),
        },
    )


def _line(result: dict[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=False)


def _stream(
    settings: Settings, ledgers: list[Ledger], on_batch: Callable[[int], None] | None
) -> Iterator[dict[str, Any]]:
    """One object a row, in input order, with ledgers added as it goes; without output, logged."""
    from bothways.inference.predictor import CHUNK_TEXTS, chunks
    from bothways.tasks.results import as_dict

    model = open_model(settings.model, settings.common)
    task = task_of(model, settings.columns)
    rows = file_options(settings.common, model).rows(settings.input)
    common = settings.common
    policy = model.policy(common.max_length, common.policy, common.overlap)
    for chunk in chunks(rows, CHUNK_TEXTS):
        examples = task.read(chunk, labelled=False)
        for part in model.predict_stream(
            examples,
            policy=policy,
            batch_tokens=settings.common.batch_tokens,
            on_batch=on_batch,
        ):
            ledgers.append(part.ledger)
            for row, result in zip(chunk, part, strict=True):
                yield {"line": row.line, **as_dict(result)}
    if settings.output is None:
        logger.info("%s", Ledger.total(ledgers).sentence())
