"""From weights in a format that can run code to safetensors: `bothways convert OLD NEW`.

Several published models have nothing but `pytorch_model.bin`, a pickle. `load` opens no such
file; here each is read by a process of its own (`unpickling.py`) with torch's weights-only reader
and a limit on its memory, and the rest of the folder is copied. Tensors keep their names and bits.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bothways.checkpoints.files import INDEX_NAME, WEIGHTS_NAME, Staged, WeightFiles
from bothways.checkpoints.hub import find_folder
from bothways.checkpoints.unpickling import KINDS, SAFE_TORCH, out_of_memory
from bothways.errors import CheckpointError, UnsafeFileError, counted
from bothways.files import read_json_object

PICKLED_NAME = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
_SHARD = re.compile(r"pytorch_model-(\d+-of-\d+)\.bin")
# Copied are files that hold data; weights in other formats and code are left out.
_COPIED = (".json", ".jsonl", ".txt", ".model", ".md", ".codes", ".toml", ".safetensors")


@dataclass(frozen=True)
class Converted:
    """What became of a folder.

    Attributes:
        folder: the new one.
        tensors: how many were converted.
        files: what was written, by name.
        left_out: files that were not copied, and what weight files held beside tensors.
    """

    folder: Path
    tensors: int
    files: tuple[str, ...]
    left_out: tuple[str, ...]

    def summary(self) -> str:
        """What happened, for a person."""
        tensors = counted(self.tensors, "tensor")
        lines = [f"{self.folder}: {tensors} in safetensors, names and bits unchanged"]
        if self.left_out:
            lines.append(f"left out: {', '.join(self.left_out)}")
        return "\n".join(lines)


def convert(old: str | Path, new: str | Path, *, overwrite: bool = False) -> Converted:
    """Write a model folder anew, with its weights in safetensors.

    Args:
        old: a folder with pytorch_model.bin or its shards, or the name of a model on the hub.
        new: made when absent.
        overwrite: allow a folder that holds a model.

    Raises:
        UnsafeFileError: when a file asks for anything but tensors; nothing of it was executed.
        CheckpointError: when there are no such weights, a file is damaged, or the new folder
            holds a model.

    Example:
        >>> convert("deberta-v3-base", "deberta-v3-base-safe").tensors  # doctest: +SKIP
        202
    """
    _check_torch(torch.__version__)
    if not str(new).strip():
        raise CheckpointError("the name of the new folder is empty; say where to write")
    folder, target = find_folder(old, pickled=True), Path(new)
    pickled = _pickled(folder)
    taken = [name for name in ("config.json", WEIGHTS_NAME, INDEX_NAME) if (target / name).exists()]
    if target.resolve() == folder.resolve():
        raise CheckpointError(
            f"{target} is the folder that is to be converted, which stays as it is; give the new "
            "one another name"
        )
    if taken and not overwrite:
        raise CheckpointError(
            f"{target} holds a model already; choose another folder, or --overwrite"
        )
    tensors = 0
    left_out: list[str] = []
    with Staged(target) as files:
        pairs = [(folder / old, files.path(new)) for old, new in pickled.items()]
        results = _in_own_process(pairs)
        for (name, safe_name), told in zip(pickled.items(), results, strict=True):
            # The new file is read as every other: its header must hold what the process said.
            written = WeightFiles([files.path(safe_name)])
            if set(written.shapes) != set(told["tensors"]):
                raise UnsafeFileError(f"{folder / name} was not converted as its reader says")
            tensors += len(written.shapes)
            left_out += [f"{other} in {name}" for other in told["others"]]
        if (folder / PICKLED_INDEX).is_file():
            files.json(INDEX_NAME, _index(folder / PICKLED_INDEX, pickled))
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            relative = path.relative_to(folder)
            if str(relative) in pickled or str(relative) == PICKLED_INDEX:
                continue
            if any(part.startswith(".") for part in relative.parts):
                continue
            if path.suffix in _COPIED:
                files.bytes(str(relative), path.read_bytes())
            else:
                left_out.append(str(relative))
        written_names = sorted(
            str(path.relative_to(files.staging))
            for path in files.staging.rglob("*")
            if path.is_file()
        )
    return Converted(target, tensors, tuple(written_names), tuple(left_out))


def _pickled(folder: Path) -> dict[str, str]:
    """Pickled weight files of a folder and of its steps, to the names of the new ones.

    Raises:
        CheckpointError: when there are none, or shards are missing.
    """
    index = folder / PICKLED_INDEX
    names: dict[str, str] = {}
    if (folder / PICKLED_NAME).is_file():
        names[PICKLED_NAME] = WEIGHTS_NAME
    elif index.is_file():
        names = {name: _safe_name(name) for name in _shards(index)}
        absent = [name for name in names if not (folder / name).is_file()]
        if absent:
            raise CheckpointError(
                f"{folder} lacks {len(absent)} of {len(names)} weight files that {index.name} "
                f"names: {', '.join(absent)}; fetch them again"
            )
    # Steps of a sentence encoder have folders of their own.
    for path in sorted(folder.glob(f"*/{PICKLED_NAME}")):
        step = path.relative_to(folder)
        names[str(step)] = str(step.with_name(WEIGHTS_NAME))
    names = {old: new for old, new in names.items() if not (folder / new).is_file()}
    if not names:
        found = ", ".join(sorted(path.name for path in folder.iterdir())[:12])
        has = "its weights are safetensors already" if (folder / WEIGHTS_NAME).exists() else found
        raise CheckpointError(
            f"{folder} has no weights to convert: expected {PICKLED_NAME} or {PICKLED_INDEX}; {has}"
        )
    return names


def _shards(index: Path) -> list[str]:
    listing = read_json_object(index).get("weight_map")
    if not isinstance(listing, dict) or not listing:
        raise CheckpointError(f"{index} has no weight_map that says which file holds which tensor")
    names = sorted({str(name) for name in listing.values()})
    odd = [name for name in names if not _SHARD.fullmatch(name)]
    if odd:
        raise CheckpointError(
            f"{index} names {', '.join(odd)}; expected pytorch_model-00001-of-00002.bin and so on"
        )
    return names


def _safe_name(name: str) -> str:
    match = _SHARD.fullmatch(name)
    assert match is not None
    return f"model-{match.group(1)}.safetensors"


def _index(path: Path, pickled: dict[str, str]) -> dict[str, Any]:
    """The index of the shards with the names of the new files."""
    content = read_json_object(path)
    places = {tensor: pickled[str(name)] for tensor, name in content["weight_map"].items()}
    return {**content, "weight_map": places}


def _in_own_process(pairs: Sequence[tuple[Path, Path]]) -> list[dict[str, Any]]:
    """What the reading process says of the files that it has converted."""
    command = [sys.executable, "-P", "-m", "bothways.checkpoints.unpickling"]
    command += [str(path.resolve()) for pair in pairs for path in pair]
    # The same library as here, wherever it lies, and nothing from the working folder (-P).
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": root},
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        place = pairs[0][0] if len(pairs) == 1 else pairs[0][0].parent
        if done.returncode < 0 or "alloc" in done.stderr.lower():
            raise UnsafeFileError(out_of_memory(place))
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise CheckpointError(
            f"{place} could not be converted: the process that reads it ended with code "
            f"{done.returncode}: {last}"
        )
    results: list[dict[str, Any]] = json.loads(lines[-1])
    if "error" in results[-1]:
        raise KINDS[results[-1]["kind"]](results[-1]["error"])
    return results


def _check_torch(version: str) -> None:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < SAFE_TORCH:
        raise CheckpointError(
            f"torch {version} has a known hole in its reader of pickled weights (CVE-2026-24747); "
            f"converting needs torch {'.'.join(map(str, SAFE_TORCH))} or newer"
        )
