"""The settings of distillation: one dataclass, whose tables are those of fine-tuning where alike.

Which settings count depends on the teacher: one of a task learns in epochs over labelled rows, one
that fills masks in steps over text. `finetuning` and `pretraining` say it in the words of either.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bothways.config import CommonSettings, to_toml
from bothways.data.manifest import MANIFEST
from bothways.data.options import FileOptions
from bothways.errors import UsageError
from bothways.training.imitation import ImitationSettings
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.pretrain_tables import CorpusSettings, MachineSettings
from bothways.training.pretrain_tables import LoopSettings as TextLoop
from bothways.training.pretrain_tables import OptimSettings as TextOptim
from bothways.training.run_tables import LoopSettings, OptimSettings
from bothways.training.settings import MAY_DIFFER, DataSettings, FinetuneSettings, flat
from bothways.training.task_tables import ClassifySettings

# A student moves further than a model that only gets a head.
STUDENT_RATE = 1e-4
# Where it lies; what it is, is compared as read.
CHANGEABLE = MAY_DIFFER | {"data"}


@dataclass(frozen=True)
class HeldOutSettings:
    """What a student is judged on, and where a file has what.

    Attributes:
        dev: labelled file that chooses the best weights.
        dev_share: share of the training data to hold out instead, such as 0.1.
        test: labelled file that teacher and student are judged on at the end.
        text: column of the text; unset: as the teacher was trained.
        text_pair: column of the second text of a pair; unset: as the teacher was trained.
        label: column of the label; unset: as the teacher was trained.
        held_out_tokens: most tokens of masked text that are judged on.
    """

    dev: Path | None = None
    dev_share: float | None = None
    test: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    held_out_tokens: int = 65_536

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are named."""
        given = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class DistillSettings:
    """Make a smaller model that does what a larger one does.

    Attributes:
        teacher: folder or hub name of the model to learn from: fine-tuned, or one that fills masks.
        output: folder that the student is written into.
        data: labelled file of a task; for a teacher that fills masks, a folder of shards or raw
            files.
        student_layers: begin with so many of the teacher's layers, at even distances.
        keep_layers: begin with these layers of the teacher, as in 0,1,2.
        student: folder or hub name of another encoder to begin with.
        keep_words_from: file of texts; pieces that do not occur in it leave the vocabulary.
        init_only: write the student as it begins, without training; needs no data.
        steps: of the optimizer, for a teacher that fills masks.
        resume: go on from the last checkpoint in the output folder.
        overwrite: replace what is in the output folder.
        track: also send the figures to trackers: tensorboard, wandb, trackio, mlflow.
        held_out: what is judged on, and columns.
        imitation: what is learned from the teacher.
        optim: the optimizer.
        loop: how long, how much at once, what is kept.
        common: seed, device, lengths, file formats.

    Example:
        >>> DistillSettings("model", Path("small"), student_layers=3, init_only=True).check()
    """

    teacher: str
    output: Path
    data: tuple[str, ...] = ()
    student_layers: int | None = None
    keep_layers: tuple[int, ...] = ()
    student: str | None = None
    keep_words_from: Path | None = None
    init_only: bool = False
    steps: int | None = None
    resume: bool = False
    overwrite: bool = False
    track: tuple[str, ...] = ()
    held_out: HeldOutSettings = field(default_factory=HeldOutSettings)
    imitation: ImitationSettings = field(default_factory=ImitationSettings)
    optim: OptimSettings = field(default_factory=lambda: OptimSettings((STUDENT_RATE,)))
    loop: LoopSettings = field(default_factory=LoopSettings)
    common: CommonSettings = field(default_factory=CommonSettings)

    def check(self) -> None:
        """Refuse what cannot be, before anything is read.

        Raises:
            UsageError: with every problem.
        """
        starts = {
            "--student-layers": self.student_layers,
            "--keep-layers": self.keep_layers or None,
            "--student": self.student,
        }
        given = [flag for flag, value in starts.items() if value is not None]
        learned = self.imitation
        problems = []
        if len(given) > 1:
            problems.append(f"give one of {', '.join(starts)}, not {' and '.join(given)}")
        if not given and self.keep_words_from is None:
            problems.append(f"say what is smaller: {', '.join(starts)} or --keep-words-from")
        if self.init_only == bool(self.data):
            problems.append(
                "--init-only trains nothing, so --data says nothing; leave one of them out"
                if self.data
                else "give --data to learn from, or --init-only to train nothing"
            )
        if self.init_only and self.student is not None:
            problems.append("--init-only with --student would only copy that model")
        if self.resume and (self.overwrite or self.init_only):
            problems.append("--resume goes with neither --overwrite nor --init-only")
        if not 0.0 < learned.temperature < float("inf"):
            problems.append(f"--temperature is {learned.temperature}; expected a number above 0")
        weights = {
            "--hard-weight": learned.hard_weight,
            "--soft-weight": learned.soft_weight,
            "--hidden-weight": learned.hidden_weight,
        }
        problems += [
            f"{flag} is {weight}; expected 0 or more"
            for flag, weight in weights.items()
            if weight is not None and not 0.0 <= weight < float("inf")
        ]
        if not any(weights.values()):
            problems.append("all weights are 0, so there is nothing to learn")
        if problems:
            raise UsageError("; ".join(problems))

    @property
    def file_options(self) -> FileOptions:
        """How files are read, as far as it is said."""
        return FileOptions.of(self.common)

    def finetuning(self, task: str, files: FileOptions) -> FinetuneSettings:
        """The run of a task in the words of fine-tuning.

        Args:
            task: of the teacher.
            files: how the teacher's data were read.

        Raises:
            UsageError: for what such a run cannot have.
        """
        if len(self.data) != 1 or self.steps is not None:
            raise UsageError(
                f"the teacher was trained for {task}: give one labelled file as --data, and "
                f"--epochs, not --steps (--data is {', '.join(self.data)})"
            )
        held, common = self.held_out, self.common
        read = self.file_options.over(files)
        several = task == "multi-label"
        settings = FinetuneSettings(
            model=self.teacher,
            output=self.output,
            data=DataSettings(
                Path(self.data[0]), dev=held.dev, dev_share=held.dev_share, test=held.test
            ),
            task="classify" if several else task,
            resume=self.resume,
            overwrite=self.overwrite,
            track=self.track,
            optim=self.optim,
            loop=self.loop,
            classify=ClassifySettings(multi_label=several),
            common=dataclasses.replace(common, **read.state()),
        )
        settings.check()
        return settings

    def pretraining(self) -> PretrainSettings:
        """The run over text in the words of pretraining.

        Raises:
            UsageError: for what such a run cannot have.
        """
        held, loop, optim, common = self.held_out, self.loop, self.optim, self.common
        if self.steps is None or held.dev or held.dev_share or held.test or loop.seeds > 1:
            raise UsageError(
                "the teacher fills masks: give --steps, and a part of the text is held out by "
                "itself, so neither --dev, --dev-share, --test nor --seeds"
            )
        if len(optim.learning_rate) != 1:
            raise UsageError("over text one --learning-rate is tried; give one")
        (first, *others) = self.data
        shards = None if others or not (Path(first) / MANIFEST).is_file() else Path(first)
        settings = PretrainSettings(
            output=self.output,
            from_=self.teacher,
            resume=self.resume,
            overwrite=self.overwrite,
            track=self.track,
            corpus=CorpusSettings(
                data=shards,
                input=() if shards else self.data,
                text=held.text,
                encoding=common.encoding or "utf-8",
            ),
            optim=TextOptim(
                learning_rate=optim.learning_rate[0],
                weight_decay=optim.weight_decay,
                clip=optim.clip,
                warmup=optim.warmup,
            ),
            loop=TextLoop(
                steps=self.steps,
                batch_tokens=common.batch_tokens,
                max_length=common.max_length,
                accumulate=loop.accumulate if loop.accumulate > 1 else None,
                held_out_tokens=held.held_out_tokens,
                checkpoint_every=loop.checkpoint_every,
                keep_checkpoints=loop.keep_checkpoints,
                log_every=loop.log_every,
            ),
            machine=MachineSettings(common.seed, common.device, common.precision, common.threads),
        ).filled()
        settings.check()
        return settings

    def recipe(self) -> str:
        """These settings as a recipe, without what is said anew each time."""
        return to_toml(dataclasses.replace(self, resume=False, overwrite=False))

    def deciding(self) -> dict[str, Any]:
        """What decides the numbers of a run, as flat JSON values by key path."""
        values: dict[str, Any] = json.loads(
            json.dumps(dict(flat(dataclasses.asdict(self))), default=str)
        )
        may_differ = CHANGEABLE | {"held_out.dev", "held_out.test"}
        return {key: value for key, value in values.items() if key not in may_differ}
