"""Writing a .npy file row by row, in one step as far as a reader can see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bothways.errors import UsageError
from bothways.files import Staged

Write = Callable[[NDArray[np.float32]], None]


@contextmanager
def npy_writer(path: Path, *, overwrite: bool = False) -> Iterator[Write]:
    """A function that appends rows to a float32 matrix; the file appears when the block ends.

    Args:
        path: the .npy file; its folder is made when absent.
        overwrite: whether it may exist.

    Raises:
        UsageError: when it exists, or is not called .npy.
        CheckpointError: when it cannot be written; what was there before stays.
    """
    if path.suffix != ".npy":
        raise UsageError(f"the output is {path}; expected a name that ends in .npy")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists; give another name, or --overwrite to replace it")
    rows, width = 0, 0
    with Staged(path.parent) as files, files.stream(path.name) as stream:
        stream.write(_header(0, 0))

        def write(part: NDArray[np.float32]) -> None:
            nonlocal rows, width
            rows, width = rows + len(part), part.shape[1]
            stream.write(np.ascontiguousarray(part, dtype="<f4").tobytes())

        yield write
        # numpy pads headers so that a larger count fits in the same place.
        stream.seek(0)
        stream.write(_header(rows, width))


def _header(rows: int, width: int) -> bytes:
    stream = BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()
