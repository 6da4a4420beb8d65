"""The tensors of a checkpoint: one file, or one a process, each with some rows of every tensor.

Here: names of the files, what of a tensor lies in this process, reading it back whatever the number
of processes was. When they are written is in `state.py` and `sharding.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bothways.checkpoints.files import WeightFiles
from bothways.errors import CheckpointError

_PART = re.compile(r"-\d{5}-of-(\d{5})\.safetensors$")


def part_name(name: str, rank: int, num_ranks: int) -> str:
    """The file of one of several processes.

    Args:
        name: of the file where there is one.
        rank: from 0.
        num_ranks: how many there are.

    Example:
        >>> part_name("weights.safetensors", 0, 2)
        'weights-00001-of-00002.safetensors'
    """
    stem, dot, suffix = name.partition(".")
    return f"{stem}-{rank + 1:05}-of-{num_ranks:05}{dot}{suffix}"


def rows_here(tensors: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """What of some tensors a process writes: its rows, and on the first one what is not spread."""
    found = {}
    for name, tensor in tensors.items():
        local = getattr(tensor, "to_local", None)
        if local is not None:
            found[name] = local()
        elif rank == 0:
            found[name] = tensor
    return found


def put(tensor: Tensor, whole: Tensor) -> None:
    """Copy a whole tensor into another one, or the rows of it that lie in this process."""
    spread: Any = tensor
    if not hasattr(spread, "to_local"):
        tensor.copy_(whole)
        return
    from torch.distributed.tensor import distribute_tensor

    # Each process has the whole one, so none need send it to the others.
    on_device = whole.to(spread.device)
    placed = distribute_tensor(on_device, spread.device_mesh, spread.placements, src_data_rank=None)
    spread.to_local().copy_(placed.to_local())


class StoredTensors:
    """The tensors of one kind in a checkpoint.

    Args:
        folder: of the checkpoint.
        name: of the file where one process wrote it.

    Attributes:
        shapes: of whole tensors, by name.
        place: file or folder, for messages.

    Raises:
        CheckpointError: when a file is missing or cannot be read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        stem, _, suffix = name.partition(".")
        paths = sorted(folder.glob(f"{stem}-*-of-*.{suffix}")) or [folder / name]
        matches = (_PART.search(path.name) for path in paths)
        expected = max((int(match[1]) for match in matches if match), default=1)
        if len(paths) != expected:
            raise CheckpointError(
                f"{folder} has {len(paths)} of {expected} files of {stem}; delete it to go on from "
                "the checkpoint before it"
            )
        self._files = [WeightFiles([path]) for path in paths]
        self.place = str(paths[0] if expected == 1 else folder)
        first, *others = self._files
        self.shapes = dict(first.shapes)
        for file in others:
            for key, shape in file.shapes.items():
                rows, *columns = self.shapes.get(key, ()) or (0,)
                if not shape or shape[1:] != tuple(columns):
                    raise CheckpointError(
                        f"{file.place}: {key} is no part of that in {first.place}"
                    )
                self.shapes[key] = (rows + shape[0], *columns)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor."""
        parts = [file.tensor(name) for file in self._files if name in file.shapes]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
