"""Checkpoints of a run, from which it goes on exactly.

    checkpoints/step-00000120/
        weights.safetensors     parameters and buffers of the objective, tied ones once
        optimizer.safetensors   what the optimizer keeps a parameter (moments), by its name
        state.json              progress and the settings of the run

Random numbers are functions of what is stored (seed, step), so no generator is. A folder is
written beside its final name, synced and renamed: what has the final name is whole. The model
that a run produces is not here: `checkpoints/` writes it in the format that others read.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bothways.checkpoints.files import Staged, read_json_object, write_tensors
from bothways.errors import CheckpointError, TrainingError
from bothways.training.stored import StoredTensors, put

WEIGHTS, MOMENTS, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_FOLDER = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Progress:
    """How far a run is; together with weights and moments all that it needs to go on.

    Attributes:
        step: steps the optimizer has taken.
        epoch: passes over the data that are complete.
        cursor: where the feed goes on.
        tokens: read so far.
        seconds: spent so far.
        best: best value of the metric that checkpoints are chosen by; None before the first.
        best_step: the step it was reached at.
        best_metrics: all scores at that step, by name.
        stale: evaluations since then.
        stopped_early: whether the run ended before its last step.
        skipped: steps that moved nothing, because their loss was bad before.
        usual_loss: running mean of the loss; None before the first step.
        looked_at: steps in that mean.
    """

    step: int = 0
    epoch: int = 0
    cursor: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    best_metrics: Mapping[str, float] = field(default_factory=dict)
    stale: int = 0
    stopped_early: bool = False
    skipped: Sequence[int] = ()
    usual_loss: float | None = None
    looked_at: int = 0


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: of the run; `checkpoints/` is made inside.
        settings: what decides the run's numbers, as JSON values; a run with other settings is
            refused when it resumes.
        keep: newest checkpoints that stay, besides the best one.

    Attributes:
        every_rank: whether all processes save, and not the first one alone.
    """

    every_rank = False

    def __init__(self, folder: Path, *, settings: Mapping[str, Any], keep: int = 2) -> None:
        self.folder = folder / "checkpoints"
        self._settings = json.loads(json.dumps(settings))
        self._keep = keep

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Steps that have a whole checkpoint, increasing."""
        if not self.folder.is_dir():
            return []
        matches = (_FOLDER.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self, objective: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> Path:
        """Write the checkpoint of a step, then drop those that are no longer kept.

        Raises:
            CheckpointError: when it cannot be written; earlier ones are left as they were.
        """
        final = self.path(progress.step)
        temporary = self.folder / f".{final.name}.tmp"
        record = {"progress": dataclasses.asdict(progress), "settings": self._settings}
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            with Staged(temporary) as files:
                with files.stream(WEIGHTS) as file:
                    write_tensors(file, named_tensors(objective))
                with files.stream(MOMENTS) as file:
                    write_tensors(file, optimizer_tensors(objective, optimizer))
                files.json(STATE, record)
            put_in_place(temporary, final)
        except (CheckpointError, OSError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise self._not_written(error) from error
        self._forget(progress)
        return final

    def _not_written(self, problem: object) -> CheckpointError:
        steps = self.steps()
        last = f"the last good one is {self.path(steps[-1])}" if steps else "there is no other"
        return CheckpointError(
            f"checkpoint not written: {problem}; {last}; make room and go on with --resume"
        )

    def _forget(self, progress: Progress) -> None:
        """Drop the checkpoints that are no longer kept, and what killed runs have left."""
        for torn in self.folder.glob(".step-*.tmp"):
            shutil.rmtree(torn)
        kept = {*self.steps()[-self._keep :], progress.step, progress.best_step}
        for step in self.steps():
            if step not in kept:
                shutil.rmtree(self.path(step))

    def restore(self, objective: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Put the newest checkpoint into a run; the start of a run when there is none.

        Raises:
            TrainingError: when it was made with other settings; all differences are listed.
            CheckpointError: when it cannot be read or does not fit.
        """
        steps = self.steps()
        if not steps:
            return Progress()
        folder = self.path(steps[-1])
        record = read_json_object(folder / STATE)
        try:
            progress, stored = Progress(**record["progress"]), record["settings"]
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                f"{folder / STATE} is no state of a run ({error}); delete {folder} to go on from "
                "the checkpoint before it"
            ) from error
        refuse_other_settings(stored, self._settings, folder)
        self.load_weights(objective, steps[-1])
        load_optimizer(objective, optimizer, StoredTensors(folder, MOMENTS))
        return progress

    def load_weights(self, objective: nn.Module, step: int) -> None:
        """Put the weights of a checkpoint into the objective.

        Raises:
            CheckpointError: when they cannot be read or do not fit; every problem is named.
        """
        stored, wanted = StoredTensors(self.path(step), WEIGHTS), named_tensors(objective)
        problems = [f"{name} is missing" for name in wanted.keys() - stored.shapes.keys()]
        problems += [f"{name} is not in the model" for name in stored.shapes.keys() - wanted.keys()]
        problems += [
            f"{name} has shape {stored.shapes[name]}, expected {tuple(wanted[name].shape)}"
            for name in wanted.keys() & stored.shapes.keys()
            if stored.shapes[name] != tuple(wanted[name].shape)
        ]
        if problems:
            raise CheckpointError(
                f"{stored.place} does not fit the model: {'; '.join(sorted(problems))}"
            )
        with torch.no_grad():
            for name, tensor in wanted.items():
                put(tensor, stored.tensor(name))


def put_in_place(temporary: Path, final: Path) -> None:
    """Give a complete folder its final name; one that is there already goes first."""
    if final.exists():
        shutil.rmtree(final)
    temporary.rename(final)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_other_settings(
    stored: Mapping[str, Any], settings: Mapping[str, Any], folder: Path
) -> None:
    """Compare the settings of a checkpoint with those of the run that wants to go on from it.

    Raises:
        TrainingError: with every difference.
    """
    before, now = dict(_flat(stored)), dict(_flat(settings))
    differences = [
        f"{key} was {before.get(key, 'not set')!r}, is {now.get(key, 'not set')!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if differences:
        raise TrainingError(
            f"{folder} was made with other settings: {'; '.join(differences)}; resume with the "
            "settings it was made with, or start anew with --overwrite"
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and stored buffers by name; a tied one once, under its first name."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


def optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer keeps for each parameter, as `slot/parameter name`."""
    return {
        f"{slot}/{name}": value
        for name, parameter in module.named_parameters()
        for slot, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(
    module: nn.Module, optimizer: torch.optim.Optimizer, stored: StoredTensors
) -> None:
    """Put stored moments into an optimizer.

    Raises:
        CheckpointError: when they name what is no parameter.
    """
    parameters = dict(module.named_parameters())
    optimizer.state.clear()
    for key, shape in stored.shapes.items():
        slot, _, name = key.partition("/")
        if name not in parameters:
            raise CheckpointError(
                f"{stored.place} holds {slot} of {name}, which the model does not have"
            )
        parameter, value = parameters[name], stored.tensor(key)
        if shape == tuple(parameter.shape):
            optimizer.state[parameter][slot] = moment = torch.zeros_like(
                parameter, dtype=value.dtype, requires_grad=False
            )
            put(moment, value)
        else:
            # The fused optimizer keeps its counter of steps beside the parameter too.
            optimizer.state[parameter][slot] = value.to(parameter.device, copy=True)
