"""What a folder of shards is: its columns, and the manifest that accounts for every byte.

A folder holds `manifest.json`, the tokenizer in `tokenizer/`, and files of two splits,
`train-00000.arrow` and `heldout-00000.arrow`, in Arrow's IPC file format. A row is a document, or a
part of one that is very long (`ROW_TOKENS`):

    ids               list of uint16 where the vocabulary fits, else uint32; no special pieces
    word_starts       list of bool: whether a piece is the first of a word
    sentence_starts   list of bool: whether a piece is the first of a sentence
    document          int64: which document of the corpus, counted from 0

The manifest gives length and hash of every record batch, so that damage is found and named before
Arrow reads it. Files are written by `shard_writing.py` and read by `shards.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from bothways.errors import CheckpointError, DataError
from bothways.files import read_json_object

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"
ROW_TOKENS = 1 << 16
MOST_IDS_OF_UINT16 = 1 << 16


@dataclass(frozen=True)
class BatchEntry:
    """One record batch of a file.

    Attributes:
        rows, tokens: in it.
        offset, length: of its bytes in the file.
        hash: BLAKE2b of these bytes, 16 bytes in hexadecimal.
    """

    rows: int
    tokens: int
    offset: int
    length: int
    hash: str


@dataclass(frozen=True)
class FileEntry:
    """One file of a split.

    Attributes:
        name: in the folder.
        bytes: its size.
        batches: in order.
    """

    name: str
    bytes: int
    batches: tuple[BatchEntry, ...]


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards holds.

    Attributes:
        fingerprint: of the tokenizer.
        vocab_size: of the tokenizer.
        counts: documents and tokens: read, kept, left out.
        settings: how the documents were made.
        files: of each split.
    """

    fingerprint: str
    vocab_size: int
    counts: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[Split, tuple[FileEntry, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The content of manifest.json."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder.

        Raises:
            DataError: when there is none, or it is of another format.
        """
        path = folder / MANIFEST
        try:
            content = read_json_object(path)
            version = content.pop("format", None)
            if version != FORMAT:
                raise DataError(
                    f"{path} has format {version}; this version reads format {FORMAT}: "
                    "prepare the corpus again"
                )
            files = {
                split: tuple(
                    FileEntry(**{**file, "batches": tuple(map(_entry, file["batches"]))})
                    for file in listed
                )
                for split, listed in content.pop("files").items()
            }
            return cls(**content, files=files)
        except (AttributeError, CheckpointError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder} holds no finished shards: {error}; make them with bothways prepare, "
                "or go on with --resume where it was stopped"
            ) from error


def _entry(content: Mapping[str, Any]) -> BatchEntry:
    return BatchEntry(**content)


def id_type(vocab_size: int) -> pa.DataType:
    """The smallest type that holds the ids of a vocabulary."""
    return pa.uint16() if vocab_size <= MOST_IDS_OF_UINT16 else pa.uint32()


def schema(vocab_size: int) -> pa.Schema:
    """The columns of a shard."""
    return pa.schema(
        [
            pa.field("ids", pa.list_(pa.field("item", id_type(vocab_size), False)), False),
            pa.field("word_starts", pa.list_(pa.field("item", pa.bool_(), False)), False),
            pa.field("sentence_starts", pa.list_(pa.field("item", pa.bool_(), False)), False),
            pa.field("document", pa.int64(), False),
        ]
    )


def hash_of(path: Path, entry: BatchEntry) -> str:
    """The hash of the bytes that a record batch has in a file; of fewer where the file is short."""
    with path.open("rb") as file:
        file.seek(entry.offset)
        return hashlib.blake2b(file.read(entry.length), digest_size=16).hexdigest()
