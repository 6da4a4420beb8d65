"""Fine-tuning: labelled data and a pretrained encoder in, a judged model folder out.

Here: the order of things, the choice among runs, the result. A single run is in `runs.py`, the loop
in `loop.py`, reading data in `examples.py`, the output folder in `output.py`, what is written in
`saving.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.errors import UsageError, nearest
from bothways.evaluation.result import Report, Table
from bothways.inference.model import Model
from bothways.tasks.task import Task
from bothways.tokenization.encoding import Ledger
from bothways.training.adapters import check_targets, save_adapter
from bothways.training.curve import CurvePoint, curve_figure, curve_table, learning_curve
from bothways.training.examples import TrainingData, new_task, read_splits
from bothways.training.freezing import check_freeze
from bothways.training.grid import RunResult, RunSpec, grid, grid_tables, spread_as_list
from bothways.training.layers import check_reinit
from bothways.training.output import claim_output
from bothways.training.recorder import OnEvent, check_trackers
from bothways.training.runs import Runner
from bothways.training.runtime import Runtime
from bothways.training.saving import judge_result, save_result, tune
from bothways.training.settings import FinetuneSettings
from bothways.training.several import name_heads, policy_of, read_several, several_task

logger = logging.getLogger(__name__)

# Below this peak rate a head alone hardly moves in a few epochs.
HEAD_ALONE_RATE = 2e-4
# And low-rank changes.
LORA_RATE = 1e-4


@dataclass(frozen=True)
class FinetuneResult:
    """What fine-tuning produced.

    Attributes:
        folder: of the model.
        report: on test, else on dev; without either it says that nothing was judged.
        runs: all of them, in the order they were made.
        best: the one whose weights the folder has.
        curve: what shares of the training data reach, where that was asked for.
        ledger: what was cut of training and dev texts.
        seconds: of this call.
    """

    folder: Path
    report: Report
    runs: tuple[RunResult, ...]
    best: RunResult
    curve: tuple[CurvePoint, ...]
    ledger: Ledger
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The object that `finetune --json` prints."""
        return {
            "task": self.report.task,
            "model": str(self.folder),
            "data": self.report.data,
            "count": self.report.count,
            "metrics": {
                name: dataclasses.asdict(metric) for name, metric in self.report.metrics.items()
            },
            "runs": [dataclasses.asdict(run) for run in self.runs],
            "best": self.best.name,
            "spread": spread_as_list(self.runs),
            "learning_curve": [point.as_dict() for point in self.curve],
            "ledger": self.ledger.as_dict(),
            "seconds": self.seconds,
        }


def finetune(settings: FinetuneSettings, *, on_event: OnEvent | None = None) -> FinetuneResult:
    """Fine-tune an encoder, choose the best weights, judge them, write the model folder.

    Under a launcher (`torchrun`, `accelerate launch`) every process calls this; the first writes.

    Args:
        settings: everything.
        on_event: told what happens, for a progress bar.

    Raises:
        UsageError: for impossible settings, before anything is read.
        DataError: for what is wrong with the files.
        CheckpointError: when the encoder cannot be loaded or the model not be written.
        TrainingError: when the output folder is taken, the run cannot be resumed, or it diverges.
        RunStopped: after SIGTERM, when a checkpoint is saved.

    Example:
        >>> data = DataSettings(train=Path("train.csv"), dev_share=0.1)
        >>> finetune(FinetuneSettings("path/to/bert", Path("out"), data))  # doctest: +SKIP
    """
    start = time.perf_counter()
    settings.check()
    task: Any = several_task(settings) if settings.heads else new_task(settings)
    metric = chosen_metric(settings, task)
    check_trackers(settings.track)
    runtime = Runtime(
        device=settings.common.device,
        precision=settings.common.precision,
        threads=settings.common.threads,
    )
    claim_output(settings, runtime, [spec.folder for spec in grid(settings)])
    # The model first: that it has so few layers or positions is known before any data is read.
    base = load_parts(settings.model)
    model = Model(base)
    check_freeze(base.config, settings.network.freeze)
    check_reinit(base.config, settings.tuning.reinit_layers, settings.network.freeze)
    check_targets(base.encoder, settings.tuning)
    if settings.heads:
        data = read_several(settings, task, model)
    else:
        policy = policy_of(settings, task, model)
        data = TrainingData.encode(read_splits(settings, task), model.tokenizer, policy)
    splits = data.splits
    metric = chosen_metric(settings, splits.task)  # which metrics there are may be up to the data
    say_what_is_unusual(settings, {} if base.sentence is None else base.sentence.prompts)
    runner = Runner(
        settings, data=data, base=base, runtime=runtime, metric=metric, on_event=on_event
    )
    results, best, parts = run_all(grid(settings), runner)
    finish = getattr(splits.task, "finish", lambda done: done)  # what a task changes of the head
    parts = name_heads(finish(parts.trained()), settings, data)
    data = tune(data, parts)
    parts = name_heads(parts, settings, data)
    report = judge_result(settings, data, parts)
    curve = learning_curve(settings, runner, best, data, parts, finish=finish)
    tables = (*report.tables, *grid_tables(results, best), *weight_tables(splits.task))
    report = dataclasses.replace(report, tables=tables)
    if curve:
        report = dataclasses.replace(
            report,
            tables=(*report.tables, curve_table(curve)),
            figures=(*report.figures, curve_figure(curve)),
        )
    if runtime.is_main:
        save_result(settings, data, parts, report, results)
        if settings.tuning.lora_save == "adapter":
            save_adapter(
                parts,
                runner.changes[best.name],
                settings.output,
                base_model=settings.model,
                tuning=settings.tuning,
            )
    runtime.wait()
    return FinetuneResult(
        folder=settings.output,
        report=report,
        runs=tuple(results),
        best=best,
        curve=curve,
        ledger=data.ledger,
        seconds=time.perf_counter() - start,
    )


def weight_tables(task: Task[Any]) -> tuple[Table, ...]:
    """How much each label counted in training, where they did not count alike."""
    weights = task.label_loss.weights if hasattr(task, "label_loss") else ()
    if not weights:
        return ()
    counts: dict[str, int] = getattr(task, "label_counts", {})
    rows = tuple(
        (label, counts.get(label), weight)
        for label, weight in zip(task.labels, weights, strict=True)
    )
    columns = ("label", "training examples", "weight")
    return (Table("weights", "How much each label counted in training", columns, rows),)


def chosen_metric(settings: FinetuneSettings, task: Task[Any]) -> str:
    """What the best weights are chosen by.

    Raises:
        UsageError: when the task has no such metric; those that it has are listed.
    """
    metric, known = settings.loop.metric or task.main_metric, task.metric_directions
    if metric not in known:
        listed = ", ".join(f"{name} ({'+' if known[name] > 0 else '-'})" for name in known)
        raise UsageError(
            f"--metric is {metric!r}; {nearest(metric, known)} {task.name} has, with + where more "
            f"is better: {listed}"
        )
    return metric


def say_what_is_unusual(settings: FinetuneSettings, prompts: Mapping[str, str]) -> None:
    """Log, once, what may surprise; `prompts` are those of the folder."""
    if not settings.has_dev:
        logger.info(
            "neither --dev nor --dev-share is given: %s, and the last weights are kept",
            "the one epoch runs"
            if settings.loop.epochs == 1
            else f"all {settings.loop.epochs} epochs run",
        )
    if settings.task == "embed" and settings.loop.accumulate > 1:
        logger.info(
            "--accumulate %d gives no more negatives: each part of a step compares its own texts "
            "only. A large --batch-size without it compares all, in the memory of --piece-tokens",
            settings.loop.accumulate,
        )
    asked = (settings.embed.query_prompt, settings.embed.document_prompt)
    if settings.task == "embed" and prompts and asked == (None, None):
        logger.warning(
            "the model has the prompts %s, and nothing is put before the texts that it learns "
            "from; --query-prompt and --document-prompt say what is",
            ", ".join(f"{name} ({text!r})" for name, text in prompts.items()),
        )
    slow = max(settings.optim.learning_rate) < HEAD_ALONE_RATE
    if settings.network.freeze == "encoder" and slow:
        logger.warning(
            "only the head learns, and a learning rate of %g hardly moves it: try 1e-3",
            max(settings.optim.learning_rate),
        )
    if settings.tuning.lora_rank and max(settings.optim.learning_rate) < LORA_RATE:
        logger.warning(
            "low-rank changes want larger learning rates than whole matrices: with %g they hardly "
            "move; try 5e-4",
            max(settings.optim.learning_rate),
        )


def run_all(specs: list[RunSpec], runner: Runner) -> tuple[list[RunResult], RunResult, Parts]:
    """Every run of the grid; those that are over already are not repeated.

    Returns:
        All results, the best one, and its encoder and head.
    """
    results: list[RunResult] = []
    best: RunResult | None = None
    best_spec = specs[0]
    parts: Parts | None = None
    for spec in specs:
        stored = runner.finished(spec)
        result, made = (stored, None) if stored is not None else runner.run(spec)
        results.append(result)
        if runner.better(result, best):
            if best is not None:
                runner.forget(best_spec, best, all_weights=True)
            best, best_spec, parts = result, spec, made
            if len(specs) > 1:
                runner.forget(spec, result, all_weights=False)
        else:
            runner.forget(spec, result, all_weights=True)
        del made
    assert best is not None
    if parts is None:
        parts = runner.best_weights(best_spec, best)
    return results, best, parts
