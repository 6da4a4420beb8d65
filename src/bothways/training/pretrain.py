"""Pretraining: raw text in, an encoder out that can be fine-tuned, filled in and loaded elsewhere.

Here: the order of things, how many steps fit a time budget, the result. What is trained is in
`networks.py`, batches of text in `text_feed.py`, the loop in `loop.py`, the output folder in
`output.py`, what is written in `pretrain_saving.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.families.presets import preset
from bothways.files import read_json_object, write_json
from bothways.model.layout import Batch
from bothways.tokenization.tokenizer import Tokenizer
from bothways.training.feed import Ahead, Feed
from bothways.training.held_out import score_held_out, unigram_loss
from bothways.training.loop import LoopPlan, stopped_at_once, train
from bothways.training.networks import (
    Networks,
    begin_at_frequencies,
    build_networks,
    vocabulary,
    with_length,
)
from bothways.training.optim import make_optimizer
from bothways.training.output import claim_output, resume_command
from bothways.training.pretrain_saving import Outcome, save_pretrained
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.recompute import compile_layers, recompute_activations
from bothways.training.recorder import Event, OnEvent, Recorder, RunFinished, RunStarted, StepDone
from bothways.training.runtime import Runtime, seeded
from bothways.training.schedule import batch_ramp, make_schedule
from bothways.training.sharding import ShardedCheckpointStore, gather_into, shard
from bothways.training.state import CheckpointStore
from bothways.training.text_feed import TextData, open_text, part_tokens

logger = logging.getLogger(__name__)

# A time budget becomes a number of steps after so many, of which the first are not counted.
MEASURED_STEPS, WARMING_STEPS = 50, 10
STEPS_NAME = "steps.json"
# Evaluations of a run where their distance is not given.
EVALUATIONS = 10


@dataclass(frozen=True)
class PretrainResult:
    """What pretraining produced.

    Attributes:
        folder: of the model.
        steps: of the optimizer.
        tokens: read.
        metrics: on held-out text; empty where nothing was held out.
        before: the same before the first step, where a model was gone on with.
        unigram_loss: of guessing by frequency alone, on the same masked tokens.
        seconds: of this call.
    """

    folder: Path
    steps: int
    tokens: int
    metrics: Mapping[str, float]
    before: Mapping[str, float]
    unigram_loss: float | None
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The object that `pretrain --json` prints."""
        return {
            "model": str(self.folder),
            "steps": self.steps,
            "tokens": self.tokens,
            "metrics": dict(self.metrics),
            "before": dict(self.before) or None,
            "unigram_loss": self.unigram_loss,
            "seconds": self.seconds,
        }


def pretrain(settings: PretrainSettings, *, on_event: OnEvent | None = None) -> PretrainResult:
    """Pretrain a new encoder, or go on with one, and write the model folder.

    Under a launcher (`torchrun`, `accelerate launch`) every process calls this; the first writes.

    Args:
        settings: everything.
        on_event: told what happens, for a progress bar.

    Raises:
        UsageError: for impossible settings, before anything is read.
        DataError: for what is wrong with the text.
        TokenizerError: when the tokenizer cannot serve: no mask token, or not that of the shards.
        CheckpointError: when the base model cannot be loaded or the new one not be written.
        TrainingError: when the output folder is taken, the run cannot be resumed, or it diverges.
        RunStopped: after SIGTERM; in a step, when a checkpoint is saved.

    Example:
        >>> corpus = CorpusSettings(data=Path("shards"))  # doctest: +SKIP
        >>> pretrain(PretrainSettings(Path("out"), preset="mini", corpus=corpus))  # doctest: +SKIP
    """
    start = time.perf_counter()
    given = settings.loop.max_length
    settings = settings.filled()
    settings.check()
    machine = settings.machine
    runtime = Runtime(
        device=machine.device,
        precision=machine.precision,
        threads=machine.threads,
        sharded=machine.sharded,
    )
    claim_output(settings, runtime, [settings.output])
    base = None if settings.from_ is None else load_parts(settings.from_)
    settings = with_length(settings, given, base)
    tokenizer, base = vocabulary(settings, base)
    with stopped_at_once(resume_command(settings.output, "pretrain")):
        text = open_text(settings, tokenizer, runtime)
        run = PretrainRun(settings, text=text, tokenizer=tokenizer, base=base, runtime=runtime)
        steps = settings.loop.steps or run.steps_of_budget(start)
        outcome, networks = run.train(steps, on_event)
        if runtime.is_main:
            save_pretrained(settings, networks.trained(), outcome)
        runtime.wait()
    return PretrainResult(
        folder=settings.output,
        steps=outcome.progress.step,
        tokens=outcome.progress.tokens,
        metrics=outcome.after,
        before=outcome.before,
        unigram_loss=outcome.unigram_loss,
        seconds=time.perf_counter() - start,
    )


class PretrainRun:
    """One run; everything is a function of the settings, so it can be started again."""

    def __init__(
        self,
        settings: PretrainSettings,
        *,
        text: TextData,
        tokenizer: Tokenizer,
        base: Parts | None,
        runtime: Runtime,
    ) -> None:
        self.settings, self.text, self.tokenizer = settings, text, tokenizer
        self.base, self.runtime = base, runtime
        self.held_out: Sequence[Batch] = text.held_out()

    def networks(self) -> Networks:
        """New networks as they are trained, the same each time."""
        made = self._new_networks()
        if self.runtime.sharded:
            shard(made.objective, self.runtime)
        return made

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How often each piece stands in the text."""
        return self.text.counts()

    def _whole(self, networks: Networks) -> Networks:
        """Networks of which this process has everything."""
        if not self.runtime.sharded:
            return networks
        made = self._new_networks()
        gather_into(made.objective, networks.objective)
        return made

    def _new_networks(self) -> Networks:
        """New networks on the device."""
        device = self.runtime.device
        with seeded(self.settings.machine.seed, device=device):
            made = build_networks(self.settings, self.tokenizer, self.base)
        if self.base is None or (self.base.masked_lm is None and made.generator is None):
            begin_at_frequencies(made, self._counts)
        made.objective.to(device)
        network = self.settings.network
        for part in (made.parts, made.generator):
            if part is not None and network.checkpoint_activations:
                recompute_activations(part.encoder)
            if part is not None and network.compile:
                compile_layers(part.encoder, device)
        return made

    def deciding(self) -> dict[str, Any]:
        """What decides the numbers of the run, but for its steps and its text."""
        return self.settings.deciding()

    def optimizer(self, networks: Networks) -> torch.optim.Optimizer:
        """Over everything that learns."""
        optim = self.settings.optim
        assert optim.learning_rate is not None
        return make_optimizer(
            optim.optimizer,
            networks.objective,
            learning_rate=optim.learning_rate,
            matrix_learning_rate=optim.matrix_learning_rate,
            weight_decay=optim.weight_decay,
            betas=(optim.beta1, optim.beta2),
        )

    def feed(self, steps: int, ramp: float) -> Feed:
        """Batches of text for so many steps."""
        share = batch_ramp(steps=steps, ramp=ramp, start=self.settings.optim.ramp_start)
        shape = self.base.config if self.base else preset(self.settings.preset or "")
        feed: Feed = self.text.feed(
            share,
            at_once=part_tokens(shape.hidden_size, self.runtime.device),
            rank=self.runtime.rank,
            num_ranks=self.runtime.num_ranks,
        )
        workers = self.settings.machine.workers
        return Ahead(feed, workers) if workers else feed

    def score(self, networks: Networks) -> dict[str, float]:
        """On held-out text; empty where there is none."""
        if not self.held_out:
            return {}
        return score_held_out(networks.objective, self.held_out, self.runtime)

    def pseudo_perplexity(self, networks: Networks) -> dict[str, float]:
        """On held-out text, of a model of language."""
        if not self.held_out or networks.generator is not None:
            return {}
        scores = score_held_out(networks.objective, self.text.hidden_alone(), self.runtime)
        return {"pseudo_perplexity": scores["perplexity"]}

    def train(self, steps: int, on_event: OnEvent | None) -> tuple[Outcome, Networks]:
        """All steps, from the newest checkpoint where there is one."""
        settings, runtime = self.settings, self.runtime
        networks = self.networks()
        before = {}
        if self.base is not None:
            before = self.score(networks) | self.pseudo_perplexity(networks)
        if before:
            logger.info("held-out text before: %s", _told(before))
        store = self._store(steps)
        recorder = Recorder(
            settings.output / "metrics.jsonl" if runtime.is_main else None,
            on_event=on_event if runtime.is_main else None,
            trackers=settings.track,
            run=settings.output.name,
        )
        at = store.steps()[-1] if store.steps() else 0
        recorder.event(RunStarted("pretrain", 1, 1, at, steps, 0))
        scores: dict[str, float] = {}

        def evaluate() -> dict[str, float]:
            scores.update(self.score(networks))
            return dict(scores)

        progress = train(
            networks.objective,
            optimizer=self.optimizer(networks),
            feed=self.feed(steps, settings.optim.ramp),
            plan=self._plan(steps),
            runtime=runtime,
            recorder=recorder,
            store=store,
            evaluate=evaluate if self.held_out else None,
        )
        recorder.event(RunFinished("pretrain", progress.step, progress.seconds, False))
        recorder.close()
        # The loop ends with an evaluation, unless it had nothing left to do.
        after = (scores or self.score(networks)) | self.pseudo_perplexity(networks)
        level = unigram_loss(self._counts, self.held_out) if after else None
        outcome = Outcome(progress, steps, before, after, level, self.text.manifest)
        return outcome, self._whole(networks)

    def _store(self, steps: int) -> CheckpointStore:
        """Where the checkpoints of a run of so many steps go."""
        folder, keep = self.settings.output, self.settings.loop.keep_checkpoints
        decides = self.deciding() | {"steps": steps, "text": self.text.fingerprint}
        if self.runtime.sharded:
            return ShardedCheckpointStore(folder, settings=decides, keep=keep, runtime=self.runtime)
        return CheckpointStore(folder, settings=decides, keep=keep)

    def _plan(self, steps: int) -> LoopPlan:
        loop, optim = self.settings.loop, self.settings.optim
        return LoopPlan(
            steps=steps,
            schedule=make_schedule(
                optim.schedule, steps=steps, warmup=optim.warmup, decay=optim.decay
            ),
            seed=self.settings.machine.seed,
            clip=optim.clip,
            evaluate_every=loop.evaluate_every or max(1, steps // EVALUATIONS),
            keep_best=False,
            checkpoint_every=loop.checkpoint_every or 0,
            log_every=loop.log_every,
            spike=loop.spike,
            on_bad_step=loop.on_bad_step,
            resume_command=resume_command(self.settings.output, "pretrain"),
        )

    def steps_of_budget(self, start: float) -> int:
        """How many steps fit into the hours that are given; measured once and stored.

        Args:
            start: when the command began.
        """
        hours, path = self.settings.loop.hours, self.settings.output / STEPS_NAME
        assert hours is not None
        if path.exists() and self.settings.resume:
            return int(read_json_object(path)["steps"])
        logger.info("measuring %d steps, to know how many fit into %g h", MEASURED_STEPS, hours)
        step, scoring = self._measure()
        optim = self.settings.optim
        spent = time.perf_counter() - start
        ramp = (optim.ramp, optim.ramp_start)
        fitting = steps_that_fit(hours * 3600, spent=spent, step=step, scoring=scoring, ramp=ramp)
        # All ranks take the first one's number.
        (steps,) = self.runtime.sum([float(fitting) if self.runtime.is_main else 0.0])
        if self.runtime.is_main:
            found = {"hours": hours, "steps": int(steps), "seconds_a_step": step}
            write_json(path, found)
        self.runtime.wait()
        logger.info("%d steps fit into %g h", int(steps), hours)
        return int(steps)

    def _measure(self) -> tuple[float, float]:
        """Seconds of a full step and of an evaluation, on networks that are thrown away."""
        networks = self.networks()
        marks: list[float] = []

        def on_event(event: Event) -> None:
            if isinstance(event, StepDone):
                marks.append(time.perf_counter())

        plan = dataclasses.replace(
            self._plan(MEASURED_STEPS), spike=0.0, on_bad_step="stop", evaluate_every=0
        )
        train(
            networks.objective,
            optimizer=self.optimizer(networks),
            feed=self.feed(MEASURED_STEPS, ramp=0.0),
            plan=plan,
            runtime=self.runtime,
            recorder=Recorder(None, on_event=on_event),
        )
        counted = marks[min(WARMING_STEPS, len(marks) - 2) :]
        begin = time.perf_counter()
        self.score(networks)
        scoring = time.perf_counter() - begin
        return (counted[-1] - counted[0]) / (len(counted) - 1), scoring


def steps_that_fit(
    seconds: float, *, spent: float, step: float, scoring: float, ramp: tuple[float, float]
) -> int:
    """Steps that fit into a budget of time, at least one.

    Args:
        seconds: the budget.
        spent: of it.
        step: seconds of a step with a full batch.
        scoring: seconds of an evaluation; `EVALUATIONS` and one more are to come.
        ramp: share of the steps over which the batch grows, and of the batch that it begins with.
    """
    growing, start = ramp
    mean = 1.0 - growing * (1.0 - start) / 2
    return max(1, int((seconds - spent - (EVALUATIONS + 1) * scoring) / (step * mean)))


def _told(scores: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
