"""The settings of fine-tuning: one dataclass, whose tables are those of a recipe.

Every field is a flag of the same name with dashes and a key of recipe.toml; its text below is the
help. What can be told to be wrong without reading a file is refused here, all at once.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bothways.config import CommonSettings, to_toml
from bothways.errors import UsageError, nearest
from bothways.tasks.registry import TASKS
from bothways.training.head_table import TASK_TABLES, HeadTable
from bothways.training.run_tables import (
    DataSettings,
    LoopSettings,
    NetworkSettings,
    OptimSettings,
)
from bothways.training.task_tables import (
    AnswerSettings,
    ClassifySettings,
    EmbedSettings,
    RegressSettings,
    RelateSettings,
    RerankSettings,
    TagSettings,
)
from bothways.training.tuning_table import TuningSettings

__all__ = [
    "MAY_DIFFER",
    "DataSettings",
    "FinetuneSettings",
    "HeadTable",
    "LoopSettings",
    "NetworkSettings",
    "OptimSettings",
    "flat",
]

# A run may be resumed with other values of these: they change no number of the training.
MAY_DIFFER = frozenset(
    {
        "output",
        "resume",
        "overwrite",
        "track",
        # Data are compared as read, by a hash, wherever they lie.
        "data.train",
        "data.dev",
        "data.test",
        "loop.checkpoint_every",
        "loop.log_every",
        "loop.keep_checkpoints",
        "common.threads",
    }
)
DEFAULT_BATCH_SIZE = 32
# What is a task in another place than `--task`.
ELSEWHERE = {
    "multi-label": "several labels a text are --task classify --multi-label",
    "fill": "filling masks is learned from raw text, and that is pretraining: "
    "`bothways pretrain --from MODEL --input FILES --output FOLDER`",
}


@dataclass(frozen=True)
class FinetuneSettings:
    """Fine-tune an encoder on labelled data.

    Attributes:
        model: folder or hub name of the encoder.
        output: folder that the model is written into.
        data: what is learned from and judged on.
        task: what the model shall do.
        heads: tasks that share the encoder, each with data and a head of its own, in place of data
            and task: the [[task]] tables of a recipe.
        resume: go on from the last checkpoint in the output folder.
        overwrite: replace what is in the output folder.
        track: also send the figures to trackers: tensorboard, wandb, trackio, mlflow.
        network: the encoder's dropout and frozen parts, and the head.
        optim: the optimizer.
        loop: how long, how much at once, what is kept.
        tuning: what goes beyond plain fine-tuning.
        classify: what only --task classify has.
        answer: what only --task answer has.
        embed: what only --task embed has.
        regress: what only --task regress has.
        tag: what only --task tag has.
        rerank: what only --task rerank has.
        relate: what only --task relate has.
        common: seed, device, lengths, file formats.

    Example:
        >>> settings = FinetuneSettings("path/to/bert", Path("out"), DataSettings(Path("a.csv")))
        >>> settings.loop.epochs
        3
    """

    BARE: ClassVar[dict[str, str]] = {"tuning.learning_curve": "0.1,0.25,0.5,1"}

    model: str
    output: Path
    data: DataSettings = field(default_factory=DataSettings)
    task: str = "classify"
    heads: tuple[HeadTable, ...] = field(default=(), metadata={"key": "[task]"})
    resume: bool = False
    overwrite: bool = False
    track: tuple[str, ...] = ()
    network: NetworkSettings = field(default_factory=NetworkSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    tuning: TuningSettings = field(default_factory=TuningSettings)
    classify: ClassifySettings = field(default_factory=ClassifySettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    embed: EmbedSettings = field(default_factory=EmbedSettings)
    regress: RegressSettings = field(default_factory=RegressSettings)
    tag: TagSettings = field(default_factory=TagSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    relate: RelateSettings = field(default_factory=RelateSettings)
    common: CommonSettings = field(default_factory=CommonSettings)

    @property
    def has_dev(self) -> bool:
        """Whether anything is held out to choose by."""
        if self.heads:
            return all(alone.has_dev for alone in self.alone.values())
        return self.data.dev is not None or self.data.dev_share is not None

    @property
    def alone(self) -> dict[str, FinetuneSettings]:
        """The settings that would train each of several heads alone, by its name."""
        return {
            head.name: dataclasses.replace(
                self,
                heads=(),
                tuning=TuningSettings(),
                network=dataclasses.replace(self.network, pooling=head.pooling),
                common=dataclasses.replace(self.common, **head.reading),
                **head.fields,
            )
            for head in self.heads
        }

    @property
    def num_runs(self) -> int:
        """Learning rates times seeds."""
        return len(self.optim.learning_rate) * self.loop.seeds

    @property
    def batch_size(self) -> int | None:
        """Examples a step; None where steps are planned by tokens."""
        if self.common.batch_tokens is not None:
            return None
        return DEFAULT_BATCH_SIZE if self.loop.batch_size is None else self.loop.batch_size

    def task_settings(self) -> dict[str, Any]:
        """What is set of the task alone, by the names of its fields."""
        table = TASK_TABLES.get(self.task)
        return {} if table is None else dict(vars(getattr(self, table)))

    def check(self) -> None:
        """Refuse what cannot be, before anything is read.

        Raises:
            UsageError: with every problem.
        """
        problems = [*self._wrong_numbers(), *self._wrong_combinations()]
        if problems:
            raise UsageError("; ".join(problems))

    def _wrong_numbers(self) -> list[str]:
        """Numbers out of range."""
        loop, optim, share = self.loop, self.optim, self.data.dev_share
        at_least_one = {
            "--epochs": loop.epochs,
            "--batch-size": loop.batch_size,
            "--batch-tokens": self.common.batch_tokens,
            "--accumulate": loop.accumulate,
            "--seeds": loop.seeds,
            "--checkpoint-every": loop.checkpoint_every,
            "--keep-checkpoints": loop.keep_checkpoints,
            "--log-every": loop.log_every,
        }
        not_negative = {
            "--early-stop": loop.early_stop,
            "--weight-decay": optim.weight_decay,
            "--clip": optim.clip,
        }
        problems = [
            f"{flag} is {value}; expected at least 1"
            for flag, value in at_least_one.items()
            if value is not None and value < 1
        ]
        problems += [
            f"{flag} is {value}; expected 0 or more"
            for flag, value in not_negative.items()
            if not 0 <= value < float("inf")
        ]
        problems += [
            f"--{name}-dropout is {rate}; expected a share from 0 up to below 1"
            for name, rate in self.network.dropout.items()
            if not 0.0 <= rate < 1.0
        ]
        problems += [
            f"--learning-rate is {rate}; expected a number above 0"
            for rate in optim.learning_rate
            if not 0.0 < rate < float("inf")
        ]
        if not optim.learning_rate:
            problems.append("--learning-rate is empty; give at least one")
        if share is not None and not 0.0 < share < 1.0:
            problems.append(f"--dev-share is {share}; expected a share between 0 and 1")
        if not 0.0 <= optim.warmup < 1.0:
            problems.append(f"--warmup is {optim.warmup}; expected a share from 0 up to below 1")
        return problems

    def _wrong_combinations(self) -> list[str]:
        """Settings that exclude or need each other."""
        data, loop = self.data, self.loop
        problems = [
            f"--{name.replace('_', '-')} is for --task {task}, not for --task {self.task}"
            for task, table in TASK_TABLES.items()
            if task != self.task
            for name, value in vars(getattr(self, table)).items()
            if value != getattr(type(getattr(self, table))(), name)
        ]
        problems += self._wrong_heads() if self.heads else data.problems(self.task)
        if data.dev is not None and data.dev_share is not None:
            problems.append("give --dev or --dev-share, not both")
        if data.dev_share is None and (data.stratify or data.group is not None):
            problems.append("--stratify and --group say how --dev-share cuts; give it too")
        if self.common.batch_tokens is not None and loop.batch_size is not None:
            problems.append("give --batch-size (examples) or --batch-tokens, not both")
        if self.classify.window_pooling != "mean" and self.common.policy != "windows":
            problems.append("--window-pooling says how windows are read; give --policy windows too")
        if self.task == "embed" and self.network.freeze == "encoder":
            problems.append(
                "--freeze encoder leaves nothing: in an embedder nothing but the encoder learns"
            )
        problems += self.tuning.problems(
            task="several" if self.heads else self.task,
            freeze=self.network.freeze,
            has_dev=self.has_dev,
            windows=self.common.policy == "windows",
            multi_label=self.classify.multi_label,
        )
        if self.common.max_length is not None and self.common.max_length < 1:
            problems.append(f"--max-length is {self.common.max_length}; expected at least 1")
        if self.task not in TASKS or self.task in ELSEWHERE:
            known = sorted({*TASKS, *ELSEWHERE} - {"multi-label"})
            unknown = f"there is no task {self.task!r}; {nearest(self.task, known)}"
            problems.append(ELSEWHERE.get(self.task, unknown))
        if self.resume and self.overwrite:
            problems.append("give --resume or --overwrite, not both")
        if not self.has_dev:
            needing = {
                "--early-stop": loop.early_stop > 0,
                "--metric": loop.metric is not None,
                "several learning rates or seeds": self.num_runs > 1,
            }
            problems += [
                f"{name} needs something to choose by: give --dev or --dev-share"
                for name, wanted in needing.items()
                if wanted
            ]
        return problems

    def _wrong_heads(self) -> list[str]:
        """What is wrong with the tables of several heads, or does not go with them."""
        names, alone = [head.name for head in self.heads], self.alone
        problems = [f"[[task]] {head.name}: {each}" for head in self.heads for each in head.wrong()]
        if len(set(names)) < len(names):
            problems.append(f"[[task]] tables need names of their own; they are: {names}")
        if (self.data, self.task, self.network.pooling) != (DataSettings(), "classify", "auto"):
            problems.append(
                "task, pooling, files and columns belong into the [[task]] tables, and nowhere else"
            )
        if len({each.has_dev for each in alone.values()}) > 1:
            problems.append("give every [[task]] a dev or dev_share, or none: all are judged alike")
        if self.tuning.learning_curve:
            problems.append("--learning-curve is for one task, not for several [[task]] tables")
        for name, each in alone.items():
            own = [*each._wrong_numbers(), *each._wrong_combinations()]
            problems += [f"[[task]] {name}: {words}" for words in own]
        return problems

    def recipe(self) -> str:
        """These settings as a recipe, without what is said anew each time."""
        return to_toml(dataclasses.replace(self, resume=False, overwrite=False))

    def given(self) -> dict[str, Any]:
        """All settings as flat JSON values by key path."""
        values = dict(flat(dataclasses.asdict(self)))
        found: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return found

    def deciding(self) -> dict[str, Any]:
        """Those that decide the numbers of a run; a path counts however it is spelled."""
        values = dict(flat(dataclasses.asdict(self)))
        if Path(self.model).exists():
            values["model"] = Path(self.model)
        paths = {
            key: str(value.resolve()) for key, value in values.items() if isinstance(value, Path)
        }
        return {
            key: value
            for key, value in (self.given() | paths).items()
            if re.sub(r"^heads\.[^.]*\.", "", key) not in MAY_DIFFER
        }


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The leaves of nested mappings, each with its key path."""
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        named = {each["name"]: each for each in value} if key == "heads" else value
        inner = flat(named, f"{prefix}{key}.") if isinstance(named, Mapping) else None
        pairs += [(prefix + key, value)] if inner is None else inner
    return pairs
