"""Reader of parquet: every value as text, nulls as empty cells that are counted.

Strings stay what they are, numbers are written as Arrow writes them, true and false as in JSON,
lists and structures as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bothways.data.lines import open_bytes
from bothways.data.rows import Row
from bothways.errors import DataError

ROWS_AT_A_TIME = 4096


def read_parquet(file: str, *, nulls: Counter[str]) -> Iterator[Row]:
    """Rows of a parquet file, a few thousand in memory at a time; `line` counts rows from 1.

    Args:
        file: path.
        nulls: counts, by column, the nulls that became empty cells; filled while rows are read.

    Raises:
        DataError: for a file that is no parquet, and for columns that are no text.
    """
    import pyarrow
    from pyarrow import parquet

    with open_bytes(file) as stream:
        number = 0
        try:
            opened = parquet.ParquetFile(stream)
            names = [str(name) for name in opened.schema_arrow.names]
            _check_names(file, names)
            for batch in opened.iter_batches(batch_size=ROWS_AT_A_TIME):
                columns = []
                for name, column in zip(names, batch.columns, strict=True):
                    columns.append(_texts(file, name, column))
                    nulls[name] += column.null_count
                for values in zip(*columns, strict=True):
                    number += 1
                    yield Row(dict(zip(names, values, strict=True)), file, number)
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"{file}, after row {number}: not valid parquet: {error}") from error


def _texts(file: str, name: str, column: Any) -> list[str]:
    """The values of one column of a batch as text."""
    import pyarrow
    from pyarrow import compute, types

    kind = column.type
    try:
        if types.is_nested(kind):
            values = column.to_pylist()
            return ["" if value is None else _json(value) for value in values]
        texts = compute.cast(column, pyarrow.string()).to_pylist()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise DataError(
            f"{file}: column {name!r} of type {kind} is no text ({error}); leave it out of the file"
        ) from error
    return ["" if text is None else text for text in texts]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _check_names(file: str, names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(f"{file}: columns with the same name: {', '.join(map(repr, twice))}")
