"""`bothways predict`: run a fine-tuned model over a file, streamed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothways.cli.inputs import (
    ColumnSettings,
    file_options,
    headed,
    open_model,
    read_as_learned,
    task_of,
)
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.errors import UsageError, counted
from bothways.tokenization.encoding import Ledger

if TYPE_CHECKING:
    from bothways.inference.model import Model
    from bothways.inference.results import Results
    from bothways.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Predict every row of a file.

    Attributes:
        model: folder of a fine-tuned model, or hub name.
        input: data file; labels in it are not read.
        head: of several heads, the one to ask; unset: all of them, in one pass.
        output: a .jsonl file to write, a line a row; unset: standard output.
        labels: other labels than the model's, for a classifier of entailment (zero-shot).
        template: the sentence that each of these labels is put into, {} standing for the label.
        multi_label: judge each of these labels for itself.
        n_best: best spans to list as alternatives, for a model that answers.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    head: str | None = None
    output: Path | None = None
    labels: tuple[str, ...] = ()
    template: str | None = None
    multi_label: bool = False
    n_best: int = 0
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
    if not settings.labels and (settings.template is not None or settings.multi_label):
        raise UsageError("--template and --multi-label say how --labels are asked; give them too")
    if output is None:
        found = _stream(settings, ledgers, None)
        return Output((_line(result) for result in found), found)
    claim(output, overwrite=settings.overwrite, source=settings.input)
    with (
        Staged(output.parent) as files,
        files.stream(output.name) as stream,
        counting("examples") as count,
    ):
        written = 0
        for result in _stream(settings, ledgers, count):
            stream.write((_line(result) + "\n").encode())
            written += 1
    ledger = Ledger.total(ledgers)
    seconds = time.perf_counter() - start
    return Output(
        f"{output}: {counted(written, 'result')} in {seconds:.1f} s\n{ledger.sentence()}",
        {
            "model": settings.model,
            "output": str(output),
            "count": written,
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
    from bothways.inference.several import RowsOfAll, policies
    from bothways.tasks.results import as_dict
    from bothways.tasks.task import Columns

    model = headed(open_model(settings.model, settings.common), settings.head)
    common = settings.common
    if settings.labels:
        # What the model stores about files and columns is of the pairs that it learned from.
        read: Callable[..., list[Any]] = _texts_alone(settings).read
        options = file_options(common)
        predict: Callable[..., Iterator[Results]] = partial(_ask, model, settings)
    elif model.heads and not settings.n_best:
        tasks = {name: task_of(one, ColumnSettings()) for name, one in model.heads.items()}
        read = RowsOfAll(tasks, settings.columns.over(Columns())).read
        options = file_options(common)
        predict = model.predict_stream
    else:
        task, options = task_of(model, settings.columns), file_options(common, model)
        read = task.read
        if settings.n_best:
            model.task = _listing(task, settings.n_best)
        predict = model.predict_stream
    policy = policies(model, common.max_length, common.policy, common.overlap)
    for chunk in chunks(options.rows(settings.input), CHUNK_TEXTS):
        with nullcontext() if settings.labels else read_as_learned(model):
            examples = read(chunk, labelled=False)
        lines = iter(chunk)
        for part in predict(
            examples, policy=policy, batch_tokens=common.batch_tokens, on_batch=on_batch
        ):
            ledgers.append(part.ledger)
            for result in part:
                row = next(lines)
                named = {"id": row.cells["id"]} if "id" in row.cells else {}
                yield {"line": row.line, **named, **as_dict(result)}
    if settings.output is None:
        logger.info("%s", Ledger.total(ledgers).sentence())


def _listing(task: Task[Any], count: int) -> Task[Any]:
    """The task, its results listing so many alternatives."""
    if not hasattr(task, "n_best"):
        raise UsageError(
            f"--n-best is for models that answer questions; this one's task is {task.name}"
        )
    return replace(task, n_best=count)  # type: ignore[type-var]


def _texts_alone(settings: Settings) -> Task[Any]:
    """Reads the texts that labels are given to."""
    from bothways.tasks.registry import make_task
    from bothways.tasks.task import Columns

    return make_task("classify", columns=settings.columns.over(Columns()))


def _ask(
    model: Model, settings: Settings, examples: Sequence[Any], **options: Any
) -> Iterator[Results]:
    """The best of the given labels for each text."""
    from bothways.inference.zero_shot import TEMPLATE, zero_shot_stream

    return zero_shot_stream(
        model,
        [each.text if each.pair is None else (each.text, each.pair) for each in examples],
        settings.labels,
        template=settings.template or TEMPLATE,
        multi_label=settings.multi_label,
        **options,
    )
