"""Weights, gradients and moments spread over the processes of a launch, and their checkpoints.

Every process holds some rows of every tensor (FSDP2, torch's `fully_shard`): of a block they are
gathered when it is computed, and freed again. A checkpoint is as in `state.py`, but each process
writes a file with the rows that it holds:

    checkpoints/step-00000120/
        weights-00001-of-00002.safetensors      optimizer-00001-of-00002.safetensors
        weights-00002-of-00002.safetensors      optimizer-00002-of-00002.safetensors
        state.json

Any number of processes reads it, one that spreads nothing included (`StoredTensors`), and nothing
in it can run.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bothways.checkpoints.files import Staged, write_tensors
from bothways.errors import CheckpointError
from bothways.model.block import Block
from bothways.training.runtime import Runtime
from bothways.training.state import (
    MOMENTS,
    STATE,
    WEIGHTS,
    CheckpointStore,
    Progress,
    named_tensors,
    optimizer_tensors,
    put_in_place,
)
from bothways.training.stored import part_name, rows_here


def shard(objective: nn.Module, runtime: Runtime) -> None:
    """Spread a module over the processes, block by block, in place.

    An optimizer is made afterwards, over what is left here.

    Args:
        objective: on the device, with everything that learns in it.
        runtime: of several processes.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(runtime.device.type, (runtime.num_ranks,))
    for block in [module for module in objective.modules() if isinstance(module, Block)]:
        fully_shard(block, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def gather_into(plain: nn.Module, spread: nn.Module) -> None:
    """Copy the weights of a spread module into one of the same shape; every process calls it.

    Args:
        plain: as the other one was before it was spread.
        spread: keeps its part.
    """
    wanted = named_tensors(plain)
    with torch.no_grad():
        for name, tensor in named_tensors(spread).items():
            gather = getattr(tensor, "full_tensor", None)
            wanted[name].copy_(tensor if gather is None else gather())


class ShardedCheckpointStore(CheckpointStore):
    """Checkpoints that every process writes a part of.

    Args:
        folder, settings, keep: as in `CheckpointStore`.
        runtime: its processes.
    """

    every_rank = True

    def __init__(
        self, folder: Path, *, settings: Mapping[str, Any], keep: int = 2, runtime: Runtime
    ) -> None:
        super().__init__(folder, settings=settings, keep=keep)
        self._runtime = runtime

    def save(
        self, objective: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> Path:
        """Write the checkpoint of a step; every process calls it, and all raise or none.

        Raises:
            CheckpointError: as in `CheckpointStore`, on every process.
        """
        final = self.path(progress.step)
        temporary = self.folder / f".{final.name}.tmp"
        rank, num_ranks = self._runtime.rank, self._runtime.num_ranks
        state = {"progress": dataclasses.asdict(progress), "settings": self._settings}

        def begin() -> None:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)

        def write() -> None:
            with Staged(temporary) as files:
                for name, tensors in (
                    (WEIGHTS, named_tensors(objective)),
                    (MOMENTS, optimizer_tensors(objective, optimizer)),
                ):
                    with files.stream(part_name(name, rank, num_ranks)) as file:
                        write_tensors(file, rows_here(tensors, rank))

        def end() -> None:
            with Staged(temporary) as files:
                files.json(STATE, state)
            put_in_place(temporary, final)
            self._forget(progress)

        self._together(begin, rank == 0)
        self._together(write, True)
        self._together(end, rank == 0)
        return final

    def _together(self, action: Callable[[], None], mine: bool) -> None:
        """Do something on one process or on all, and go on only when it worked everywhere."""
        problem: Exception | None = None
        try:
            if mine:
                action()
        except (CheckpointError, OSError) as error:
            problem = error
        (failed,) = self._runtime.sum([float(problem is not None)])
        if failed:
            told = problem or f"{failed:.0f} other processes could not write"
            raise self._not_written(told) from problem
