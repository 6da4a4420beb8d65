"""Labelled examples of a run: read, split, encoded once, and handed out in batches."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bothways.data.collate import Source, collate
from bothways.data.options import FileOptions
from bothways.data.rows import Row
from bothways.data.splits import duplicates_between, split
from bothways.errors import DataError, UsageError, counted
from bothways.model.layout import Batch
from bothways.tasks.label_losses import classifier_fields
from bothways.tasks.registry import make_task
from bothways.tasks.task import Columns, Task
from bothways.tokenization.encoding import Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer
from bothways.training.freezing import KeptStates
from bothways.training.retrieval import RetrievalFiles, read_retrieval
from bothways.training.settings import FinetuneSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Splits:
    """Examples as read.

    Attributes:
        task: fitted to the training examples.
        train: to learn from.
        dev: to choose the best weights by, or None.
        test: to judge the result on, or None.
    """

    task: Task[Any]
    train: list[Any]
    dev: list[Any] | None
    test: list[Any] | None


def new_task(settings: FinetuneSettings) -> Task[Any]:
    """The task that the settings name, before it has seen examples."""
    data = settings.data
    columns = Columns(data.text, data.text_pair, data.label, data.group)
    name, given = settings.task, settings.task_settings()
    if name == "classify":
        name, given = classifier_fields(given)
    if settings.network.pooling != "auto":
        given["pooling"] = settings.network.pooling
    return make_task(name, columns=columns, **given)


def file_options(settings: FinetuneSettings) -> FileOptions:
    """How the data files are read."""
    return FileOptions.of(settings.common)


def read_splits(settings: FinetuneSettings, task: Task[Any], *, fitted: bool = False) -> Splits:
    """Read all files, cut off a dev side where one is asked for, and fit the task.

    Texts that stand in the file more than once stay on one side of the cut.

    Args:
        settings: of the command.
        task: as made.
        fitted: it knows its labels already, and data with others are refused.

    Raises:
        DataError: for whatever is wrong with the files, among it labels that only dev has.
    """
    data = settings.data
    train = _read(settings, task, data.learned)
    dev = None
    if data.dev_share is not None:
        train, dev = split(
            train,
            dev_share=data.dev_share,
            seed=settings.common.seed,
            stratify=_labels(train, task) if data.stratify else None,
            group=_groups(train),
            texts=_texts(train),
        )
    if fitted:
        task.check(train)
    else:
        task = task.fit(train) if dev is None else _fit_what_is_left(task, train, dev, settings)
    if data.dev is not None:
        dev = _read(settings, task, data.dev, held_out=True)
        _warn_of_duplicates(train, dev, str(data.dev))
    test = None
    if data.test is not None:
        test = _read(settings, task, data.test, held_out=True)
        _warn_of_duplicates(train, test, str(data.test))
    return Splits(task, train, dev, test)


def _fit_what_is_left(
    task: Task[Any], train: Sequence[Any], dev: Sequence[Any], settings: FinetuneSettings
) -> Task[Any]:
    """The task fitted to what the cut left; an error says that it was the cut."""
    try:
        fitted = task.fit(train)
        # Reading checked the cells; labels that only dev has show here.
        fitted.check(dev)
    except DataError as error:
        raise DataError(
            f"--dev-share {settings.data.dev_share} left {counted(len(train), 'example')} to learn "
            f"from and {len(dev)} held out, and that does not do: {error}\n"
            "use --stratify, another share, or a dev file of your own"
        ) from error
    return fitted


def _read(
    settings: FinetuneSettings, task: Task[Any], path: Path, *, held_out: bool = False
) -> list[Any]:
    """Examples of a file of rows, or of a file of judgements where there is a corpus."""
    data, options = settings.data, file_options(settings)
    if data.corpus is None or data.queries is None:
        rows = options.rows(path)
        return _read_held_out(task, list(rows)) if held_out else task.read(rows)
    return read_retrieval(
        task,
        RetrievalFiles(data.corpus, data.queries, path, data.judgements),
        files=options,
        encoder=settings.model,
    )


def _read_held_out(task: Any, rows: list[Row]) -> list[Any]:
    """Examples of a dev or test file, which may lack the column that groups training rows."""
    columns: Columns = task.columns
    if columns.group is not None and any(columns.group not in row.cells for row in rows):
        task = dataclasses.replace(task, columns=dataclasses.replace(columns, group=None))
    examples: list[Any] = task.read(rows)
    return examples


def _labels(examples: Sequence[Any], task: Task[Any]) -> list[str]:
    found = [getattr(example, "label", None) for example in examples]
    if not all(isinstance(label, str) for label in found):
        raise UsageError(
            f"--stratify shares out labels, and examples of {task.name} have no single one"
        )
    return [str(label) for label in found]


def _groups(examples: Sequence[Any]) -> list[Hashable] | None:
    """What examples belong to; one that belongs to nothing stands alone."""
    if all(example.group is None for example in examples):
        return None
    return [
        number if example.group is None else str(example.group)
        for number, example in enumerate(examples)
    ]


def _texts(examples: Sequence[Any]) -> list[str]:
    return [f"{example.text}\0{example.pair or ''}" for example in examples]


def _warn_of_duplicates(train: Sequence[Any], other: Sequence[Any], name: str) -> None:
    count = duplicates_between(_texts(train), _texts(other))
    if count:
        logger.warning(
            "%d of %s of %s also stand in the training data",
            count,
            counted(len(other), "text"),
            name,
        )


class EncodedExamples:
    """Examples with their pieces.

    Args:
        task: knows the targets.
        examples: as read.
        tokenizer: of the model.
        policy: what is kept of long texts.

    Attributes:
        task: as given.
        examples: as given.
        encodings: of each; several are windows.
        ledger: what was cut.
        lengths: tokens of each example, all windows together.
    """

    def __init__(
        self,
        task: Task[Any],
        examples: Sequence[Any],
        *,
        tokenizer: Tokenizer,
        policy: CutPolicy,
    ) -> None:
        self.task = task
        self.examples = examples
        self.encodings, self.ledger = task.encode_all(examples, tokenizer, policy)
        self.lengths = [sum(map(len, windows)) for windows in self.encodings]
        self._sources = [
            [
                Source(index, window, encoding, examples[index])
                for window, encoding in enumerate(windows)
            ]
            for index, windows in enumerate(self.encodings)
        ]
        self._states: KeptStates | None = None

    def chosen(self, places: Sequence[int]) -> EncodedExamples:
        """Some of the examples, repeats allowed, each an example of its own."""
        made = copy.copy(self)
        made.examples = [self.examples[place] for place in places]
        made.encodings = [self.encodings[place] for place in places]
        made.lengths = [self.lengths[place] for place in places]
        made._sources = [
            [dataclasses.replace(source, example=index) for source in self._sources[place]]
            for index, place in enumerate(places)
        ]
        made._states = None
        return made

    def keep(self, states: KeptStates) -> None:
        """Make batches of these states from now on, and not of pieces."""
        self._states = states

    def lists(self) -> list[list[int]]:
        """Indices of examples that the loss compares, so that one step must read them together."""
        together = getattr(self.task, "lists", None)
        found: list[list[int]] | None = together and together(self.examples)
        return found or [[index] for index in range(len(self.examples))]

    def batch(self, indices: Sequence[int]) -> Batch:
        """A batch of some examples, in the order given."""
        sources = [source for index in indices for source in self._sources[index]]
        targets = self.task.targets(self.examples, sources)
        if self._states is not None:
            return self._states.batch(sources, targets)
        return collate(sources, targets)

    def fingerprint(self) -> str:
        """A hash of all pieces and targets: equal only for equal data, tokenizer and policy."""
        digest = hashlib.blake2b(digest_size=16)
        for windows in self.encodings:
            for encoding in windows:
                digest.update(np.asarray([len(encoding), *encoding.ids], dtype=np.int64).tobytes())
        sources = [source for windows in self._sources for source in windows]
        for name, target in sorted(self.task.targets(self.examples, sources).items()):
            digest.update(name.encode())
            digest.update(target.numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TrainingData:
    """Everything that runs with the same data share.

    Attributes:
        splits: as read.
        train: encoded.
        dev: encoded, or None.
        policy: what is kept of long texts.
        heads: where several heads are trained, the data of each, by its name.
    """

    splits: Splits
    train: EncodedExamples
    dev: EncodedExamples | None
    policy: CutPolicy
    heads: Mapping[str, TrainingData] = field(default_factory=dict)

    @classmethod
    def encode(cls, splits: Splits, tokenizer: Tokenizer, policy: CutPolicy) -> TrainingData:
        """Tokenise everything that is read in each epoch, once."""
        train = EncodedExamples(splits.task, splits.train, tokenizer=tokenizer, policy=policy)
        dev = None
        if splits.dev is not None:
            dev = EncodedExamples(splits.task, splits.dev, tokenizer=tokenizer, policy=policy)
        for side, examples in (("training", train), ("dev", dev)):
            if examples is not None and examples.ledger.lost:
                logger.warning("%s: %s", side, examples.ledger.sentence())
        return cls(splits, train, dev, policy)

    @property
    def ledger(self) -> Ledger:
        """What was cut, of training and dev texts together."""
        return self.train.ledger + (self.dev.ledger if self.dev is not None else Ledger())
