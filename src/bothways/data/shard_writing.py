"""`ShardWriter`: rows into the files of one split, in record batches of even size.

The same rows in the same order give the same bytes, however they come in. What the files hold is
described in `manifest.py`.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from bothways.data.manifest import BatchEntry, FileEntry, Split, hash_of
from bothways.files import Staged

BATCH_TOKENS = 1 << 20
FILE_TOKENS = 1 << 28


class ShardWriter:
    """Writes the rows of one split; record batches and files of even size, whatever comes in.

    Args:
        files: the folder, as one step.
        split: names the files.
        columns: of the rows.
    """

    def __init__(self, files: Staged, split: Split, columns: pa.Schema) -> None:
        self._files = files
        self._split = split
        self._schema = columns
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_tokens = 0
        self._written: list[FileEntry] = []
        self._batches: list[BatchEntry] = []
        self._writer: Any = None
        self._stream: Any = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows, now or with later ones."""
        ends = np.cumsum(rows.column("ids").value_lengths().to_numpy())
        borders = np.flatnonzero(np.diff(ends // BATCH_TOKENS)) + 1
        for start, stop in pairwise([0, *borders.tolist(), rows.num_rows]):
            if stop > start:
                some = rows.slice(start, stop - start)
                self._waiting.append(some)
                self._waiting_tokens += num_tokens(some)
            if self._waiting_tokens >= BATCH_TOKENS:
                self._write()

    def close(self) -> tuple[FileEntry, ...]:
        """Write what waits; the files that there are now."""
        self._write()
        self._end_file()
        return tuple(self._written)

    def _write(self) -> None:
        if not self._waiting:
            return
        [batch] = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
        self._waiting, self._waiting_tokens = [], 0
        if self._writer is None:
            name = f"{self._split}-{len(self._written):05}.arrow"
            self._path = self._files.path(name)
            self._stream = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_file(self._stream, self._schema)
        start = self._stream.tell()
        self._writer.write_batch(batch)
        length = self._stream.tell() - start
        self._batches.append(BatchEntry(batch.num_rows, num_tokens(batch), start, length, ""))
        if sum(entry.tokens for entry in self._batches) >= FILE_TOKENS:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._stream.close()
        hashed = tuple(
            dataclasses.replace(entry, hash=hash_of(self._path, entry)) for entry in self._batches
        )
        size = self._path.stat().st_size
        self._written.append(FileEntry(self._path.name, size, hashed))
        self._writer, self._batches = None, []


def num_tokens(rows: pa.RecordBatch) -> int:
    """Tokens of a record batch."""
    return len(rows.column("ids").flatten())
