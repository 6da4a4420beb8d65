"""Units: some documents of a corpus, tokenised into a file of their own.

A corpus is cut into units of about `UNIT_CHARACTERS`, in order. Each is read and written by itself,
by this process or another one (`workers.py`), and the same documents give the same bytes; so a run
that was killed goes on after the units that are there. What of them becomes shards is decided by
`prepare.py`, which puts them together. A unit's file has the columns of a shard, and

    document    counted within the unit, from 0
    hash        uint64, of the document's text
    signature   fixed-size binary, where near duplicates are looked for
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bothways.data.corpus import Corpus
from bothways.data.duplicates import NUM_HASHES, signatures
from bothways.data.manifest import ROW_TOKENS, schema
from bothways.data.passages import cut_places
from bothways.files import write_bytes
from bothways.tokenization.documents import DocumentPieces, read_documents
from bothways.tokenization.tokenizer import Tokenizer

UNIT_CHARACTERS = 1 << 21

COUNTED = (
    "documents",  # all of the unit
    "tokens",
    "documents_empty",  # that became no piece
    "documents_of_one_token",
    "documents_split",  # into several rows
    "special_in_text",
    "dropped_characters",
    "unknown_pieces",
)


@dataclass(frozen=True)
class Unit:
    """Consecutive documents of a corpus.

    Attributes:
        number: from 0.
        source: the input that the first of them comes from.
        documents: texts.
    """

    number: int
    source: str
    documents: tuple[str, ...]


@dataclass(frozen=True)
class UnitSettings:
    """What a unit's file depends on, besides its documents.

    Attributes:
        folder: of the files.
        fingerprint: of the tokenizer.
        with_signatures: whether near duplicates are looked for.
    """

    folder: Path
    fingerprint: str
    with_signatures: bool

    def path(self, number: int) -> Path:
        """The file of a unit."""
        return self.folder / f"unit-{number:06}.arrow"

    def key(self, unit: Unit) -> str:
        """What the file's content is a function of."""
        content = [self.fingerprint, self.with_signatures, *unit.documents]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class UnitRows:
    """A unit's file.

    Attributes:
        rows: the table.
        counts: by the names of COUNTED.
    """

    rows: pa.RecordBatch
    counts: Mapping[str, int]

    def column(self, name: str) -> NDArray[Any]:
        """A column of numbers, or the signatures as (rows, hashes)."""
        column = self.rows.column(name)
        if name == "signature":
            flat = np.frombuffer(column.buffers()[1], np.uint32)
            return flat.reshape(-1, NUM_HASHES)[: len(column)]
        values: NDArray[Any] = column.to_numpy()
        return values


def cut_units(corpus: Corpus) -> Iterator[Unit]:
    """The documents of a corpus in units, in order. Raises as the corpus does."""
    number = size = 0
    documents: list[str] = []
    first = ""
    for source, document in corpus.located():
        first = first if documents else source
        documents.append(document)
        size += len(document)
        if size >= UNIT_CHARACTERS:
            yield Unit(number, first, tuple(documents))
            number, size, documents = number + 1, 0, []
    if documents:
        yield Unit(number, first, tuple(documents))


def write_unit(tokenizer: Tokenizer, unit: Unit, settings: UnitSettings) -> None:
    """Tokenise a unit into its file.

    Raises:
        DataError: when a document holds what is no text.
        CheckpointError: when the file cannot be written.
    """
    documents, ledger = read_documents(tokenizer, unit.documents)
    parts = [_cut(document) for document in documents]
    rows = [part for document in parts for part in document]
    of_row = np.repeat(np.arange(len(parts)), [len(document) for document in parts])
    lengths = np.array([len(document) for document in documents])
    counts = {
        "documents": len(documents),
        "tokens": int(lengths.sum()),
        "documents_empty": int((lengths == 0).sum()),
        "documents_of_one_token": int((lengths == 1).sum()),
        "documents_split": sum(len(document) > 1 for document in parts),
        "special_in_text": ledger.special_in_text,
        "dropped_characters": ledger.dropped_characters,
        "unknown_pieces": sum(int((row.ids == tokenizer.unk_id).sum()) for row in rows),
    }
    hashes = np.array([_hash(text) for text in unit.documents], np.uint64)
    columns = [*_lists(rows, schema(tokenizer.largest_id + 1)), pa.array(of_row, pa.int64())]
    columns.append(pa.array(hashes[of_row], pa.uint64()))
    names = ["ids", "word_starts", "sentence_starts", "document", "hash"]
    if settings.with_signatures:
        some = [document.ids for document in documents if len(document)]
        per_document = np.zeros((len(documents), NUM_HASHES), np.uint32)
        per_document[lengths > 0] = signatures(some)
        content = pa.py_buffer(per_document[of_row].tobytes())
        kind = pa.binary(4 * NUM_HASHES)
        columns.append(pa.Array.from_buffers(kind, len(rows), [None, content]))
        names.append("signature")
    batch = pa.RecordBatch.from_arrays(columns, names)
    about = {"key": settings.key(unit), "counts": json.dumps(counts)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema.with_metadata(about)) as writer:
        writer.write_batch(batch)
    write_bytes(settings.path(unit.number), sink.getvalue().to_pybytes())


def read_unit(path: Path) -> UnitRows:
    """The file of a unit; memory-mapped."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    counts = json.loads(reader.schema.metadata[b"counts"])
    return UnitRows(reader.get_batch(0), counts)


def is_written(unit: Unit, settings: UnitSettings) -> bool:
    """Whether a unit's file is there, complete and of these documents."""
    path = settings.path(unit.number)
    if not path.is_file():
        return False
    try:
        found = pa.ipc.open_file(pa.memory_map(str(path))).schema.metadata.get(b"key", b"")
    except (pa.ArrowInvalid, OSError, AttributeError):
        return False
    return bool(found.decode() == settings.key(unit))


def _cut(document: DocumentPieces) -> list[DocumentPieces]:
    """The rows of a document: one, unless it is empty or very long."""
    places = cut_places(document.word_starts, document.sentence_starts, ROW_TOKENS)
    return [
        DocumentPieces(
            document.ids[start:stop],
            document.word_starts[start:stop],
            document.sentence_starts[start:stop],
        )
        for start, stop in pairwise(places)
        if stop > start
    ]


def _lists(rows: Sequence[DocumentPieces], columns: pa.Schema) -> list[pa.Array]:
    """The list columns of rows."""
    places = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int32)
    offsets = pa.array(places, pa.int32())
    return [
        pa.ListArray.from_arrays(
            offsets,
            pa.array(
                np.concatenate([getattr(row, name) for row in rows] or [np.empty(0, np.uint32)]),
                columns.field(name).type.value_type,
            ),
            type=columns.field(name).type,
        )
        for name in ("ids", "word_starts", "sentence_starts")
    ]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
