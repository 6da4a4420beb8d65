"""What `mine duplicates` and `mine paraphrases` share: texts of a file, embedded and compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.cli.inputs import ColumnSettings, open_model, texts
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.errors import UsageError

# A text, its earlier neighbours and their cosines -> lines to write.
Lines = Callable[[int, NDArray[np.int64], NDArray[np.float32]], Iterator[Mapping[str, Any]]]

# Cosines of equal vectors differ from 1 in the last bits.
ROUNDING = 1e-6


def write_alike(
    source: Path,
    output: Path,
    make_lines: Callable[[list[str]], Lines],
    *,
    model_name: str,
    threshold: float,
    overwrite: bool,
    columns: ColumnSettings,
    common: CommonSettings,
) -> Output:
    """Embed the texts of a file, compare all with all, and write what is alike as it is found.

    Args:
        source: a data file, or a .txt file with a text a line.
        output: the .jsonl file.
        make_lines: of the texts, what is to be written of a text and its earlier neighbours.
        model_name: folder or hub name of an embedder.
        threshold: smallest cosine.
        overwrite: whether the output may exist.
        columns, common: of the command.

    Raises:
        UsageError: for a threshold that is no cosine, or pairs instead of single texts.
    """
    from bothways.cli.files import claim
    from bothways.files import Staged
    from bothways.inference.mining import earlier_neighbours

    start = time.perf_counter()
    if not -1.0 <= threshold <= 1.0:
        raise UsageError(f"--threshold is {threshold}; a cosine is from -1 to 1")
    if columns.text_pair is not None:
        raise UsageError("single texts are compared with each other; leave --text-pair away")
    claim(output, overwrite=overwrite, source=source, suffix=".jsonl")
    given = [text if isinstance(text, str) else text[0] for text in texts(source, columns, common)]
    model = open_model(model_name, common)
    with counting("texts", len(given)) as count:
        found = model.embed(
            given,
            normalize=True,
            max_length=common.max_length,
            policy=common.policy,
            batch_tokens=common.batch_tokens,
            on_batch=count,
        )
    written, lines = 0, make_lines(given)
    with Staged(output.parent) as files, files.stream(output.name) as stream:
        for row, others, cosines in earlier_neighbours(found.vectors, threshold - ROUNDING):
            for line in lines(row, others, cosines):
                stream.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
                written += 1
    seconds = time.perf_counter() - start
    return Output(
        f"{output}: {written} lines from {len(given)} texts in {seconds:.1f} s\n"
        + found.ledger.sentence(),
        {
            "model": model_name,
            "output": str(output),
            "texts": len(given),
            "count": written,
            "seconds": seconds,
            "ledger": found.ledger.as_dict(),
        },
    )
