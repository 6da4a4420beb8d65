"""The settings of pretraining: one dataclass, whose tables (`pretrain_tables.py`) are a recipe's.

What is left out is filled by the preset (`filled`), so that the recipe in the output folder
is complete. What can be told to be wrong without reading a file is refused here, all at once.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from bothways.config import to_toml
from bothways.errors import UsageError
from bothways.families.presets import preset
from bothways.training.pretrain_tables import (
    CorpusSettings,
    Goal,
    LoopSettings,
    MachineSettings,
    NetworkSettings,
    ObjectiveSettings,
    OptimSettings,
)
from bothways.training.schedule import batch_ramp, make_schedule
from bothways.training.settings import MAY_DIFFER, flat

# metrics.jsonl has a line at least so often.
LONGEST_GAP = 10

# A run may be resumed with other values of these: they change no number of the training.
CHANGEABLE = MAY_DIFFER | {
    "preempt_ok",
    "machine.threads",
    "machine.workers",
    "machine.sharded",
    # Where the text lies; what it is, is compared by its content.
    "corpus.data",
    "corpus.input",
}

# How generator and encoder share their embeddings, in presets that find replaced tokens.
SHARING: dict[str, Literal["embeddings", "disentangled"]] = {
    "electra-small": "embeddings",
    "deberta-small": "disentangled",
}


@dataclass(frozen=True)
class Usual:
    """What a run over a preset has unless told otherwise.

    Attributes:
        batch_tokens: of a step.
        max_length: of a sequence.
        learning_rate: of AdamW.
    """

    batch_tokens: int
    max_length: int
    learning_rate: float


# The small ones fit a laptop; the others are as published, with batches for one machine.
USUAL = {
    "tiny": Usual(32 * 128, 128, 1e-3),
    "mini": Usual(32 * 128, 128, 1e-3),
    "small": Usual(64 * 128, 128, 5e-4),
    "modern-tiny": Usual(32 * 128, 128, 2e-3),
    "modern-mini": Usual(32 * 128, 128, 1e-3),
    "modern-base": Usual(512 * 1024, 1024, 5e-4),
    "electra-small": Usual(128 * 128, 128, 5e-4),
}
USUAL_LARGE = Usual(256 * 512, 512, 2e-4)
# Going on with a model of any size: a rate that does not shake what it knows.
USUAL_FROM = Usual(32 * 128, 128, 1e-4)


@dataclass(frozen=True)
class PretrainSettings:
    """Pretrain an encoder on raw text, or go on with one.

    Attributes:
        output: folder that the model is written into.
        preset: shape of a new encoder.
        from_: folder or hub name of an encoder to go on from.
        resume: go on from the last checkpoint in the output folder.
        overwrite: replace what is in the output folder.
        preempt_ok: exit with 0 when told to stop, once the run is saved.
        track: also send the figures to trackers: tensorboard, wandb, trackio, mlflow.
        corpus: what is read.
        objective: what is learned.
        network: dropout, and how the encoder is run.
        optim: the optimizer.
        loop: how long, how much at once, what is kept.
        machine: seed, device, threads.

    Example:
        >>> settings = PretrainSettings(
        ...     Path("out"), preset="mini", corpus=CorpusSettings(Path("shards"))
        ... )
        >>> settings.filled().loop.batch_tokens
        4096
    """

    output: Path
    preset: str | None = None
    from_: Annotated[str | None, tyro.conf.arg(name="from")] = None
    resume: bool = False
    overwrite: bool = False
    preempt_ok: bool = False
    track: tuple[str, ...] = ()
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)

    ALTERNATIVES: ClassVar = (
        ("preset", "from"),
        ("corpus.data", "corpus.input"),
        ("loop.steps", "loop.hours"),
    )

    def filled(self) -> PretrainSettings:
        """The same with what the preset decides where nothing was said.

        Raises:
            UsageError: for a preset that is not there.
        """
        if self.preset is not None:
            preset(self.preset)
        usual = USUAL.get(self.preset, USUAL_LARGE) if self.preset else USUAL_FROM
        objective = self.objective
        if self.preset is not None:
            sharing = SHARING.get(self.preset)
            goal: Goal = objective.goal or ("replaced" if sharing else "masked-lm")
            chosen = objective.sharing or sharing or "none"
            objective = dataclasses.replace(objective, goal=goal, sharing=chosen)
        return dataclasses.replace(
            self,
            objective=objective,
            optim=dataclasses.replace(
                self.optim, learning_rate=self.optim.learning_rate or usual.learning_rate
            ),
            loop=dataclasses.replace(
                self.loop,
                batch_tokens=self.loop.batch_tokens or usual.batch_tokens,
                max_length=self.loop.max_length or usual.max_length,
            ),
        )

    def check(self) -> None:
        """Refuse what cannot be, before anything is read.

        Raises:
            UsageError: with every problem.
        """
        problems = [*self._wrong_numbers(), *self._refused(), *self._wrong_combinations()]
        if problems:
            raise UsageError("; ".join(problems))

    def _wrong_numbers(self) -> list[str]:
        """Numbers out of range."""
        loop, optim, objective = self.loop, self.optim, self.objective
        at_least_one = {
            "--steps": loop.steps,
            "--batch-tokens": loop.batch_tokens,
            "--accumulate": loop.accumulate,
            "--evaluate-every": loop.evaluate_every,
            "--held-out-tokens": loop.held_out_tokens,
            "--checkpoint-every": loop.checkpoint_every,
            "--keep-checkpoints": loop.keep_checkpoints,
            "--log-every": loop.log_every,
        }
        not_negative = {
            "--weight-decay": optim.weight_decay,
            "--clip": optim.clip,
            "--workers": self.machine.workers,
            "--detection-weight": objective.detection_weight,
        }
        above_zero = {
            "--hours": loop.hours,
            "--learning-rate": optim.learning_rate,
            "--matrix-learning-rate": optim.matrix_learning_rate,
        }
        problems = [
            f"{flag} is {value}; expected at least 1"
            for flag, value in at_least_one.items()
            if value is not None and value < 1
        ]
        problems += [
            f"{flag} is {value}; expected 0 or more"
            for flag, value in not_negative.items()
            if value < 0
        ]
        problems += [
            f"{flag} is {value}; expected a number above 0"
            for flag, value in above_zero.items()
            if value is not None and not 0.0 < value < float("inf")
        ]
        problems += [
            f"{flag} is {value}; expected 0 up to below 1"
            for flag, value in {"--beta1": optim.beta1, "--beta2": optim.beta2}.items()
            if not 0.0 <= value < 1.0
        ]
        if loop.max_length is not None and loop.max_length < 3:
            problems.append(f"--max-length is {loop.max_length}; expected at least 3")
        if loop.log_every > LONGEST_GAP:
            problems.append(f"--log-every is {loop.log_every}; expected at most {LONGEST_GAP}")
        if loop.spike and loop.spike <= 1.0:
            problems.append(f"--spike is {loop.spike}; expected a number above 1, or 0 for none")
        return problems

    def _refused(self) -> list[str]:
        """What those say that the numbers are for."""
        optim, problems = self.optim, []
        for attempt in (
            self.objective.masking,
            partial(
                make_schedule, optim.schedule, steps=100, warmup=optim.warmup, decay=optim.decay
            ),
            partial(batch_ramp, steps=100, ramp=optim.ramp, start=optim.ramp_start),
        ):
            try:
                attempt()
            except UsageError as error:
                problems.append(str(error))
        return problems

    def _wrong_combinations(self) -> list[str]:
        """Settings that exclude or need each other."""
        corpus, loop = self.corpus, self.loop
        one_of = {
            "--preset (a new encoder) or --from (one to go on with)": (self.preset, self.from_),
            "--data (shards) or --input (raw files)": (corpus.data, corpus.input or None),
            "--steps or --hours": (loop.steps, loop.hours),
        }
        problems = [
            f"give {names}, {'one' if values == (None, None) else 'not both'}"
            for names, values in one_of.items()
            if (values[0] is None) == (values[1] is None)
        ]
        if corpus.input and corpus.tokenizer is None and self.preset is not None:
            problems.append("--input needs the --tokenizer that it is read with")
        if corpus.new_words is not None and self.from_ is None:
            problems.append("--new-words are added to the vocabulary of --from; give it too")
        if corpus.new_words is not None and corpus.data is not None:
            problems.append("--new-words change how text is read, so give --input and not --data")
        if self.objective.relation != "none" and self.objective.goal == "replaced":
            problems.append("--relation goes with --goal masked-lm")
        if self.machine.sharded and self.optim.optimizer == "muon":
            problems.append(
                "--optimizer muon needs whole matrices, and --sharded spreads them; take adamw"
            )
        if self.resume and self.overwrite:
            problems.append("give --resume or --overwrite, not both")
        return problems

    def recipe(self) -> str:
        """These settings as a recipe, without what is said anew each time."""
        return to_toml(dataclasses.replace(self, resume=False, overwrite=False, preempt_ok=False))

    def deciding(self) -> dict[str, Any]:
        """What decides the numbers of a run, as flat JSON values by key path."""
        values = dict(flat(dataclasses.asdict(self)))
        found: Mapping[str, Any] = json.loads(json.dumps(values, default=str))
        return {
            key.removesuffix("_"): value for key, value in found.items() if key not in CHANGEABLE
        }
