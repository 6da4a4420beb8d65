"""The output folder of a run: free for it, or its own from before; and the recipe that it leaves.

What is written when a run is over is in `saving.py` (fine-tuning) and `pretrain_saving.py`.
"""

from __future__ import annotations

import logging
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bothways.config import read_recipe
from bothways.errors import TrainingError
from bothways.files import names_in, remove_half_written, write_text
from bothways.training.runtime import Runtime
from bothways.training.state import CheckpointStore, refuse_other_settings

logger = logging.getLogger(__name__)

RECIPE_NAME = "recipe.toml"
# What a run leaves beside its model; a run that replaces it begins by deleting these.
LEFT_BY_RUNS = ("adapter", "checkpoints", "runs", "shards", "steps.json")


class RunSettings(Protocol):
    """What the settings of every kind of run have in common."""

    @property
    def output(self) -> Path:
        """The folder."""
        ...

    @property
    def resume(self) -> bool:
        """Whether the run goes on from what is there."""
        ...

    @property
    def overwrite(self) -> bool:
        """Whether it may replace what is there."""
        ...

    def recipe(self) -> str:
        """The settings as a recipe."""
        ...

    def deciding(self) -> dict[str, Any]:
        """What decides the numbers of the run."""
        ...


Settings = TypeVar("Settings", bound=RunSettings)


def claim_output(settings: Settings, runtime: Runtime, runs: Sequence[Path]) -> None:
    """Make sure that the output folder is free for a run, and leave the recipe in it.

    Args:
        settings: of the command.
        runtime: the first rank writes.
        runs: folders whose checkpoints the command could go on from; none where it says itself
            what it goes on from.

    Raises:
        TrainingError: when something is in it and neither resume nor overwrite is asked for, or
            when a resumed run was started with other settings.
        CheckpointError: when it is a file.
    """
    folder, recipe = settings.output, settings.output / RECIPE_NAME
    taken = names_in(folder)
    # A recipe alone is what a run leaves that ended before it began, say at a wrong data file.
    if taken not in ([], [RECIPE_NAME]) and not (settings.resume or settings.overwrite):
        shown = ", ".join(taken[:5]) + ", ..." * (len(taken) > 5)
        raise TrainingError(
            f"the output folder {folder} is not empty (it has {shown}); go on with its run "
            "(--resume), replace it (--overwrite), or choose another folder"
        )
    if settings.resume and recipe.exists():
        before = read_recipe(type(settings), recipe)
        refuse_other_settings(before.deciding(), settings.deciding(), folder)
    if (
        settings.resume
        and runs
        and not any(CheckpointStore(run, settings={}).steps() for run in runs)
    ):
        logger.warning("%s has no checkpoint to resume from: starting at step 0", folder)
    runtime.wait()
    if runtime.is_main:
        remove_half_written(folder)
        if settings.overwrite:
            # Other files stay, and the model is replaced when there is a new one.
            for name in LEFT_BY_RUNS:
                path = folder / name
                if path.is_file():
                    path.unlink()
                else:
                    shutil.rmtree(path, ignore_errors=True)
        write_text(recipe, settings.recipe())
    runtime.wait()


def resume_command(output: Path, command: str) -> str:
    """What a user types to go on with a run of a command."""
    return f"bothways {command} --config {shlex.quote(str(output / RECIPE_NAME))} --resume"
