"""Run as a process of its own: pickled weight files in, safetensors files out.

    python -P -m bothways.checkpoints.unpickling OLD.bin NEW.safetensors ...

torch's reader takes tensors only and refuses everything else that a pickle can ask for. Should it
have a hole, this process is all there is to reach: it has no other task and little memory, and
nothing of the file's content goes back to its parent but names. The parent is `convert.py`.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bothways.checkpoints.files import DTYPES, write_tensors
from bothways.errors import CheckpointError, UnsafeFileError

SPARE = 1 << 30  # bytes beyond twice the file: what reading takes besides the tensors
# A file may hold less than its tensors, where several are the same; no more than this many times.
TIMES_LARGER = 4
KINDS: dict[str, type[CheckpointError]] = {
    "unsafe": UnsafeFileError,
    "unreadable": CheckpointError,
}
# The first release in which no way is known around the weights-only reader (CVE-2026-24747).
SAFE_TORCH = (2, 10)


def main(arguments: list[str]) -> int:
    """Convert files, given as old and new in turn.

    What came of them is one line of JSON on standard output: an object for each, the last of
    which may name an error.
    """
    paths = [Path(argument) for argument in arguments]
    pairs = list(zip(paths[::2], paths[1::2], strict=True))
    limit_resources(max(source.stat().st_size for source, _ in pairs))
    results = []
    for source, target in pairs:
        try:
            results.append(unpickle(source, target))
        except tuple(KINDS.values()) as error:
            kind = next(kind for kind, cls in KINDS.items() if type(error) is cls)
            results.append({"kind": kind, "error": str(error)})
            break
        except MemoryError:
            results.append({"kind": "unsafe", "error": out_of_memory(source)})
            break
    sys.stdout.write(json.dumps(results) + "\n")
    return 0


def unpickle(source: Path, target: Path) -> dict[str, Any]:
    """Read the tensors of a pickled file and write them as safetensors.

    Returns:
        Names of the tensors, and of what else the file holds.

    Raises:
        UnsafeFileError: when the file asks for anything but tensors.
        CheckpointError: when it is damaged or holds tensors of unknown kinds.
    """
    size = source.stat().st_size
    try:
        content: object = torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnsafeFileError(
            f"{source} asks for more than tensors, so it was not opened: {_first_line(error)}. "
            "Take the model from somewhere else, or ask its author for safetensors"
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, AttributeError) as error:
        if "alloc" in str(error).lower() or "memory" in str(error).lower():
            raise MemoryError from error
        raise CheckpointError(
            f"{source} cannot be read: {_first_line(error)}; fetch it again"
        ) from error
    tensors, others = _tensors(content, source)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if total > TIMES_LARGER * size:
        raise UnsafeFileError(
            f"{source} has {size:,} bytes and says that it holds {total:,}; it was not converted"
        )
    with target.open("wb") as file:
        write_tensors(file, tensors)
    return {"tensors": sorted(tensors), "others": others}


def limit_resources(size: int) -> None:
    """Let this process have twice a file's size and some spare memory from now on.

    On systems that know no such limit nothing happens.
    """
    try:
        import resource
    except ImportError:
        return
    status = Path("/proc/self/statm")
    if status.exists():
        in_use = int(status.read_text().split()[0]) * resource.getpagesize()
        most = in_use + 2 * size + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    most = TIMES_LARGER * size + SPARE
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def out_of_memory(source: Path) -> str:
    """What to say of a file that takes more memory than it may."""
    return (
        f"{source} takes more memory than twice its size, which no honest file of weights does; "
        "it was not converted"
    )


def _tensors(content: object, source: Path) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of a file by name, and the names of everything else."""
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{source} holds a {type(content).__name__}; expected names with tensors, as "
            "transformers writes them"
        )
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        names = ", ".join(map(str, list(content)[:8]))
        raise CheckpointError(
            f"{source} holds no tensors, but: {names or 'nothing'}; expected the weights alone, "
            "without the state of a training"
        )
    odd = [
        f"{name} ({str(tensor.dtype).removeprefix('torch.')}, {tensor.layout})"
        for name, tensor in tensors.items()
        if tensor.dtype not in DTYPES or tensor.layout is not torch.strided
    ]
    if odd:
        raise CheckpointError(
            f"{source} holds {len(odd)} tensors of a kind that safetensors cannot hold: "
            f"{', '.join(odd[:5])}"
        )
    return tensors, [str(name) for name in content if str(name) not in tensors]


def _first_line(error: Exception) -> str:
    """The reason without torch's advice to read the file unsafely."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "GLOBAL" in line or "Unsupported" in line] or lines
    return told[0].rstrip(".") if told else type(error).__name__


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
