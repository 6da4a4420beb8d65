"""Distillation: a model in, a smaller one out that does the same, beside what that costs.

Here: the order of things for both kinds of teacher, of a task and of masked text. How a student
begins is in `student.py`, what it minimises in `imitation.py`, its runs in `student_runs.py`, the
comparison in `comparison.py`; loop and saving are those of fine-tuning and of pretraining.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.checkpoints.card import CardFacts
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.checkpoints.save import save_parts
from bothways.data.corpus import Corpus
from bothways.data.options import FileOptions
from bothways.errors import CheckpointError, TokenizerError, UsageError
from bothways.evaluation.evaluate import versions
from bothways.evaluation.intervals import Units
from bothways.evaluation.result import Report
from bothways.inference.batches import CPU_BATCH_TOKENS, plan_batches
from bothways.inference.inputs import task_of
from bothways.inference.model import Model
from bothways.tasks.task import Task
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer
from bothways.training.comparison import Comparison, Score, Scores, times_faster
from bothways.training.distill_settings import DistillSettings
from bothways.training.examples import EncodedExamples, TrainingData, read_splits
from bothways.training.finetune import chosen_metric, run_all
from bothways.training.grid import grid, grid_tables
from bothways.training.imitation import SOFT
from bothways.training.loop import stopped_at_once
from bothways.training.networks import vocabulary, with_length
from bothways.training.output import claim_output, resume_command
from bothways.training.pretrain_saving import save_pretrained
from bothways.training.recorder import OnEvent, check_trackers
from bothways.training.runtime import Runtime
from bothways.training.saving import judge_result, save_result, tune
from bothways.training.settings import FinetuneSettings
from bothways.training.student import ReadIds, evenly_spaced, with_fewer_words, with_layers
from bothways.training.student_runs import StudentRunner, StudentTextRun, without_relation
from bothways.training.text_feed import open_text

logger = logging.getLogger(__name__)

# What of bothways.json belongs to the task and not to the network.
OF_TASK = ("task", "columns", "files", "policy", "overlap")
# Examples whose batches are timed.
TIMED = 256


@dataclass(frozen=True)
class DistillResult:
    """What distillation produced.

    Attributes:
        folder: of the student.
        teacher: as given.
        comparison: of the two.
        report: of the student on held-out data; None where it is of no task or untrained.
        metrics: of the student on held-out text; empty for a task.
        seconds: of this call.
    """

    folder: Path
    teacher: str
    comparison: Comparison
    report: Report | None
    metrics: Mapping[str, float]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The object that `distill --json` prints."""
        found = {} if self.report is None else self.report.metrics
        return {
            "model": str(self.folder),
            "teacher": self.teacher,
            "task": None if self.report is None else self.report.task,
            "comparison": self.comparison.as_dict(),
            "metrics": dict(self.metrics)
            | {name: dataclasses.asdict(metric) for name, metric in found.items()},
            "ledger": None if self.report is None else self.report.ledger.as_dict(),
            "seconds": self.seconds,
        }


def distill(settings: DistillSettings, *, on_event: OnEvent | None = None) -> DistillResult:
    """Make a student of a teacher, train it, compare the two, write the student's folder.

    Under a launcher (`torchrun`, `accelerate launch`) every process calls this; the first writes.

    Args:
        settings: everything.
        on_event: told what happens, for a progress bar.

    Raises:
        UsageError: for impossible settings, or such as the teacher cannot have.
        DataError: for what is wrong with the files.
        CheckpointError: when a model cannot be loaded, or the teacher has nothing to teach.
        TokenizerError: when teacher and student read texts as other ids.
        TrainingError: when the output folder is taken, the run cannot be resumed, or it diverges.
        RunStopped: after SIGTERM, when a checkpoint is saved.

    Example:
        >>> settings = DistillSettings("mr-model", Path("small"), ("mr.txt",), student_layers=3)
        >>> distill(settings).comparison.times_faster  # doctest: +SKIP
        1.9
    """
    start = time.perf_counter()
    settings.check()
    check_trackers(settings.track)
    common = settings.common
    runtime = Runtime(device=common.device, precision=common.precision, threads=common.threads)
    teacher = load_parts(settings.teacher)
    job = _Job(settings, teacher, runtime, on_event)
    finish = job.as_it_begins if settings.init_only else job.of_text if job.fills else job.of_task
    comparison, report, metrics = finish()
    runtime.wait()
    return DistillResult(
        folder=settings.output,
        teacher=settings.teacher,
        comparison=comparison,
        report=report,
        metrics=metrics,
        seconds=time.perf_counter() - start,
    )


Made = tuple[Comparison, Report | None, Mapping[str, float]]


class _Job:
    """One command: the teacher as loaded, and both models over the vocabulary that is kept."""

    def __init__(
        self,
        settings: DistillSettings,
        teacher: Parts,
        runtime: Runtime,
        on_event: OnEvent | None,
    ) -> None:
        self.settings, self.original, self.runtime = settings, teacher, runtime
        self.on_event = on_event
        task: Any = task_of(teacher)
        if task is not None:
            columns = dataclasses.replace(task.columns, **settings.held_out.columns)
            task = dataclasses.replace(task, columns=columns)
        self.task: Task[Any] | None = task
        self.files = FileOptions.from_state(teacher.settings.get("files", {}))
        self.fills = task is None and teacher.masked_lm is not None
        if not settings.init_only:
            self._check_teaches()

    def _check_teaches(self) -> None:
        """Refuse a teacher that has nothing to say."""
        teacher, source = self.original, self.settings.teacher
        if not teacher.head_trained:
            raise CheckpointError(f"the head of {source} has random weights and can teach nothing")
        if not self.fills and (self.task is None or self.task.name not in SOFT):
            known = ", ".join(SOFT)
            raise CheckpointError(
                f"{source} has neither a task ({known}) nor a masked-LM head, so there are no "
                "predictions to learn from; fine-tune it first, or cut it with --init-only"
            )

    def start(self) -> tuple[Parts, Parts]:
        """The student as it begins, and the teacher over the same vocabulary."""
        settings, teacher = self.settings, self.original
        if teacher.tokenizer is None and not settings.init_only:
            raise TokenizerError(f"{settings.teacher} has no tokenizer, so no text can be read")
        student = teacher if settings.student is None else self._other(settings.student)
        if settings.keep_words_from is not None:
            read = self._kept_words(settings.keep_words_from)
            student = teacher = with_fewer_words(teacher, read)
            if settings.student is not None:
                student = with_fewer_words(self._other(settings.student), read)
        if settings.student_layers is not None:
            layers = evenly_spaced(teacher.config.num_layers, settings.student_layers)
            student = with_layers(student, layers)
        elif settings.keep_layers:
            student = with_layers(student, settings.keep_layers)
        return student, teacher

    def _other(self, source: str) -> Parts:
        """An encoder that is not cut from the teacher, and shall do the teacher's task."""
        student, teacher = load_parts(source), self.original
        prints = [each.tokenizer and each.tokenizer.fingerprint for each in (student, teacher)]
        if prints[0] != prints[1]:
            raise TokenizerError(
                f"{source} and {self.settings.teacher} have different tokenizers, so their states "
                "and tokens do not belong to each other; take a student with the tokenizer of the "
                "teacher, or --student-layers"
            )
        stored = {key: teacher.settings[key] for key in OF_TASK if key in teacher.settings}
        return dataclasses.replace(student, settings={**student.settings, **stored})

    def _kept_words(self, path: Path) -> ReadIds:
        """Reads the texts whose words stay: rows of the task, or whole documents and their lines.

        Raises:
            TokenizerError: when there is no tokenizer.
        """
        task, tokenizer = self.task, self.original.tokenizer
        if tokenizer is None:
            raise TokenizerError(f"{self.settings.teacher} has no tokenizer to make smaller")
        options = self.settings.file_options.over(self.files)
        if task is not None and (options.format or path.suffix != ".txt"):
            examples = task.read(options.rows(path), labelled=False)
            whole = CutPolicy(1 << 40, "head")

            def read_rows(tokenizer: Tokenizer) -> Iterator[Sequence[int]]:
                windows, _ = task.encode_all(examples, tokenizer, whole)
                return (encoding.ids for each in windows for encoding in each)

            return read_rows
        corpus = Corpus((str(path),), encoding=options.encoding or "utf-8")
        texts = list(dict.fromkeys(t for text in corpus for t in (text, *text.split("\n"))))
        return lambda tokenizer: iter(tokenizer.plain_ids(texts))

    def _imitation(self, student: Parts) -> DistillSettings:
        """The settings with the weight of states filled in."""
        widths = [each.config.hidden_size for each in (self.original, student)]
        given = self.settings.imitation
        if given.hidden_weight and widths[0] != widths[1]:
            raise UsageError(
                f"--hidden-weight compares states, and the teacher's are {widths[0]} wide, the "
                f"student's {widths[1]}; leave it out"
            )
        weight = given.hidden_weight
        filled = float(widths[0] == widths[1]) if weight is None else weight
        imitation = dataclasses.replace(given, hidden_weight=filled)
        return dataclasses.replace(self.settings, imitation=imitation)

    def _described(self, comparison: Comparison) -> dict[str, Any]:
        """What bothways.json says about where the student comes from."""
        settings = self.settings
        return {
            "teacher": settings.teacher,
            "settings": settings.deciding(),
            "comparison": comparison.as_dict(),
        }

    def as_it_begins(self) -> Made:
        """Write the student untrained."""
        settings = self.settings
        claim_output(settings, self.runtime, [settings.output])
        student, _ = self.start()
        comparison = Comparison.of(self.original, student)
        provenance = {"base_model": settings.teacher, "versions": versions()}
        kept = {**student.settings, "provenance": provenance}
        if self.runtime.is_main:
            save_parts(
                dataclasses.replace(
                    student, settings=kept | {"distilled": self._described(comparison)}
                ),
                settings.output,
                overwrite=True,
                card=CardFacts(
                    title=settings.output.resolve().name,
                    base_model=settings.teacher,
                    task="" if self.task is None else self.task.name,
                    labels=student.labels,
                    limits=("Cut from its base model and not trained since, so judge it first.",),
                ),
            )
        return comparison, None, {}

    def of_task(self) -> Made:
        """Train on labelled rows."""
        assert self.task is not None
        given = self.settings.finetuning(self.task.name, self.files)
        claim_output(self.settings, self.runtime, [spec.folder for spec in grid(given)])
        student, teacher = self.start()
        whole = self._imitation(student)
        splits = read_splits(given, self.task, fitted=True)
        data = TrainingData.encode(splits, *_read_by(student, teacher, given))
        runner = StudentRunner(
            given,
            data=data,
            base=student,
            runtime=self.runtime,
            metric=chosen_metric(given, self.task),
            on_event=self.on_event,
        ).taught(teacher, whole)
        results, best, parts = run_all(grid(given), runner)
        parts = parts.trained()
        data = tune(data, parts)
        report = judge_result(given, data, parts)
        batches = _timed(data.dev or data.train)
        faster = times_faster(teacher, parts, batches)
        comparison = Comparison.of(self.original, parts, faster, self._scores(data, parts))
        tables = (comparison.table(), *report.tables, *grid_tables(results, best))
        report = dataclasses.replace(report, tables=tables)
        if self.runtime.is_main:
            stored = {**parts.settings, "distilled": self._described(comparison)}
            parts = dataclasses.replace(parts, settings=stored)
            save_result(given, data, parts, report, results)
        return comparison, report, {}

    def _scores(self, data: TrainingData, parts: Parts) -> Scores | None:
        """The main metric of both on test, else on dev."""
        examples = data.splits.test if data.splits.test is not None else data.splits.dev
        if examples is None:
            return None
        policy, metric = data.policy, data.splits.task.main_metric

        def scorer(parts: Parts, task: Task[Any]) -> Score:
            stored = {**parts.settings, "task": task.state()}
            model = Model(dataclasses.replace(parts, settings=stored))
            results = model.predict(
                examples, max_length=policy.max_length, policy=policy.keep, overlap=policy.overlap
            )
            score = task.scorer(results, examples)
            return lambda some: score(some)[metric]

        assert self.task is not None
        return Scores.of(
            metric,
            teacher=scorer(self.original, self.task),
            student=scorer(parts, data.splits.task),
            units=Units.of(len(examples), data.splits.task.units(examples)),
            seed=self.settings.common.seed,
        )

    def of_text(self) -> Made:
        """Train on masked text."""
        given, runtime = self.settings.pretraining(), self.runtime
        claim_output(self.settings, runtime, [self.settings.output])
        student, teacher = self.start()
        whole = self._imitation(student)
        given = with_length(given, self.settings.common.max_length, student)
        given = with_length(given, given.loop.max_length, teacher)
        tokenizer, begun = vocabulary(given, without_relation(student))
        with stopped_at_once(resume_command(self.settings.output, "distill")):
            text = open_text(given, tokenizer, runtime)
            run = StudentTextRun(given, text=text, tokenizer=tokenizer, base=begun, runtime=runtime)
            assert given.loop.steps is not None
            outcome, networks = run.taught(teacher, whole).train(given.loop.steps, self.on_event)
            networks = networks.trained()
            student, scores, faster = networks.parts, None, None
            if run.held_out:
                scores = run.scores(student)
                faster = times_faster(teacher, student, run.held_out[:2])
            comparison = Comparison.of(self.original, student, faster, scores)
            if runtime.is_main:
                stored = {**student.settings, "distilled": self._described(comparison)}
                student = dataclasses.replace(student, settings=stored)
                save_pretrained(given, dataclasses.replace(networks, parts=student), outcome)
        return comparison, None, outcome.after


def _read_by(
    student: Parts, teacher: Parts, given: FinetuneSettings
) -> tuple[Tokenizer, CutPolicy]:
    """The tokenizer of both, and what both can read of a long text."""
    common = given.common
    assert student.tokenizer is not None
    policies = [
        Model(each).policy(common.max_length, common.policy, common.overlap)
        for each in (student, teacher)
    ]
    return student.tokenizer, min(policies, key=lambda policy: policy.max_length)


def _timed(data: EncodedExamples) -> list[Any]:
    """Batches of some examples, as in inference."""
    some = data.lengths[:TIMED]
    return [data.batch(indices) for indices in plan_batches(some, CPU_BATCH_TOKENS)]
