"""Weights in safetensors files: memory-mapped reading, streamed and sharded writing.

Weights in formats that can run code when opened are refused by name. Text and JSON are in
`bothways.files`, whose writers are also offered here; what the tensors mean is in `load.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bothways.errors import CheckpointError, UnsafeFileError
from bothways.files import (
    Staged,
    read_json,
    read_json_object,
    write_bytes,
    write_json,
    write_text,
)

__all__ = [
    "DEFAULT_SHARD_SIZE",
    "DTYPES",
    "EXPORT_NAME",
    "FLOATS",
    "HEAD_NAME",
    "INDEX_NAME",
    "INT8_NAME",
    "WEIGHTS_NAME",
    "Staged",
    "WeightFiles",
    "find_weights",
    "read_json",
    "read_json_object",
    "stage_weights",
    "write_bytes",
    "write_json",
    "write_safetensors",
    "write_tensors",
    "write_text",
]

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
HEAD_NAME = "head.safetensors"
# Weights of layers that run in int8, beside the float ones.
INT8_NAME = "int8.safetensors"
# Says what the graph beside it is, in a folder that was exported for another engine.
EXPORT_NAME = "export.json"
DEFAULT_SHARD_SIZE = 5_000_000_000

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
_LFS_POINTER = b"version https://git-lfs"
_ALIGNMENT = 64
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
FLOATS = {name for dtype, name in DTYPES.items() if dtype.is_floating_point}


class WeightFiles:
    """The tensors of one or several safetensors files, read from the disk when they are used.

    Args:
        paths: the files; no tensor may stand in two of them.

    Attributes:
        shapes: of every tensor, by name.
        dtypes: number format of every tensor, as the file format spells it.

    Raises:
        CheckpointError: when a file is truncated, corrupt or no safetensors file.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        self._file_of: dict[str, Any] = {}
        for path in self.paths:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            file: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from error
        for name in file.keys():  # noqa: SIM118 - not a dictionary
            if name in self.shapes:
                raise CheckpointError(f"{path}: the tensor {name} stands in another file too")
            piece = file.get_slice(name)
            self.shapes[name] = tuple(piece.get_shape())
            self.dtypes[name] = piece.get_dtype()
            self._file_of[name] = file

    def tensor(self, name: str) -> Tensor:
        """A tensor over the memory-mapped file; writing into it does not change the file."""
        tensor: Tensor = self._file_of[name].get_tensor(name)
        return tensor

    @property
    def place(self) -> str:
        """The file, or the folder of several, for messages."""
        return str(self.paths[0] if len(self.paths) == 1 else self.paths[0].parent)


def find_weights(folder: Path) -> WeightFiles:
    """Open the weights of a model folder.

    Raises:
        UnsafeFileError: when there are none but in formats that can run code.
        CheckpointError: when there are none at all, a shard is missing or a file is corrupt.
    """
    if (folder / WEIGHTS_NAME).exists():
        return WeightFiles([folder / WEIGHTS_NAME])
    if (folder / INDEX_NAME).exists():
        return _open_shards(folder)
    if (folder / EXPORT_NAME).exists():
        raise CheckpointError(
            f"{folder} was exported for another engine and has no weights: predict, embed and "
            "evaluate run it; for anything else use the model that it was exported from"
        )
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        raise UnsafeFileError(
            f"{folder} has its weights in {', '.join(pickled)} only. Opening such a file can run "
            f"code that is hidden in it, so it is not opened. Convert it first, in a process of "
            f"its own: bothways convert {folder} NEW"
        )
    raise CheckpointError(
        f"{folder} has no weights: neither {WEIGHTS_NAME} nor {INDEX_NAME} is there. Where a model "
        "of the hub has pytorch_model.bin only, fetch and convert it: bothways convert NAME NEW"
    )


def _open_shards(folder: Path) -> WeightFiles:
    index = folder / INDEX_NAME
    listing = read_json_object(index).get("weight_map")
    if not isinstance(listing, dict) or not listing:
        raise CheckpointError(f"{index} has no weight_map that says which file holds which tensor")
    names = sorted({str(name) for name in listing.values()})
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names files outside its folder: {', '.join(outside)}")
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        raise CheckpointError(
            f"{folder} lacks {len(absent)} of {len(names)} weight files that {INDEX_NAME} names: "
            f"{', '.join(absent)}; fetch them again"
        )
    weights = WeightFiles(folder / name for name in names)
    lost = sorted(set(listing) - set(weights.shapes))
    if lost:
        raise CheckpointError(
            f"{index} names tensors that are in none of its files: {', '.join(lost[:5])}"
            f"{', ...' * (len(lost) > 5)}; fetch the files again"
        )
    return weights


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError as problem:
        return CheckpointError(f"{path} cannot be read: {problem.strerror}")
    if pointer:
        return CheckpointError(
            f"{path} is a Git LFS pointer and not the weights themselves; run `git lfs pull` there"
        )
    return CheckpointError(
        f"{path} ({size:,} bytes) is truncated or corrupt: {error}. Fetch or copy it again"
    )


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Replace a safetensors file in one step, without a second copy of the weights in memory.

    Args:
        path: the file.
        tensors: by name; shared storage is written once for each name.
        metadata: added to `format: pt`.

    Raises:
        CheckpointError: when it cannot be written; the old file is then intact.
    """
    with Staged(Path(path).parent) as files, files.stream(Path(path).name) as file:
        write_tensors(file, tensors, metadata)


def write_tensors(
    file: BinaryIO, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write the safetensors format: length of the header, header, then tensor after tensor.

    Wide types come first and the data starts at a multiple of 64 bytes, so that every tensor is
    aligned for the processor when the file is mapped.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in order:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        file.write(flat.view(torch.uint8).numpy().data)


def stage_weights(
    files: Staged, tensors: Mapping[str, Tensor], max_shard_size: int = DEFAULT_SHARD_SIZE
) -> None:
    """Stage the weights of a model, in one file or in numbered shards with an index.

    Weight files of the other form that stand in the folder are removed when the new ones are in.

    Args:
        files: the folder.
        tensors: by name.
        max_shard_size: bytes of one file; a larger tensor gets a file of its own.
    """
    shards: list[dict[str, Tensor]] = [{}]
    room = max_shard_size
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if size > room and shards[-1]:
            shards.append({})
            room = max_shard_size
        shards[-1][name] = tensor
        room -= size
    old = {path.name for path in files.folder.glob("model-*-of-*.safetensors")}
    old |= {WEIGHTS_NAME, INDEX_NAME}
    if len(shards) == 1:
        names = [WEIGHTS_NAME]
    else:
        count = len(shards)
        names = [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        places = {
            tensor: file for file, shard in zip(names, shards, strict=True) for tensor in shard
        }
        files.json(INDEX_NAME, {"metadata": {"total_size": total}, "weight_map": places})
    for file_name, shard in zip(names, shards, strict=True):
        with files.stream(file_name) as file:
            write_tensors(file, shard)
    for stale in sorted(old - {*names, INDEX_NAME} if len(shards) > 1 else old - {*names}):
        files.remove(stale)
