"""What fine-tuning leaves: the judged model, its card, report, recipe and metrics."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bothways.checkpoints.card import CardFacts
from bothways.checkpoints.parts import Parts
from bothways.checkpoints.save import save_parts
from bothways.errors import counted
from bothways.evaluation.evaluate import evaluate, versions
from bothways.evaluation.findings import truncation_finding
from bothways.evaluation.result import Finding, Report
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.inference.several import one_head
from bothways.report.write import write_report
from bothways.tasks.task import Task
from bothways.training.examples import TrainingData, file_options
from bothways.training.grid import RunResult, grid
from bothways.training.settings import FinetuneSettings
from bothways.training.several import one_report, together

# What the card shows of tasks that do not predict from single texts.
USE = {
    "answer": 'print(model.predict([("Who saw it?", "Ann saw it.")]))',
    "embed": 'print(model.embed(["A text."]).vectors)',
}


def judge_result(settings: FinetuneSettings, data: TrainingData, parts: Parts) -> Report:
    """Score the finished model, once: on test, else on dev.

    Without either the report says that nothing is known about the model's quality.
    """
    if data.heads:
        alone = settings.alone.items()
        return one_report(
            {
                name: judge_result(own, data.heads[name], one_head(parts, name))
                for name, own in alone
            }
        )
    model = _model(parts, data)
    splits, files = data.splits, settings.data
    examples = splits.test if splits.test is not None else splits.dev
    if examples is None:
        nothing = Finding(
            "baseline",
            "not asked",
            "No data was held out, so how good the model is remains unknown. Give --dev, "
            "--dev-share or --test, or run `bothways evaluate` on labelled data.",
        )
        return Report(
            task=splits.task.name,
            model=str(settings.output),
            data=str(files.learned),
            metrics={},
            findings=(truncation_finding(data.ledger), nothing),
            ledger=data.ledger,
            versions=versions(),
        )
    name = files.test or files.dev or f"{files.dev_share:g} of {files.learned}"
    return evaluate(
        model,
        examples,
        train=splits.train,
        model_name=str(settings.output),
        data_name=str(name),
        seed=settings.common.seed,
        max_length=data.policy.max_length,
        policy=data.policy.keep,
        overlap=data.policy.overlap,
        batch_tokens=settings.common.batch_tokens,
    )


def tune(data: TrainingData, parts: Parts) -> TrainingData:
    """The same data with what the task decides on dev once the weights are known, where it does."""
    splits, policy = data.splits, data.policy
    if data.heads:
        heads = {name: tune(own, one_head(parts, name)) for name, own in data.heads.items()}
        return together(heads, policy)
    untuned = splits.task.untuned() if hasattr(splits.task, "untuned") else splits.task
    if splits.dev is None or untuned == splits.task:
        return data
    results = _model(parts, with_task(data, untuned)).predict(
        splits.dev, max_length=policy.max_length, policy=policy.keep, overlap=policy.overlap
    )
    return with_task(data, splits.task.tuned(results, splits.dev))  # type: ignore[attr-defined]


def dev_results(data: TrainingData, parts: Parts) -> tuple[TrainingData, Results]:
    """The data with what the task decides on dev, and what the model then predicts there."""
    tuned, policy = tune(data, parts), data.policy
    assert tuned.splits.dev is not None
    results = _model(parts, tuned).predict(
        tuned.splits.dev, max_length=policy.max_length, policy=policy.keep, overlap=policy.overlap
    )
    return tuned, results


def with_task(data: TrainingData, task: Task[Any]) -> TrainingData:
    """The same examples for a task that decides otherwise."""
    return dataclasses.replace(data, splits=dataclasses.replace(data.splits, task=task))


def _model(parts: Parts, data: TrainingData) -> Model:
    settings = {**parts.settings, "task": data.splits.task.state()}
    return Model(dataclasses.replace(parts, settings=settings))


def save_result(
    settings: FinetuneSettings,
    data: TrainingData,
    parts: Parts,
    report: Report,
    runs: Sequence[RunResult],
    *,
    log: Path | None = None,
) -> None:
    """Write the model folder.

    Args:
        settings: of the command.
        data: what was learned from.
        parts: the weights that are kept, nothing random in them.
        report: on held-out data.
        runs: all of them; the best run's metrics.jsonl becomes the folder's.
        log: that file, where the runs have another folder than the model.
    """
    folder, task = settings.output, data.splits.task
    best = best_of(runs, task, settings)
    stored = {
        **parts.settings,
        "task": task.state(),
        "columns": dataclasses.asdict(task.columns),
        "files": file_options(settings).state(),
        "policy": data.policy.keep,
        "overlap": data.policy.overlap,
        "provenance": {
            "base_model": settings.model,
            "settings": settings.given(),
            "runs": [dataclasses.asdict(run) for run in runs],
            "best": best.name,
            "examples": {
                "train": len(data.splits.train),
                "dev": len(data.splits.dev or ()),
                "test": len(data.splits.test or ()),
            },
            "ledger": data.ledger.as_dict(),
            "versions": versions(),
        },
    }
    save_parts(
        dataclasses.replace(
            parts,
            settings=stored,
            # What is judged is what will be used: the same lengths, and no vectors of old.
            tokenizer=parts.tokenizer and parts.tokenizer.with_max_length(data.policy.max_length),
            sentence=parts.sentence if parts.head is None else None,
        ),
        folder,
        overwrite=True,
        card=card(settings, data, report, best),
    )
    (spec,) = (spec for spec in grid(settings) if spec.name == best.name)
    log = log or spec.folder / "metrics.jsonl"
    if log.parent != folder:
        shutil.copyfile(log, folder / "metrics.jsonl")
    write_report(report, folder)


def best_of(runs: Sequence[RunResult], task: Task[Any], settings: FinetuneSettings) -> RunResult:
    """The first of the runs with the best value on dev."""
    direction = task.metric_directions[settings.loop.metric or task.main_metric]
    return max(runs, key=lambda run: float("-inf") if run.value is None else run.value * direction)


def card(
    settings: FinetuneSettings, data: TrainingData, report: Report, best: RunResult
) -> CardFacts:
    """The facts of the model card."""
    splits, limits = (
        data.splits,
        ["Learned from the data above; on other kinds of text it is untested."],
    )
    lines = _data_lines(settings, data)
    for name, own in data.heads.items():
        told = _data_lines(settings.alone[name], own)
        lines += [f"`{name}` ({own.splits.task.name}): {line}" for line in told]
    scores: dict[str, dict[str, str]] = {}
    if best.metrics:
        scores["dev"] = {name: f"{value:.3f}" for name, value in best.metrics.items()}
    if report.metrics:
        split = "test" if splits.test is not None else "dev"
        scores[split] = {name: str(metric) for name, metric in report.metrics.items()}
    if splits.test is None and splits.dev is not None:
        limits.append("The scores are of the data that the weights were chosen on: a bit too good.")
    if splits.test is None and splits.dev is None:
        limits.append("Nothing was held out, so how good it is remains unknown.")
    return CardFacts(
        title=settings.output.resolve().name,
        base_model=settings.model,
        task=splits.task.name,
        labels=splits.task.labels,
        data=tuple(lines),
        scores=scores,
        ledger=data.ledger,
        limits=tuple(limits),
        use=(
            "import bothways",
            f"model = bothways.load({str(settings.output)!r})",
            USE.get(splits.task.name, 'print(model.predict(["A text."]))'),
        ),
    )


def _data_lines(settings: FinetuneSettings, data: TrainingData) -> list[str]:
    """What a head was learned from and chosen on; nothing where there are several."""
    if data.heads:
        return []
    files, splits = settings.data, data.splits
    lines = [f"Trained on {counted(len(splits.train), 'example')} of `{files.learned.name}`."]
    if splits.dev is not None:
        place = f"`{files.dev.name}`" if files.dev else f"{files.dev_share:g} of the training file"
        lines.append(f"Weights chosen on {counted(len(splits.dev), 'example')} ({place}).")
    if splits.test is not None and files.test is not None:
        lines.append(
            f"Judged once on {counted(len(splits.test), 'example')} of `{files.test.name}`."
        )
    counts = getattr(splits.task, "label_counts", {})
    if counts:
        listed = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        lines.append(f"Training examples of each label: {listed}.")
    return lines
