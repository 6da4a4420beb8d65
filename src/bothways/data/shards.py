"""`Shards`: any row of a folder of shards, by number, from memory-mapped files.

Sizes are compared with the manifest before anything is read, and hashes unless told otherwise: what
is damaged is named with its file and never reaches Arrow. The format is described in `manifest.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bothways.data.manifest import FileEntry, Manifest, Split, hash_of, schema
from bothways.errors import DataError


@dataclass(frozen=True)
class RowArrays:
    """A row, as views into the memory-mapped file where possible.

    Attributes:
        ids: of its pieces.
        word_starts, sentence_starts: one value a piece.
    """

    ids: NDArray[np.unsignedinteger[Any]]
    word_starts: NDArray[np.bool_]
    sentence_starts: NDArray[np.bool_]


@dataclass(frozen=True)
class _Columns:
    """A record batch as flat arrays; bits stay packed.

    Attributes:
        places: where each row starts in the flat arrays, and the end of the last.
        ids: flat.
        words, sentences: bytes of eight bits each, lowest first.
        documents: of each row.
    """

    places: NDArray[np.int32]
    ids: NDArray[np.unsignedinteger[Any]]
    words: NDArray[np.uint8]
    sentences: NDArray[np.uint8]
    documents: NDArray[np.int64]


class Shards:
    """The rows of one split, by number.

    Args:
        folder: of shards.
        split: train or heldout.
        verify: whether every record batch is compared with its hash first, about a second a
            gigabyte; sizes always are.

    Attributes:
        folder, split: as given.
        manifest: of the folder.
        num_rows, num_tokens: of the split.

    Raises:
        DataError: when a file is missing, cut short or damaged, with its name; when there are no
            rows.

    Example:
        >>> shards = Shards("shards", "train")  # doctest: +SKIP
        >>> shards.row(0).ids[:3]  # doctest: +SKIP
        array([ 412,   17, 2038], dtype=uint16)
    """

    def __init__(self, folder: str | Path, split: Split = "train", *, verify: bool = True) -> None:
        self.folder = Path(folder)
        self.split = split
        self.manifest = Manifest.read(self.folder)
        self._files = self.manifest.files.get(split, ())
        self._entries = [
            (file, number, entry)
            for file in self._files
            for number, entry in enumerate(file.batches)
        ]
        self.num_rows = sum(entry.rows for _, _, entry in self._entries)
        self.num_tokens = sum(entry.tokens for _, _, entry in self._entries)
        if not self.num_rows:
            raise DataError(f"{self.folder} has no {split} documents; prepare more text")
        self._check(verify)
        rows = [entry.rows for _, _, entry in self._entries]
        self._first_rows = np.cumsum([0, *rows])
        self._columns: dict[int, _Columns] = {}
        self._readers: dict[str, Any] = {}

    def __len__(self) -> int:
        """How many rows there are."""
        return self.num_rows

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of rows.

        Args:
            rows: numbers, in any order.
        """
        batches = np.searchsorted(self._first_rows, rows, side="right") - 1
        result = np.empty(len(rows), np.int64)
        for index in np.unique(batches).tolist():
            chosen = batches == index
            places = self._batch(index).places
            inside = rows[chosen] - self._first_rows[index]
            result[chosen] = places[inside + 1] - places[inside]
        return result

    def row(self, number: int) -> RowArrays:
        """One row.

        Args:
            number: from 0.
        """
        columns, inside = self._locate(number)
        start, stop = columns.places[inside : inside + 2].tolist()
        return RowArrays(
            columns.ids[start:stop],
            _bits(columns.words, start, stop),
            _bits(columns.sentences, start, stop),
        )

    def gather(
        self, rows: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Ranges of rows, one after another: ids and which of them start a word.

        Args:
            rows: numbers, in any order.
            starts, stops: pieces within each row.

        Raises:
            DataError: when there is an id that the vocabulary does not have.
        """
        batches = np.searchsorted(self._first_rows, rows, side="right") - 1
        lengths = stops - starts
        targets = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), np.int64)
        words = np.empty(len(ids), np.bool_)
        for index in np.unique(batches).tolist():
            chosen = np.flatnonzero(batches == index)
            columns = self._batch(index)
            firsts = columns.places[rows[chosen] - self._first_rows[index]] + starts[chosen]
            source = ranges(firsts, lengths[chosen])
            target = ranges(targets[chosen], lengths[chosen])
            ids[target] = columns.ids[source]
            words[target] = (columns.words[source >> 3] >> (source & 7).astype(np.uint8)) & 1
        if len(ids) and ids.max() >= self.manifest.vocab_size:
            raise DataError(
                f"{self.folder}: the {self.split} shards hold the id {ids.max()}, and the "
                f"vocabulary has {self.manifest.vocab_size}; {_NEXT_STEP}"
            )
        return ids, words

    def document(self, number: int) -> int:
        """Which document of the corpus a row comes from."""
        columns, inside = self._locate(number)
        return int(columns.documents[inside])

    def _locate(self, number: int) -> tuple[_Columns, int]:
        if not 0 <= number < self.num_rows:
            raise IndexError(f"row {number} of {self.num_rows}")
        index = int(np.searchsorted(self._first_rows, number, side="right")) - 1
        return self._batch(index), number - int(self._first_rows[index])

    def _batch(self, index: int) -> _Columns:
        if index not in self._columns:
            file, number, entry = self._entries[index]
            batch = self._open(file).get_batch(number)
            if batch.num_rows != entry.rows:
                raise DataError(_damaged(self.folder / file.name, [number]))
            ids, words, sentences = (batch.column(name) for name in _LISTS)
            self._columns[index] = _Columns(
                ids.offsets.to_numpy(),
                ids.values.to_numpy(),
                _bytes(words.values),
                _bytes(sentences.values),
                batch.column("document").to_numpy(),
            )
        return self._columns[index]

    def _open(self, file: FileEntry) -> Any:
        if file.name not in self._readers:
            path = self.folder / file.name
            try:
                reader = pa.ipc.open_file(pa.memory_map(str(path)))
                right = reader.schema.equals(schema(self.manifest.vocab_size))
            except (pa.ArrowInvalid, OSError) as error:
                raise DataError(f"{path} cannot be read: {error}; {_NEXT_STEP}") from error
            if not right or reader.num_record_batches != len(file.batches):
                raise DataError(f"{path} holds other data than the manifest says; {_NEXT_STEP}")
            self._readers[file.name] = reader
        return self._readers[file.name]

    def _check(self, verify: bool) -> None:
        problems = []
        for file in self._files:
            path = self.folder / file.name
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                problems.append(f"{path} is missing; {_NEXT_STEP}")
            elif size != file.bytes:
                problems.append(
                    f"{path} has {size} bytes and should have {file.bytes}; {_NEXT_STEP}"
                )
            elif verify:
                # Hashing frees other threads, so as many files are read at once as there are cores.
                with ThreadPoolExecutor() as pool:
                    found = list(pool.map(lambda e, p=path: hash_of(p, e), file.batches))
                wrong = [i for i, e in enumerate(file.batches) if found[i] != e.hash]
                if wrong:
                    problems.append(_damaged(path, wrong))
        if problems:
            raise DataError("\n".join(problems))


def ranges(firsts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Consecutive numbers from each first on, one range after another.

    Example:
        >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(firsts - before, lengths) + np.arange(int(lengths.sum()))


_LISTS = ("ids", "word_starts", "sentence_starts")
_NEXT_STEP = "copy it again, or prepare the corpus again"


def _damaged(path: Path, batches: Sequence[int]) -> str:
    listed = ", ".join(map(str, batches[:10]))
    return f"{path} is damaged in record batch {listed}, counted from 0; {_NEXT_STEP}"


def _bytes(values: Any) -> NDArray[np.uint8]:
    """The bits of a boolean array."""
    return np.frombuffer(values.buffers()[1], np.uint8)


def _bits(packed: NDArray[np.uint8], start: int, stop: int) -> NDArray[np.bool_]:
    first = start // 8
    bits = np.unpackbits(packed[first : -(-stop // 8)], bitorder="little")
    return bits[start - 8 * first : stop - 8 * first].view(np.bool_)
