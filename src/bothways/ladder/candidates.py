"""A candidate at work: loaded, with the data as its tokenizer reads them, and its runs."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.data.randomness import keyed_random
from bothways.inference.model import Model
from bothways.ladder.settings import ChooseSettings
from bothways.training.examples import EncodedExamples, Splits, TrainingData
from bothways.training.freezing import check_freeze
from bothways.training.grid import RunSpec, grid
from bothways.training.loop import LoopPlan
from bothways.training.output import resume_command
from bothways.training.recorder import OnEvent
from bothways.training.runs import Runner
from bothways.training.runtime import Runtime
from bothways.training.settings import DEFAULT_BATCH_SIZE, FinetuneSettings
from bothways.training.several import policy_of

# Steps that are timed, after one that warms up.
TIMED_STEPS = 2
# A forward pass beside the passes of a step forward and backward.
FORWARD_SHARE = 1 / 3


@dataclass(frozen=True)
class Candidate:
    """A candidate that has been loaded.

    Attributes:
        source: as given.
        given: its runs in the words of fine-tuning.
        base: the encoder to start from.
        data: what is learned from and chosen by; not what is judged on.
    """

    source: str
    given: FinetuneSettings
    base: Parts
    data: TrainingData

    @classmethod
    def load(cls, source: str, number: int, settings: ChooseSettings, splits: Splits) -> Candidate:
        """Load a model and read the data with its tokenizer.

        Args:
            source: folder or hub name.
            number: its place among those given, from 1, for the folder of its runs.
            settings: of the command.
            splits: parts of the data.

        Raises:
            BothwaysError: when it cannot be loaded, or cannot do the task.
        """
        given = settings.finetuning(source, runs_folder(settings.output, number, source))
        base = load_parts(source)
        check_freeze(base.config, given.network.freeze)
        model = Model(base)
        policy = policy_of(given, splits.task, model)
        read = dataclasses.replace(splits, test=None)
        assert splits.dev is not None
        train, dev = (
            EncodedExamples(splits.task, part, tokenizer=model.tokenizer, policy=policy)
            for part in (splits.train, splits.dev)
        )
        # Without a word about what was cut, since every step of a choice loads its candidates.
        return cls(source, given, base, TrainingData(read, train, dev, policy))

    def runner(
        self, settings: ChooseSettings, runtime: Runtime, on_event: OnEvent | None = None
    ) -> CandidateRunner:
        """What trains it."""
        assert self.given.loop.metric is not None
        runner = CandidateRunner(
            self.given,
            data=self.data,
            base=self.base,
            runtime=runtime,
            metric=self.given.loop.metric,
            on_event=on_event,
        )
        runner.output = settings.output
        return runner

    @property
    def megabytes(self) -> float:
        """Of the encoder's weights as they are saved, in float32 (10^6 bytes)."""
        tensors = {id(tensor): tensor for tensor in self.base.encoder.parameters()}.values()
        return sum(tensor.numel() for tensor in tensors) * 4 / 1e6


class CandidateRunner(Runner):
    """Runs of fine-tuning that belong to a choice."""

    output: Path

    def _plan(self, spec: RunSpec, steps: int) -> LoopPlan:
        command = resume_command(self.output, "choose")
        return dataclasses.replace(super()._plan(spec, steps), resume_command=command)

    def estimated_seconds(self) -> float:
        """What all runs of this candidate will take here, from the time of a few steps.

        The steps are computed on a copy and thrown away.
        """
        settings, data = self.settings, self.data
        specs = grid(settings)
        objective = self._objective(self.start(specs[0])).train()
        count = len(data.train.examples)
        size = min(settings.batch_size or DEFAULT_BATCH_SIZE, count)
        order = keyed_random(settings.common.seed, use="sample").permutation(count).tolist()
        seconds = []
        for number in range(TIMED_STEPS + 1):
            chosen = [order[(number * size + place) % count] for place in range(size)]
            seconds.append(self._step_seconds(objective, chosen))
        step = min(seconds[1:])
        held_out = len(data.dev.examples) if data.dev is not None else 0
        texts = self.count + FORWARD_SHARE * held_out
        return len(specs) * settings.loop.epochs * texts / size * step

    def _step_seconds(self, objective: torch.nn.Module, chosen: Sequence[int]) -> float:
        batch = self.data.train.batch(chosen).to(self.runtime.device)
        begin = time.perf_counter()
        with self.runtime.forward():
            loss = objective(batch)
        loss.backward()
        objective.zero_grad()
        if self.runtime.device.type == "cuda":
            torch.cuda.synchronize(self.runtime.device)
        return time.perf_counter() - begin


def runs_folder(output: Path, number: int, source: str) -> Path:
    """The folder of a candidate's runs: its number and the end of its name."""
    end = re.sub(r"[^\w.-]+", "-", source.rstrip("/").rsplit("/", 1)[-1])[:40]
    return output / "rungs" / f"{number:02}-{end}"
