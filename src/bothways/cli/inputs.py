"""What commands share: loading a model as the flags say, reading data files, telling what was cut.

Column names and file options come from the flags, else from what fine-tuning stored in the model.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothways.config import CommonSettings
from bothways.data.options import FileOptions
from bothways.data.rows import Row
from bothways.errors import ColumnError, UsageError, nearest
from bothways.tasks.task import Columns
from bothways.tokenization.encoding import Ledger

if TYPE_CHECKING:
    from bothways.inference.model import Model
    from bothways.tasks.task import Task


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnSettings:
    """Which columns of the data hold what: names, or numbers from 1 where there is no header.

    Attributes:
        text: column of the text.
        text_pair: column of the second text of a pair.
        label: column of the label.
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None

    def over(self, stored: Columns) -> Columns:
        """These columns where they are given, else the stored ones."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return dataclasses.replace(stored, **given)


def headed(model: Model, name: str | None) -> Model:
    """The model under the head that was asked for; as it is where none was.

    Raises:
        UsageError: when it has no head of that name.
    """
    if name is None:
        return model
    if name not in model.heads:
        known = f"; {nearest(name, model.heads)}" if model.heads else ": it has no named heads"
        raise UsageError(f"the model has no head {name!r}{known}")
    return model.heads[name]


def open_model(source: str, common: CommonSettings) -> Model:
    """The model, on the device, with the precision and threads that the flags ask for.

    Raises:
        UsageError: for a device that is not here, or threads below 1.
    """
    import torch

    from bothways.inference.model import load
    from bothways.training.runtime import find_device

    if common.threads is not None:
        if common.threads < 1:
            raise UsageError(f"--threads is {common.threads}; it must be at least 1")
        torch.set_num_threads(common.threads)
    device = find_device(common.device)
    dtype = None if common.precision == "auto" else getattr(torch, common.precision)
    return load(source, device=device, dtype=dtype)


def file_options(common: CommonSettings, model: Model | None = None) -> FileOptions:
    """How to read a file: flags, else what the model stores."""
    stored = {} if model is None else model.parts.settings.get("files", {})
    return FileOptions.of(common).over(FileOptions.from_state(stored))


def task_of(model: Model, columns: ColumnSettings) -> Task[Any]:
    """The model's task, reading the columns that the flags name.

    Raises:
        TaskError: when the model has none.
        UntrainedHeadError: when the weights of its head are random.
    """
    from bothways.inference.abilities import trained_task

    task, _ = trained_task(model.parts, model.task)
    return dataclasses.replace(task, columns=columns.over(task.columns))  # type: ignore[type-var]


@contextmanager
def read_as_learned(model: Model) -> Iterator[None]:
    """Where a column is missing, the error says that names and format come from the model."""
    try:
        yield
    except ColumnError as error:
        flags = _learned_flags(model)
        if not flags:
            raise
        raise ColumnError(
            f"{error}. Where no flag says otherwise, files are read as the model's training data "
            f"were: {' '.join(flags)}. For another one give --format auto, --header and its columns"
        ) from error


def _learned_flags(model: Model) -> list[str]:
    """The flags that stand for what the model stored about files and columns."""
    settings = model.parts.settings
    stored = {**settings.get("files", {}), **settings.get("task", {}).get("columns", {})}
    return [
        f"--{'' if value else 'no-'}{name}"
        if isinstance(value, bool)
        else f"--{name.replace('_', '-')} {value}"
        for name, value in stored.items()
        if value is not None and name != "group"
    ]


def as_embedder(model: Model) -> Model:
    """The same model, judged by its vectors, whatever else it was trained for."""
    from bothways.inference.model import Model

    settings = {**model.parts.settings, "task": {"name": "embed"}}
    parts = dataclasses.replace(model.parts, head=None, sentence=model.sentence, settings=settings)
    made = Model(parts)
    made.verify = model.verify
    return made


def warn_of_loss(ledger: Ledger) -> None:
    """Log what was lost, where something was and the output has no place for it."""
    if ledger.lost:
        logger.warning("%s", ledger.sentence())


def texts(
    path: Path, columns: ColumnSettings, common: CommonSettings
) -> Iterator[str | tuple[str, str]]:
    """Texts, or pairs, of a file, streamed: a column of a data file, or the lines of a .txt file.

    Raises:
        DataError: for whatever is wrong with the file or its columns.
    """
    from itertools import chain, islice

    from bothways.data.readers import cell
    from bothways.tasks.columns import find_columns

    if path.suffix == ".txt" and common.format in (None, "auto") and columns == ColumnSettings():
        from bothways.data.lines import read_lines

        yield from read_lines(path, encoding=common.encoding or "utf-8")
        return
    rows: Iterable[Row] = file_options(common).rows(path)
    first = list(islice(rows, 1))
    found = find_columns(first, columns.over(Columns()), labelled=False)
    assert found.text is not None
    for row in chain(first, rows):
        if found.text_pair is None:
            yield cell(row, found.text)
        else:
            yield cell(row, found.text), cell(row, found.text_pair)
