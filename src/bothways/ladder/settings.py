"""The settings of choosing: one dataclass, whose tables are those of fine-tuning where alike."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bothways.config import CommonSettings, to_toml
from bothways.data.options import FileOptions
from bothways.errors import UsageError
from bothways.training.run_tables import DataSettings, LoopSettings, NetworkSettings, OptimSettings
from bothways.training.settings import FinetuneSettings, flat
from bothways.training.task_tables import (
    AnswerSettings,
    ClassifySettings,
    EmbedSettings,
    RegressSettings,
    RelateSettings,
    TagSettings,
)

SEEDS = 3
# A unit of a limit, in milliseconds, megabytes or seconds; the first is meant where none is given.
MILLISECONDS = {"ms": 1.0, "s": 1000.0}
MEGABYTES = {"MB": 1.0, "KB": 1e-3, "GB": 1000.0}
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
# A command that goes on may have other values of these: they change no number, or only where it
# ends.
MAY_DIFFER = frozenset(
    {
        "output",
        "resume",
        "overwrite",
        "budget",
        "files.data",
        "files.train",
        "files.dev",
        "files.test",
        "loop.checkpoint_every",
        "loop.log_every",
        "loop.keep_checkpoints",
        "common.threads",
    }
)


@dataclass(frozen=True)
class LabelledSettings:
    """What is learned from, chosen by and judged on.

    Attributes:
        data: labelled file, cut by --seed into 60 % to learn from, 20 % to choose by and 20 % to
            judge on, every label with its share.
        train: labelled file to learn from, in place of --data.
        dev: labelled file that chooses; unset: a quarter of --train.
        test: labelled file that the choice is judged on, once; needed with --train.
        text: column of the text; a name, or a number from 1 where there is no header.
        text_pair: column of the second text of a pair.
        label: column of the label.
        group: column whose equal values never stand on both sides of a cut.
    """

    data: Path | None = None
    train: Path | None = None
    dev: Path | None = None
    test: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    group: str | None = None

    @property
    def whole(self) -> Path:
        """The file that is learned from."""
        found = self.data or self.train
        assert found is not None, "`ChooseSettings.check` refuses settings without either"
        return found

    def problems(self) -> list[str]:
        """What does not go together, in words."""
        others = {"--dev": self.dev, "--test": self.test}
        if self.data is None and self.train is None:
            return ["give --data, a labelled file, or --train and --test"]
        if self.data is not None and self.train is not None:
            return ["give --data, which is cut, or --train, not both"]
        if self.data is not None:
            given = [flag for flag, path in others.items() if path is not None]
            listed = " and ".join(given)
            return [f"--data is cut into all parts; {listed} goes with --train"] if given else []
        if self.test is None:
            return ["--train needs --test too, which is touched once, at the end"]
        return []


@dataclass(frozen=True)
class ChooseSettings:
    """Find the smallest encoder that is good enough.

    Attributes:
        output: folder for the model that is chosen, the report and what is needed to go on.
        target: what is good enough, as in f1_macro=0.90.
        task: what the model shall do.
        candidates: folders or hub names; unset: those that the field recommends for the language of
            the data and that are in the local hub cache.
        max_latency: most time for a text alone, on this machine, as in 10ms.
        max_size: most room on the disk, as in 100MB.
        budget: time after which no further candidate is begun, as in 30m.
        resume: go on with the choice that was begun in the output folder.
        overwrite: replace what is in the output folder.
        files: what is learned from, chosen by and judged on.
        network: the encoder's dropout and frozen parts, and the head.
        optim: the optimizer; several learning rates are all tried with each candidate.
        loop: how long, how much at once; each candidate is trained with several seeds.
        classify: what only --task classify has.
        answer: what only --task answer has.
        embed: what only --task embed has.
        regress: what only --task regress has.
        tag: what only --task tag has.
        relate: what only --task relate has.
        common: seed, device, lengths, file formats.

    Example:
        >>> files = LabelledSettings(Path("reviews.csv"))
        >>> settings = ChooseSettings(Path("out"), "accuracy=0.9", files=files)
        >>> settings.check()
        >>> settings.wanted
        ('accuracy', 0.9)
    """

    output: Path
    target: str
    task: str = "classify"
    candidates: tuple[str, ...] = ()
    max_latency: str | None = None
    max_size: str | None = None
    budget: str | None = None
    resume: bool = False
    overwrite: bool = False
    files: LabelledSettings = field(default_factory=LabelledSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    loop: LoopSettings = field(default_factory=lambda: LoopSettings(seeds=SEEDS))
    classify: ClassifySettings = field(default_factory=ClassifySettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    embed: EmbedSettings = field(default_factory=EmbedSettings)
    regress: RegressSettings = field(default_factory=RegressSettings)
    tag: TagSettings = field(default_factory=TagSettings)
    relate: RelateSettings = field(default_factory=RelateSettings)
    common: CommonSettings = field(default_factory=CommonSettings)

    @property
    def wanted(self) -> tuple[str, float]:
        """The metric of the target, and its value.

        Raises:
            UsageError: when it is not of the form metric=value.
        """
        name, found, value = self.target.partition("=")
        try:
            if found and name.strip():
                return name.strip(), float(value)
        except ValueError:
            pass
        raise UsageError(f"--target is {self.target!r}; expected metric=value: f1_macro=0.90")

    @property
    def most_milliseconds(self) -> float | None:
        """The limit on the time of a text."""
        return _quantity("--max-latency", self.max_latency, MILLISECONDS, "10ms")

    @property
    def most_megabytes(self) -> float | None:
        """The limit on the size of the folder, in millions of bytes."""
        return _quantity("--max-size", self.max_size, MEGABYTES, "100MB")

    @property
    def budget_seconds(self) -> float | None:
        """The time after which nothing is begun."""
        return _quantity("--budget", self.budget, SECONDS, "30m")

    @property
    def file_options(self) -> FileOptions:
        """How the data files are read."""
        common = self.common
        format_ = None if common.format == "auto" else common.format
        return FileOptions(format_, common.encoding, common.header, common.quoting)

    def check(self) -> None:
        """Refuse what cannot be, before anything is read.

        Raises:
            UsageError: with every problem.
        """
        problems = self.files.problems()
        for ask in ("wanted", "most_milliseconds", "most_megabytes", "budget_seconds"):
            try:
                getattr(self, ask)
            except UsageError as error:
                problems.append(str(error))
        twice = {name for name in self.candidates if self.candidates.count(name) > 1}
        if twice:
            problems.append(f"--candidates names {', '.join(sorted(twice))} more than once")
        if self.loop.metric is not None:
            problems.append("--metric is what --target names; leave it out")
        if problems:
            raise UsageError("; ".join(problems))
        self.finetuning("candidate", self.output).check()

    def finetuning(self, model: str, output: Path) -> FinetuneSettings:
        """The runs of one candidate in the words of fine-tuning.

        Args:
            model: the candidate.
            output: folder of its runs.
        """
        files = self.files
        return FinetuneSettings(
            model=model,
            output=output,
            data=DataSettings(
                files.whole,
                dev=files.dev or files.whole,
                test=files.test or files.whole,
                text=files.text,
                text_pair=files.text_pair,
                label=files.label,
                group=files.group,
            ),
            task=self.task,
            network=self.network,
            optim=self.optim,
            loop=dataclasses.replace(self.loop, metric=self.wanted[0]),
            classify=self.classify,
            answer=self.answer,
            embed=self.embed,
            regress=self.regress,
            tag=self.tag,
            relate=self.relate,
            common=self.common,
        )

    def recipe(self) -> str:
        """These settings as a recipe, without what is said anew each time."""
        return to_toml(dataclasses.replace(self, resume=False, overwrite=False))

    def deciding(self) -> dict[str, Any]:
        """What decides the choice, as flat JSON values by key path."""
        values = dict(flat(dataclasses.asdict(self)))
        found: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return {key: value for key, value in found.items() if key not in MAY_DIFFER}


def _quantity(flag: str, given: str | None, units: dict[str, float], example: str) -> float | None:
    """A number with a unit, in the first of the units; None where nothing was said."""
    if given is None:
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", given)
    factors = {unit.lower(): factor for unit, factor in units.items()}
    number, unit = found.groups() if found else ("0", "")
    factor = factors.get(unit.lower()) if unit else 1.0
    if factor is None or not float(number) > 0.0:
        listed = ", ".join(units)
        raise UsageError(f"{flag} is {given!r}; expected a number above 0 with {listed}: {example}")
    return float(number) * factor
