"""Settings that stand for those of a real command in the tests of recipes and flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from bothways.config import CommonSettings
from bothways.errors import UsageError


@dataclass(frozen=True)
class OptimSettings:
    """The optimiser.

    Attributes:
        learning_rate: step size; several make a grid.
        clip: largest norm of a gradient.
    """

    learning_rate: tuple[float, ...] = (5e-5,)
    clip: float = 1.0


@dataclass(frozen=True)
class RunSettings:
    """A run.

    Attributes:
        model: folder or name.
        train: data files.
        epochs: passes over the data.
        share: of the data that is held out.
        freeze: what stays as it is: a number of layers or a part.
        output: where to write.
        overwrite: replace what is there.
        optim: how weights move.
        common: what every command has.
    """

    BARE: ClassVar = {"train": "a.csv,b.csv"}

    model: str
    train: tuple[Path, ...] = ()
    epochs: int = 3
    share: float | None = None
    freeze: int | Literal["encoder", "embeddings"] | None = None
    output: Path | None = None
    overwrite: bool = False
    optim: OptimSettings = field(default_factory=lambda: OptimSettings(clip=2.0))
    common: CommonSettings = field(default_factory=CommonSettings)

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UsageError(f"epochs is {self.epochs}; it must be at least 1")


@dataclass(frozen=True)
class WordsSettings:
    """Words on the command line.

    Attributes:
        model: folder or name.
        texts: to read.
        layers: which to show.
        header: on, off or not said.
    """

    model: Annotated[str, tyro.conf.Positional]
    texts: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    layers: tuple[int, ...] = ()
    header: bool | None = None
