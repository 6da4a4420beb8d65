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
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.parts import Parts, adapt, family_form
from bothways.data.sampling import plan_batches
from bothways.errors import UsageError
from bothways.files import read_json_object, write_json
from bothways.inference import prepacked
from bothways.model.config import DropoutConfig
from bothways.model.encoder import Encoder
from bothways.tasks.embed import EmbedTask
from bothways.training.examples import EncodedExamples, TrainingData
from bothways.training.feed import ExampleFeed
from bothways.training.freezing import HeadObjective, KeptStates, freeze
from bothways.training.grid import RunResult, RunSpec
from bothways.training.layers import layer_factors, reinitialise
from bothways.training.loop import LoopPlan, train
from bothways.training.objectives import TaskObjective
from bothways.training.optim import adamw
from bothways.training.recorder import OnEvent, Recorder, RunFinished, RunStarted
from bothways.training.runtime import Runtime, seeded
from bothways.training.schedule import linear
from bothways.training.scoring import score
from bothways.training.settings import FinetuneSettings
from bothways.training.state import CheckpointStore, refuse_other_settings

logger = logging.getLogger(__name__)

RESULT_NAME = "run.json"
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
        self.settings, self.data, self.base = settings, data, base
        self.runtime, self.metric, self.on_event = runtime, metric, on_event
        self.direction = data.splits.task.metric_directions[metric]
        self._fingerprints = {
            f"{name} data": encoded.fingerprint()
            for name, encoded in (("training", data.train), ("dev", data.dev))
            if encoded is not None
        }
        self._states_kept = False

    def finished(self, spec: RunSpec) -> RunResult | None:
        """The stored result of a run of a grid that is over already.

        Raises:
            TrainingError: when it was made with other settings or data.
        """
        path = spec.folder / RESULT_NAME
        if spec.num_runs == 1 or not path.exists():
            return None
        stored = read_json_object(path)
        refuse_other_settings(stored["settings"], self._deciding(spec), path)
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
        progress = train(
            objective,
            optimizer=adamw(
                objective,
                learning_rate=spec.learning_rate,
                weight_decay=settings.optim.weight_decay,
                factors=self._factors(objective),
            ),
            feed=feed,
            plan=plan,
            runtime=self.runtime,
            recorder=recorder,
            store=store,
            evaluate=None if data.dev is None else lambda: self._score(objective, data.dev),
        )
        if data.dev is not None and progress.best_step != progress.step:
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
            record = {"result": dataclasses.asdict(result), "settings": self._deciding(spec)}
            write_json(spec.folder / RESULT_NAME, record)
        return result, parts

    def best_weights(self, spec: RunSpec, result: RunResult) -> Parts:
        """The parts of an earlier run, with the weights that were kept."""
        parts = self.start(spec)
        self._store(spec).load_weights(self._objective(parts), result.best_step)
        return parts

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
            head = task.head(parts.config, task.labels)
            kind = getattr(task, "head_kind", None)
            parts = adapt(
                parts,
                family_form(parts, head, kind) if settings.network.pooling == "auto" else head,
                labels=task.labels,
                problem_type=task.state().get("problem_type"),
                kind=kind,
            )
            reinitialise(parts.encoder, settings.tuning.reinit_layers)
        freeze(parts.encoder, settings.network.freeze)
        # Dev is scored along the way, over the fast path for inference.
        for module in (parts.encoder, parts.reader):
            assert module is not None
            prepacked.install(module)
        return parts

    def _objective(self, parts: Parts) -> TaskObjective | HeadObjective:
        """What is minimised; with a frozen encoder its states, computed at the first run."""
        task, head = self.data.splits.task, parts.reader
        assert head is not None
        if self.settings.network.freeze != "encoder":
            return TaskObjective(parts.encoder, head, task, **self._comparing())
        if not self._states_kept:
            for data in filter(None, (self.data.train, self.data.dev)):
                data.keep(
                    KeptStates(
                        parts.encoder,
                        head,
                        data.encodings,
                        batch_tokens=self.settings.common.batch_tokens,
                    )
                )
            self._states_kept = True
        return HeadObjective(head, task)

    def _comparing(self) -> dict[str, Any]:
        """How an objective runs whose loss compares the texts of a batch; else nothing."""
        task = self.data.splits.task
        if not isinstance(task, EmbedTask):
            return {}
        return {
            "piece_tokens": task.piece_tokens or PIECE_TOKENS,
            "over_ranks": self.runtime.num_ranks > 1,
        }

    def _smallest_batch(self) -> int:
        """Examples that every step needs, so that each part on each rank has what to compare.

        Raises:
            UsageError: when the batch size or the data are below that.
        """
        task, loop = self.data.splits.task, self.settings.loop
        if not isinstance(task, EmbedTask):
            return 1
        smallest = task.smallest_batch * loop.accumulate * self.runtime.num_ranks
        size, count = self.settings.batch_size or smallest, len(self.data.train.examples)
        if min(size, count) < smallest:
            raise UsageError(
                f"the loss compares the texts of a batch, so a step needs at least {smallest} "
                f"examples ({task.smallest_batch} for each of {loop.accumulate} parts on "
                f"{self.runtime.num_ranks} ranks); --batch-size is {size}, and there are {count} "
                "training examples"
            )
        return smallest

    def _store(self, spec: RunSpec) -> CheckpointStore:
        return CheckpointStore(
            spec.folder,
            settings=self._deciding(spec),
            keep=self.settings.loop.keep_checkpoints,
        )

    def _deciding(self, spec: RunSpec) -> dict[str, Any]:
        """What decides the numbers of a run: settings, and the data as read, wherever it lies."""
        given: dict[str, Any] = json.loads(json.dumps(self.settings.deciding()))
        return given | {
            "optim.learning_rate": spec.learning_rate,
            "common.seed": spec.seed,
            **self._fingerprints,
        }

    def _factors(self, objective: TaskObjective | HeadObjective) -> dict[int, float] | None:
        """Factors on the learning rate where layers have their own."""
        decay = self.settings.tuning.layer_decay
        if decay == 1.0 or isinstance(objective, HeadObjective):
            return None
        return layer_factors(objective, objective.encoder, decay)

    def _feed(self, spec: RunSpec) -> ExampleFeed:
        settings, data, smallest = self.settings, self.data.train, self._smallest_batch()

        def plan(epoch: int, smallest: int = smallest) -> list[list[int]]:
            return plan_batches(
                data.lengths,
                batch_size=settings.batch_size,
                batch_tokens=settings.common.batch_tokens,
                seed=spec.seed,
                epoch=epoch,
                smallest=smallest,
            )

        joined = 0 if smallest == 1 else len(plan(0, 1)) - len(plan(0))
        if joined:
            logger.info(
                "%d batches of the first epoch have fewer than %d examples, which is too few to "
                "compare; they are joined with their neighbours",
                *(joined, smallest),
            )

        return ExampleFeed(
            data.batch,
            plan,
            epochs=settings.loop.epochs,
            micro_batches=settings.loop.accumulate,
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
            resume_command=resume_command(self.settings.output),
        )

    def _score(
        self, objective: TaskObjective | HeadObjective, data: EncodedExamples | None
    ) -> dict[str, float]:
        assert data is not None
        return score(
            objective, data, runtime=self.runtime, batch_tokens=self.settings.common.batch_tokens
        )


def resume_command(output: Path) -> str:
    """What a user types to go on with a run."""
    return f"bothways finetune --config {shlex.quote(str(output / 'recipe.toml'))} --resume"


def with_dropout(encoder: Encoder, rates: Mapping[str, float]) -> Encoder:
    """The same encoder over the same parameters, with other dropout rates.

    Args:
        encoder: its parameters are used, not copied.
        rates: by their names in `DropoutConfig`; empty changes nothing.

    Raises:
        ConfigError: when a rate is not in [0, 1).
    """
    if not rates:
        return encoder
    dropout: DropoutConfig = dataclasses.replace(encoder.config.dropout, **rates)
    with without_memory():
        made = Encoder(dataclasses.replace(encoder.config, dropout=dropout))
    made.load_state_dict(encoder.state_dict(keep_vars=True), assign=True)
    return made.train(encoder.training)
