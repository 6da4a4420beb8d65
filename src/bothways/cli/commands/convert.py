"""`bothways convert`: weights in a format that can run code, written anew as safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from bothways.cli.output import Output
from bothways.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Read pytorch_model.bin in a process of its own and write a folder with safetensors.

    Attributes:
        folders: the old folder (or hub name) and the new one.
        overwrite: allow a new folder that holds a model.
    """

    folders: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    overwrite: bool = False


def run(settings: Settings) -> Output:
    """Convert."""
    from bothways.checkpoints.convert import convert

    if len(settings.folders) != 2:
        raise UsageError(
            f"convert takes the old folder and the new one; it got {len(settings.folders)}"
        )
    old, new = settings.folders
    done = convert(old, new, overwrite=settings.overwrite)
    return Output(
        done.summary(),
        {
            "old": old,
            "new": new,
            "tensors": done.tensors,
            "files": list(done.files),
            "left_out": list(done.left_out),
        },
    )
