"""`prepare`: raw text to shards, in parallel, and again from where it was killed.

First every unit of the corpus is tokenised into a file of its own, under `units/` of the output;
those that are there already are not made again. Then the units are put together in order: empty
documents and, if asked, near duplicates are left out, documents are divided into training and
held-out ones, and rows are written into shards. The manifest comes last, so a folder that has one
is complete. Nothing in the shards depends on time, on workers or on how often it was started.

What is inside shards is described in `manifest.py`, what a unit is in `units.py`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bothways.data.corpus import Boundary, Corpus
from bothways.data.duplicates import near_duplicates
from bothways.data.manifest import MANIFEST, SPLITS, TOKENIZER, Manifest, schema
from bothways.data.shard_writing import ShardWriter
from bothways.data.units import (
    COUNTED,
    UNIT_CHARACTERS,
    Unit,
    UnitRows,
    UnitSettings,
    cut_units,
    is_written,
    read_unit,
)
from bothways.data.workers import write_units
from bothways.errors import DataError, TrainingError, UsageError
from bothways.files import Staged, names_in, read_json_object, remove_half_written, write_json
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

UNITS = "units"
STARTED = "settings.json"
# In the settings of finished shards, to notice that a file has changed since. Before they are
# finished it may change: units are made again where their documents are others.
SIZES = "input_bytes"
# Share of the tokens: text in the language of its tokenizer has less, another language far more.
MUCH_UNKNOWN = 0.05


@dataclass(frozen=True)
class PrepareSettings:
    """How raw text becomes shards.

    Attributes:
        input: text, jsonl or parquet files, or data sets on the hub (owner/name:subset:split).
        output: the folder to write.
        document: where documents end in text files; a file without blank lines has one a line.
        text: column of the text in files of rows; unset: text, or the only one.
        encoding: of the characters of the files.
        held_out: share of the documents kept apart for evaluation; which, their text decides.
        drop_near_duplicates: leave out documents that are much like an earlier one.
        workers: processes that tokenise; unset: one a core.
        resume: go on where an earlier run of the same settings was stopped.
        overwrite: replace shards that are there.
    """

    input: tuple[str, ...]
    output: Path
    document: Boundary = "blank-line"
    text: str | None = None
    encoding: str = "utf-8"
    held_out: float = 0.01
    drop_near_duplicates: bool = False
    workers: int | None = None
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.held_out < 1.0:
            raise UsageError(
                f"the held-out share is {self.held_out}; it must be at least 0 and below 1"
            )
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers is {self.workers}; it must be at least 1")
        if self.resume and self.overwrite:
            raise UsageError("--resume goes on with what --overwrite would delete; give one")


def prepare(
    settings: PrepareSettings,
    tokenizer: Tokenizer,
    *,
    on_unit: Callable[[Unit], None] | None = None,
) -> Manifest:
    """Make shards of a corpus.

    Args:
        settings: what of, and where to.
        tokenizer: is kept beside the shards.
        on_unit: called for each unit that is tokenised.

    Raises:
        DataError: for what is wrong with the input, with file and line; when no document is left.
        TrainingError: when the output is there already, or was begun with other settings; the
            differences are listed.
        CheckpointError: when the output cannot be written.

    Example:
        >>> prepare(  # doctest: +SKIP
        ...     PrepareSettings(("corpus.txt",), Path("shards")), load_tokenizer("my-tokenizer")
        ... ).counts["documents_train"]
        4120
    """
    corpus = Corpus(settings.input, settings.document, settings.text, settings.encoding)
    identity = _identity(settings, tokenizer)
    if _begin(settings, identity):
        return Manifest.read(settings.output)
    units = UnitSettings(
        settings.output / UNITS, tokenizer.fingerprint, settings.drop_near_duplicates
    )
    try:
        numbers = _tokenise(corpus, tokenizer, units, settings.workers, on_unit)
    except DataError:
        _forget_empty(units.folder)
        raise
    manifest = _assemble(settings, tokenizer, identity, [units.path(n) for n in numbers])
    shutil.rmtree(units.folder)
    return manifest


def _identity(settings: PrepareSettings, tokenizer: Tokenizer) -> dict[str, Any]:
    """What the shards depend on, to compare with an earlier run."""
    return {
        "input": list(settings.input),
        "document": settings.document,
        "text": settings.text,
        "encoding": settings.encoding,
        SIZES: [
            Path(name).stat().st_size if Path(name).is_file() else None for name in settings.input
        ],
        "held_out": settings.held_out,
        "drop_near_duplicates": settings.drop_near_duplicates,
        "tokenizer": tokenizer.fingerprint,
    }


def _begin(settings: PrepareSettings, identity: dict[str, Any]) -> bool:
    """Make the output ready; whether there is nothing to do."""
    output, started = settings.output, settings.output / UNITS / STARTED
    for folder in (output, output / UNITS, output / TOKENIZER):
        remove_half_written(folder)
    taken = names_in(output)
    if settings.overwrite:
        # The manifest first: without it nothing counts as complete.
        (output / MANIFEST).unlink(missing_ok=True)
        for path in (path for split in SPLITS for path in output.glob(f"{split}-*.arrow")):
            path.unlink()
        shutil.rmtree(output / UNITS, ignore_errors=True)
    elif taken:
        if not settings.resume:
            raise TrainingError(
                f"{output} is not empty; go on with what is there with --resume, or replace it "
                "with --overwrite"
            )
        complete = (output / MANIFEST).is_file()
        if complete:
            earlier = dict(Manifest.read(output).settings)
        else:
            earlier = read_json_object(started) if started.is_file() else dict(identity)
            earlier[SIZES] = identity[SIZES]
        _compare(output, earlier, identity)
        if complete:
            logger.info("%s is complete; there is nothing to do", output)
            return True
        logger.info("going on with what is in %s", output)
    elif settings.resume:
        logger.info("%s is empty: starting from the beginning", output)
    write_json(started, identity)
    return False


def _forget_empty(units: Path) -> None:
    """After a failure before any unit was finished, leave the output as it was found."""
    if not any(units.glob("*.arrow")):
        shutil.rmtree(units)
        with suppress(OSError):  # something else is in it
            units.parent.rmdir()


def _compare(output: Path, earlier: dict[str, Any], now: dict[str, Any]) -> None:
    different = [
        f"{name} was {json.dumps(earlier.get(name))} and is {json.dumps(value)}"
        for name, value in now.items()
        if earlier.get(name) != value
    ]
    if different:
        raise TrainingError(
            f"{output} was begun with other settings: {'; '.join(different)}. Give the same ones, "
            "or start anew with --overwrite"
        )


def _tokenise(
    corpus: Corpus,
    tokenizer: Tokenizer,
    settings: UnitSettings,
    workers: int | None,
    on_unit: Callable[[Unit], None] | None,
) -> range:
    """Write the units that are not there; the numbers of all."""
    count = found = 0

    def missing() -> Iterator[Unit]:
        nonlocal count, found
        for unit in cut_units(corpus):
            count += 1
            if is_written(unit, settings):
                found += 1
            else:
                yield unit

    size = sum(Path(name).stat().st_size for name in corpus.inputs if Path(name).is_file())
    useful = 1 + size // UNIT_CHARACTERS if size else 2
    num_workers = min(workers or _num_cores(), useful)
    write_units(tokenizer, missing(), settings, workers=num_workers, on_unit=on_unit)
    if found:
        logger.info("%d of %d units were there already", found, count)
    if not count:
        raise DataError(f"{', '.join(corpus.inputs)}: there is no text in it")
    return range(count)


def _num_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _assemble(
    settings: PrepareSettings, tokenizer: Tokenizer, identity: dict[str, Any], paths: list[Path]
) -> Manifest:
    """Put units together into shards, and write the manifest."""
    vocab_size = tokenizer.largest_id + 1
    hashes = _joined(paths, "hash")
    chosen = _choose(paths, hashes, settings)
    counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    with Staged(settings.output) as files:
        writers = {split: ShardWriter(files, split, schema(vocab_size)) for split in SPLITS}
        first_row = 0
        for path in paths:
            unit = read_unit(path)
            documents = unit.column("document") + counts["documents"]
            here = slice(first_row, first_row + len(documents))
            first_row = here.stop
            counts.update(unit.counts)
            for place, writer in writers.items():
                rows = np.flatnonzero(chosen[here] == SPLITS.index(place))
                writer.add(_select(unit, documents, rows, vocab_size))
                counts[f"documents_{place}"] += len(np.unique(documents[rows]))
            left_out = documents[chosen[here] == _LEFT_OUT]
            counts["documents_near_duplicate"] += len(np.unique(left_out))
        entries = {split: writer.close() for split, writer in writers.items()}
    for split, listed in entries.items():
        batches = [batch for file in listed for batch in file.batches]
        counts[f"rows_{split}"] = sum(batch.rows for batch in batches)
        counts[f"tokens_{split}"] = sum(batch.tokens for batch in batches)
    unknown = counts["unknown_pieces"] / max(counts["tokens"], 1)
    if unknown > MUCH_UNKNOWN:
        logger.warning(
            "%.0f %% of the tokens stand for what the vocabulary of %s lacks: a model learns "
            "nothing about them; train a tokenizer on this text (`bothways tokenizer train`)",
            100 * unknown,
            tokenizer.name,
        )
    manifest = Manifest(tokenizer.fingerprint, vocab_size, dict(counts), identity, entries)
    tokenizer.save(settings.output / TOKENIZER)
    write_json(settings.output / MANIFEST, manifest.as_dict())
    return manifest


_LEFT_OUT = len(SPLITS)


def _choose(
    paths: list[Path], hashes: NDArray[np.uint64], settings: PrepareSettings
) -> NDArray[np.int64]:
    """Which split each row goes to, by index, or `_LEFT_OUT`.

    Held out are the documents whose hash is below the share of all hashes: the same text on every
    run, whatever else the corpus holds, and equal texts together. Where that is no document it is
    the one of the smallest hash; where it is all of them, the one of the largest is not.
    """
    if not len(hashes):
        raise DataError(
            f"{', '.join(settings.input)}: no document became a token; does the tokenizer fit the "
            "language of the text?"
        )
    chosen = np.zeros(len(hashes), np.int64)
    if settings.drop_near_duplicates:
        chosen[near_duplicates(_joined(paths, "signature"))] = _LEFT_OUT
    rows = np.flatnonzero(chosen != _LEFT_OUT)
    alive = hashes[rows]
    held = alive < np.uint64(settings.held_out * 2.0**64)
    if settings.held_out and not held.any():
        held = alive == alive.min()
    if held.all():
        held &= alive != alive.max()
    if settings.held_out and not held.any():
        logger.warning("the corpus is one document, so nothing is held out for evaluation")
    chosen[rows[held]] = SPLITS.index("heldout")
    return chosen


def _joined(paths: list[Path], name: str) -> NDArray[Any]:
    """A column of all units."""
    return np.concatenate([read_unit(path).column(name) for path in paths])


def _select(
    unit: UnitRows, documents: NDArray[np.int64], rows: NDArray[np.int64], vocab_size: int
) -> pa.RecordBatch:
    """Rows of a unit as rows of a shard."""
    columns = schema(vocab_size)
    lists = [unit.rows.column(field.name).take(pa.array(rows)) for field in list(columns)[:3]]
    return pa.RecordBatch.from_arrays([*lists, pa.array(documents[rows])], schema=columns)
