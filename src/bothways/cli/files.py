"""Output files: is there room for one, and a .npy file that is written row by row.

Whatever is written appears in one step as far as a reader can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bothways.errors import CheckpointError, UsageError
from bothways.files import Staged

Write = Callable[[NDArray[np.float32]], None]


def claim(path: Path, *, overwrite: bool, source: Path, suffix: str = "") -> None:
    """Make sure that an output may be written, before the work is done.

    Args:
        path: of the output.
        overwrite: whether it may exist.
        source: what is read, which is never replaced.
        suffix: that its name must have.

    Raises:
        UsageError: when it is named otherwise.
        CheckpointError: when it is a folder, the input, or exists and may not be replaced.
    """
    if not path.name.endswith(suffix):
        raise UsageError(f"the output is {path}; expected a name that ends in {suffix}")
    if path.is_dir():
        raise CheckpointError(f"the output {path} is a folder; give the name of a file")
    if path.exists() and source.exists() and path.samefile(source):
        raise CheckpointError(f"{path} is the input too; give the output another name")
    if path.exists() and not overwrite:
        raise CheckpointError(f"{path} exists; give another name, or --overwrite to replace it")


@contextmanager
def npy_writer(path: Path) -> Iterator[Write]:
    """A function that appends rows to a float32 matrix; the file appears when the block ends.

    Args:
        path: the .npy file; its folder is made when absent, and an old file replaced.

    Raises:
        CheckpointError: when it cannot be written; what was there before stays.
    """
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
