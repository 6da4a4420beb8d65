"""One run of fine-tuning.

A run is a function of the settings, its learning rate and its seed: a new head on a copy of the
encoder, trained, with the best weights put back at the end. What comes before (data) and after
(choice, report, saving) is in `finetune.py`; which runs there are is in `grid.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import shutil
from collections.abc import Sequence
from typing import Any

from torch import nn

from bothways.checkpoints.parts import Parts, adapt, family_form
from bothways.files import read_json_object, write_json
from bothways.inference import prepacked
from bothways.model.heads import ClassificationHead
from bothways.model.layout import Batch
from bothways.tasks.embed import EmbedTask
from bothways.tasks.task import Task
from bothways.training.adapters import LowRank, add_adapters, check_adapter, merge_adapters
from bothways.training.balanced import copies
from bothways.training.batching import steps_of_epochs
from bothways.training.dropout import with_dropout
from bothways.training.examples import TrainingData
from bothways.training.feed import ExampleFeed
from bothways.training.few_shot import (
    TogetherObjective,
    few_shot_head,
    fit_head,
)
from bothways.training.freezing import HeadObjective, KeptStates, freeze
from bothways.training.grid import RunResult, RunSpec
from bothways.training.layers import layer_factors, reinitialise
from bothways.training.loop import LoopPlan, train
from bothways.training.objectives import Objective, TaskObjective
from bothways.training.optim import adamw
from bothways.training.output import resume_command
from bothways.training.recorder import OnEvent, Recorder, RunFinished, RunStarted
from bothways.training.runtime import Runtime, seeded
from bothways.training.schedule import linear
from bothways.training.scoring import score
from bothways.training.settings import FinetuneSettings
from bothways.training.several import SeveralObjective, SeveralTask, steps_of_several
from bothways.training.state import CheckpointStore, Progress, refuse_other_settings

logger = logging.getLogger(__name__)

RESULT_NAME = "run.json"
# Beside the seed, so that adapters are not drawn from the numbers of the head.
LORA_SEED = 1
# Activations of a small encoder on so many tokens are a few gigabytes.
PIECE_TOKENS = 16_384


class Runner:
    """Trains the runs of one command.

    Args:
        settings: of the command.
        data: encoded once for all runs.
        base: the encoder to start from, copied for each run.
        runtime: device and ranks.
        metric: what the best weights are chosen by.
        on_event: told what happens.
    """

    def __init__(
        self,
        settings: FinetuneSettings,
        *,
        data: TrainingData,
        base: Parts,
        runtime: Runtime,
        metric: str,
        on_event: OnEvent | None = None,
    ) -> None:
        self.settings, self.base, self.train = settings, base, data.train
        self.runtime, self.metric, self.on_event = runtime, metric, on_event
        self.count = len(data.train.examples)
        if settings.tuning.sampling == "balanced":
            places = copies([example.label for example in data.train.examples])
            data = dataclasses.replace(data, train=data.train.chosen(places))
        self.data = data
        self.direction = data.splits.task.metric_directions[metric]
        self._fingerprints = {
            f"{name} data": encoded.fingerprint()
            for name, encoded in (("training", data.train), ("dev", data.dev))
            if encoded is not None
        }
        self._states_kept = False
        # What LoRA changed, by run.
        self.changes: dict[str, dict[str, LowRank]] = {}

    def over(self, data: TrainingData) -> Runner:
        """The same runs over other data."""
        return Runner(
            self.settings,
            data=data,
            base=self.base,
            runtime=self.runtime,
            metric=self.metric,
            on_event=self.on_event,
        )

    def finished(self, spec: RunSpec) -> RunResult | None:
        """The stored result of a run of a grid that is over already.

        Raises:
            TrainingError: when it was made with other settings or data.
        """
        path = spec.folder / RESULT_NAME
        if spec.num_runs == 1 or not path.exists():
            return None
        stored = read_json_object(path)
        refuse_other_settings(stored["settings"], self.deciding(spec), path)
        return RunResult(**stored["result"])

    def run(self, spec: RunSpec) -> tuple[RunResult, Parts]:
        """Train one run, from its newest checkpoint where there is one.

        Returns:
            What came of it, and the encoder and head with the weights that are kept.
        """
        parts = self.start(spec)
        objective = self._objective(parts)
        store = self._store(spec)
        settings, data = self.settings, self.data
        feed = self._feed(spec)
        plan = self._plan(spec, feed.num_steps)
        recorder = Recorder(
            spec.folder / "metrics.jsonl" if self.runtime.is_main else None,
            on_event=self.on_event if self.runtime.is_main else None,
            trackers=settings.track,
            run=spec.name,
        )
        steps = store.steps()
        at, epochs = (steps[-1] if steps else 0), settings.loop.epochs
        recorder.event(RunStarted(spec.name, spec.number, spec.num_runs, at, plan.steps, epochs))
        few_shot = settings.tuning.few_shot
        optimizer = adamw(
            objective,
            learning_rate=spec.learning_rate,
            weight_decay=settings.optim.weight_decay,
            factors=self._factors(objective),
        )
        progress = train(
            objective,
            optimizer=optimizer,
            feed=feed,
            plan=plan,
            runtime=self.runtime,
            recorder=recorder,
            store=store,
            evaluate=None if data.dev is None or few_shot else lambda: self._score(objective),
        )
        if few_shot:
            store.save(objective, optimizer, progress)
            progress = self._fit_few(parts, progress)
        elif data.dev is not None and progress.best_step != progress.step:
            store.load_weights(objective, progress.best_step)
        recorder.event(
            RunFinished(spec.name, progress.step, progress.seconds, progress.stopped_early)
        )
        recorder.close()
        self.runtime.wait()
        result = RunResult(
            name=spec.name,
            learning_rate=spec.learning_rate,
            seed=spec.seed,
            value=progress.best,
            best_step=progress.step if data.dev is None else progress.best_step,
            step=progress.step,
            stopped_early=progress.stopped_early,
            metrics=progress.best_metrics,
            seconds=progress.seconds,
        )
        if spec.num_runs > 1 and self.runtime.is_main:
            record = {"result": dataclasses.asdict(result), "settings": self.deciding(spec)}
            write_json(spec.folder / RESULT_NAME, record)
        self._finish(spec, parts)
        return result, parts

    def best_weights(self, spec: RunSpec, result: RunResult) -> Parts:
        """The parts of an earlier run, with the weights that were kept."""
        parts = self.start(spec)
        self._store(spec).load_weights(self._objective(parts), result.best_step)
        if self.settings.tuning.few_shot:
            self._fit_few(parts, Progress())
        self._finish(spec, parts)
        return parts

    def _fit_few(self, parts: Parts, progress: Progress) -> Progress:
        """Fit the head of a few-shot run, and score it on dev where there is one."""
        task, head = self.data.splits.task, parts.head
        assert isinstance(head, ClassificationHead)
        fit_head(parts.encoder, head, self.data.train, task.labels)
        if self.data.dev is None:
            return progress
        scores = self._score(TaskObjective(parts.encoder, head, task))
        step, value = progress.step, scores[self.metric]
        return dataclasses.replace(progress, best=value, best_step=step, best_metrics=scores)

    def _finish(self, spec: RunSpec, parts: Parts) -> None:
        """Turn trained parts into an ordinary model."""
        if self.settings.tuning.lora_rank:
            self.changes[spec.name] = merge_adapters(parts.encoder)

    def better(self, result: RunResult, best: RunResult | None) -> bool:
        """Whether a run is better on dev than the best one so far."""
        if best is None or best.value is None or result.value is None:
            return best is None or best.value is None
        return (result.value - best.value) * self.direction > 0

    def forget(self, spec: RunSpec, result: RunResult, *, all_weights: bool) -> None:
        """Delete the checkpoints of a finished run of a grid, all or all but its best."""
        if not self.runtime.is_main:
            return
        store = self._store(spec)
        for step in store.steps():
            if all_weights or step != result.best_step:
                shutil.rmtree(store.path(step))

    def start(self, spec: RunSpec) -> Parts:
        """A new head on the encoder, as the run begins."""
        settings, task = self.settings, self.data.splits.task
        # The loaded weights are pages of a file; what is trained is memory of its own.
        encoder = copy.deepcopy(self.base.encoder).to(self.runtime.device)
        parts = dataclasses.replace(
            self.base, encoder=with_dropout(encoder, settings.network.dropout)
        )
        with seeded(spec.seed, device=self.runtime.device):
            if settings.tuning.few_shot:
                head: nn.Module = few_shot_head(parts, len(task.labels), settings.network.pooling)
            else:
                head = self._new_head(parts, task, settings)
            parts = adapt(
                parts,
                head,
                labels=task.labels,
                problem_type=task.state().get("problem_type"),
                kind=getattr(task, "head_kind", None),
            )
            reinitialise(parts.encoder, settings.tuning.reinit_layers)
        freeze(parts.encoder, settings.network.freeze)
        if settings.tuning.lora_rank:
            check_adapter(parts, settings.tuning)
            with seeded(spec.seed, LORA_SEED, device=self.runtime.device):
                add_adapters(parts.encoder, settings.tuning)
        # Dev is scored along the way, over the fast path for inference.
        for module in (parts.encoder, parts.reader):
            assert module is not None
            prepacked.install(module)
        return parts

    def _new_head(self, parts: Parts, task: Task[Any], settings: FinetuneSettings) -> nn.Module:
        """A head with random weights, or several, in the form of the family where it says one."""
        if isinstance(task, SeveralTask):
            tasks, alone = task.tasks, settings.alone
            each = {name: self._new_head(parts, tasks[name], alone[name]) for name in tasks}
            return nn.ModuleDict(each)
        head = task.head(parts.config, task.labels)
        if settings.network.pooling != "auto":
            return head
        return family_form(parts, head, getattr(task, "head_kind", None))

    def _objective(
        self, parts: Parts
    ) -> TaskObjective | HeadObjective | TogetherObjective | SeveralObjective:
        """What is minimised; with a frozen encoder its states, computed at the first run."""
        head = parts.reader
        assert head is not None
        if self.settings.tuning.few_shot:
            assert isinstance(head, ClassificationHead)
            return TogetherObjective(parts.encoder, head)
        made: TaskObjective | HeadObjective | SeveralObjective
        if isinstance(head, nn.ModuleDict):
            each = {
                name: self._of_one(parts, head[name], own) for name, own in self.data.heads.items()
            }
            frozen = self.settings.network.freeze == "encoder"
            made = SeveralObjective(None if frozen else parts.encoder, head, each)
        else:
            made = self._of_one(parts, head, self.data)
        self._states_kept = True
        return made

    def _of_one(
        self, parts: Parts, head: nn.Module, own: TrainingData
    ) -> TaskObjective | HeadObjective:
        """What is minimised for one head."""
        if self.settings.network.freeze != "encoder":
            return TaskObjective(parts.encoder, head, own.splits.task, **self._comparing())
        if not self._states_kept:
            for data in filter(None, (own.train, own.dev)):
                data.keep(
                    KeptStates(
                        parts.encoder,
                        head,
                        data.encodings,
                        batch_tokens=self.settings.common.batch_tokens,
                    )
                )
        return HeadObjective(head, own.splits.task)

    def _comparing(self) -> dict[str, Any]:
        """How an objective runs whose loss compares the texts of a batch; else nothing."""
        task = self.data.splits.task
        if not isinstance(task, EmbedTask):
            return {}
        return {
            "piece_tokens": task.piece_tokens or PIECE_TOKENS,
            "over_ranks": self.runtime.num_ranks > 1,
        }

    def _store(self, spec: RunSpec) -> CheckpointStore:
        return CheckpointStore(
            spec.folder,
            settings=self.deciding(spec),
            keep=self.settings.loop.keep_checkpoints,
        )

    def deciding(self, spec: RunSpec) -> dict[str, Any]:
        """What decides the numbers of a run: settings, and the data as read, wherever it lies."""
        given: dict[str, Any] = json.loads(json.dumps(self.settings.deciding()))
        return given | {
            "optim.learning_rate": spec.learning_rate,
            "common.seed": spec.seed,
            **self._fingerprints,
        }

    def _factors(self, objective: Objective) -> dict[int, float] | None:
        """Factors on the learning rate where layers have their own."""
        decay, encoder = self.settings.tuning.layer_decay, getattr(objective, "encoder", None)
        return None if decay == 1.0 or encoder is None else layer_factors(objective, encoder, decay)

    def _feed(self, spec: RunSpec) -> ExampleFeed:
        loop, data = self.settings.loop, self.data.train
        lists = data.lists()

        def batch(chosen: Sequence[int]) -> Batch:
            return data.batch([index for each in chosen for index in lists[each]])

        order = {"seed": spec.seed, "num_ranks": self.runtime.num_ranks}
        return ExampleFeed(
            batch,
            steps_of_several(self.settings, self.data, **order)
            if self.data.heads
            else steps_of_epochs(self.settings, data, count=self.count, **order),
            epochs=loop.epochs,
            micro_batches=loop.accumulate,
            rank=self.runtime.rank,
            num_ranks=self.runtime.num_ranks,
        )

    def _plan(self, spec: RunSpec, steps: int) -> LoopPlan:
        loop, optim = self.settings.loop, self.settings.optim
        return LoopPlan(
            steps=steps,
            schedule=linear(steps=steps, warmup=optim.warmup),
            seed=spec.seed,
            clip=optim.clip,
            metric=self.metric,
            direction=self.direction,
            patience=loop.early_stop,
            checkpoint_every=loop.checkpoint_every or 0,
            log_every=loop.log_every,
            resume_command=resume_command(self.settings.output, "finetune"),
        )

    def _score(self, objective: Objective) -> dict[str, float]:
        """Scores on dev."""
        if isinstance(objective, SeveralObjective):
            heads, task = self.data.heads.items(), self.data.splits.task
            assert isinstance(task, SeveralTask)
            return task.scores(
                {name: self._score_one(objective.each[name], own) for name, own in heads}
            )
        assert isinstance(objective, TaskObjective | HeadObjective)
        return self._score_one(objective, self.data)

    def _score_one(
        self, objective: TaskObjective | HeadObjective, own: TrainingData
    ) -> dict[str, float]:
        """Scores of one head."""
        assert own.dev is not None
        batch_tokens = self.settings.common.batch_tokens
        return score(objective, own.dev, runtime=self.runtime, batch_tokens=batch_tokens)
