"""`bothways evaluate`: score a model on labelled data, or an embedder on a retrieval set."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bothways.cli.inputs import (
    ColumnSettings,
    as_embedder,
    file_options,
    headed,
    open_model,
    read_as_learned,
    task_of,
    texts,
)
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.errors import UsageError

if TYPE_CHECKING:
    from bothways.evaluation.result import Report
    from bothways.inference.model import Model


@dataclass(frozen=True)
class Settings:
    """Score a model on labelled data, with 95 % intervals and beside its baselines.

    Attributes:
        model: folder of a fine-tuned model, or hub name; for vectors any encoder will do.
        data: labelled data file; for a model that fills masks raw text, such as lines of a .txt.
        head: of several heads, the one to judge.
        train: training file, for the baselines that learn from it.
        task: embed judges the vectors of a model that was trained for something else, or not.
        corpus: documents of a retrieval set to judge on instead of --data.
        queries: its queries.
        qrels: its judgements.
        judgements: how queries are named and grades meant; auto: what the files look like.
        report: write report.json, report.md and report.html into this folder.
    """

    model: str
    data: Path | None = None
    head: str | None = None
    train: Path | None = None
    task: Literal["embed"] | None = None
    corpus: Path | None = None
    queries: Path | None = None
    qrels: Path | None = None
    judgements: Literal["auto", "plain", "cranfield"] = "auto"
    report: Path | None = None
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)

    def check(self) -> None:
        """Refuse anything but one thing to judge on.

        Raises:
            UsageError: when it is missing, in part or twice.
        """
        files = {"--corpus": self.corpus, "--queries": self.queries, "--qrels": self.qrels}
        missing = [flag for flag, path in files.items() if path is None]
        if self.data is not None and len(missing) < len(files):
            raise UsageError("give --data or a retrieval set (--corpus --queries --qrels)")
        if self.data is None and missing:
            one = "give --data, a labelled file, or " if len(missing) == len(files) else ""
            raise UsageError(f"{one}a retrieval set: {', '.join(missing)}")


def run(settings: Settings) -> Output:
    """Read, predict, judge."""
    from bothways.evaluation.evaluate import summary
    from bothways.report.text import render_text
    from bothways.report.write import write_report

    settings.check()
    model = headed(open_model(settings.model, settings.common), settings.head)
    if settings.task == "embed":
        model = as_embedder(model)
    reranks = model.task is not None and model.task.name == "rerank"
    if settings.data is None and not reranks:
        report = _of_vectors(settings, model)
    elif settings.data is not None and model.task is None and model.parts.masked_lm is not None:
        report = _of_masks(settings, settings.data, model)
    else:
        report = _of_examples(settings, model)
    if settings.report is not None:
        write_report(report, settings.report)
    return Output(render_text(report), summary(report))


def _options(settings: Settings) -> dict[str, Any]:
    common = settings.common
    return {
        "model_name": settings.model,
        "data_name": str(settings.data or settings.qrels),
        "seed": common.seed,
        "max_length": common.max_length,
        "policy": common.policy,
        "batch_tokens": common.batch_tokens,
    }


def _of_examples(settings: Settings, model: Model) -> Report:
    """The task's own examples: rows, or queries with candidates to rank anew."""
    from bothways.evaluation.evaluate import evaluate
    from bothways.training.retrieval import RetrievalFiles, read_retrieval

    # Columns may decide what is judged: with a label, an embedder's pairs have scores.
    model.task = task = task_of(model, settings.columns)
    options = file_options(settings.common, model)
    if settings.data is not None:
        with read_as_learned(model):
            examples = task.read(options.rows(settings.data))
    else:
        assert settings.corpus
        assert settings.queries
        assert settings.qrels
        files = RetrievalFiles(
            settings.corpus, settings.queries, settings.qrels, settings.judgements
        )
        base = model.parts.settings.get("provenance", {}).get("base_model")
        examples = read_retrieval(task, files, files=options, encoder=base)
    train = None if settings.train is None else task.read(options.rows(settings.train))
    overlap = settings.common.overlap
    with counting("examples", len(examples)) as count:
        return evaluate(
            model, examples, train=train, overlap=overlap, on_batch=count, **_options(settings)
        )


def _of_masks(settings: Settings, data: Path, model: Model) -> Report:
    """Raw text, lines or a column of a file, whose tokens a model that fills masks guesses."""
    from bothways.diagnostics.filling import evaluate_filling

    given = list(texts(data, settings.columns, settings.common))
    apart = [text for each in given for text in ((each,) if isinstance(each, str) else each)]
    options = _options(settings)
    del options["policy"]  # the beginning of a text is read
    return evaluate_filling(model, apart, **options)


def _of_vectors(settings: Settings, model: Model) -> Report:
    """A retrieval set, whose documents are ranked by the model's vectors."""
    from bothways.data.retrieval import read_retrieval_set
    from bothways.evaluation.retrieval import evaluate_retrieval

    assert settings.corpus
    assert settings.queries
    assert settings.qrels
    found = read_retrieval_set(
        settings.corpus,
        settings.queries,
        settings.qrels,
        files=file_options(settings.common),
        judgements=settings.judgements,
    )
    with counting("texts", len(found.documents) + len(found.answerable)) as count:
        return evaluate_retrieval(model, found, on_batch=count, **_options(settings))
