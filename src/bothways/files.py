"""Reading and writing of small files, so that a folder is never left half written.

Every file is written beside its place, synced to the disk and renamed, several of them as one
step (`Staged`): until all are complete, the old ones stand. Here: text, JSON and bytes, for every
part of the library. Weights are in `checkpoints/files.py`, which builds on this.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from bothways.errors import CheckpointError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_STAGING = ".writing-"


class Staged:
    """Files that replace those of a folder together, when the `with` block ends without an error.

    Args:
        folder: made when absent.

    Raises:
        CheckpointError: when the disk is full or the folder cannot be written; what stood in the
            folder before stands there still.

    Example:
        >>> with Staged(folder) as files:  # doctest: +SKIP
        ...     files.text("notes.txt", "complete or not at all")
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._stale: list[str] = []

    def __enter__(self) -> Staged:
        """Make the folder and a place beside the old files."""
        self._is_new = not self.folder.exists()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.folder))
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Move everything in, or leave everything as it was."""
        try:
            if error is None:
                self._move_in()
        except OSError as problem:
            raise _cannot_write(self.folder, problem) from problem
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)
            if self._is_new and not any(self.folder.iterdir()):
                self.folder.rmdir()
        if isinstance(error, OSError):
            raise _cannot_write(self.folder, error) from error

    def path(self, name: str) -> Path:
        """Where to write a file that becomes `folder/name`; for libraries that want a path."""
        place = self.staging / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def text(self, name: str, content: str) -> None:
        """Stage a text file, UTF-8 with plain line ends."""
        self.bytes(name, content.encode())

    def json(self, name: str, value: object) -> None:
        """Stage a JSON file, indented."""
        self.text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def bytes(self, name: str, content: bytes) -> None:
        """Stage a file of bytes."""
        with self.stream(name) as file:
            file.write(content)

    @contextmanager
    def stream(self, name: str) -> Iterator[BinaryIO]:
        """A file to write piece by piece."""
        with self.path(name).open("wb") as file:
            yield file

    def remove(self, name: str) -> None:
        """Delete an old file of the folder once the new ones are in; nothing if there is none."""
        self._stale.append(name)

    def _move_in(self) -> None:
        staged = sorted(path for path in self.staging.rglob("*") if path.is_file())
        # All of them reach the disk before the first of them replaces anything.
        for path in staged:
            _sync(path)
        folders = {self.folder}
        for path in staged:
            target = self.folder / path.relative_to(self.staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            folders.add(target.parent)
        for name in self._stale:
            (self.folder / name).unlink(missing_ok=True)
        for folder in folders:
            _sync(folder)


def write_text(path: str | Path, content: str) -> None:
    """Replace a text file in one step.

    Raises:
        CheckpointError: when it cannot be written; the old file is then intact.
    """
    with Staged(Path(path).parent) as files:
        files.text(Path(path).name, content)


def write_json(path: str | Path, value: object) -> None:
    """Replace a JSON file in one step. Raises as `write_text`."""
    with Staged(Path(path).parent) as files:
        files.json(Path(path).name, value)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Replace a file of bytes in one step. Raises as `write_text`."""
    with Staged(Path(path).parent) as files:
        files.bytes(Path(path).name, content)


def names_in(folder: Path) -> list[str]:
    """What is in the folder of an output, sorted; nothing where there is no folder.

    Raises:
        CheckpointError: when it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; the output must be a folder")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def remove_half_written(folder: Path) -> None:
    """Delete what a process that was killed while it wrote has left in a folder."""
    for leftover in folder.glob(f"{_STAGING}*"):
        shutil.rmtree(leftover)


def read_json(path: str | Path) -> Any:
    """The content of a JSON file.

    Raises:
        CheckpointError: when the file is absent or is not JSON, with its name and the place.
    """
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is not there") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path} is not UTF-8 (byte {error.start} is {error.object[error.start]:#04x}), so it "
            "is not JSON; fetch the file again"
        ) from error
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}; "
            "correct it or fetch the file again"
        ) from error


def read_json_object(path: str | Path) -> dict[str, Any]:
    """The content of a JSON file that holds an object.

    Raises:
        CheckpointError: as `read_json`, and when the file holds something else.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; expected an object")
    return value


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot_write(folder: Path, error: OSError) -> CheckpointError:
    reason = error.strerror or str(error)
    step = "check that it is a folder and that you may write there"
    if error.errno in _DISK_FULL:
        reason = f"the disk is full ({reason})"
        step = "free some space or choose another folder, and try again"
    return CheckpointError(
        f"{folder} cannot be written: {reason}. What stood there before is intact; {step}"
    )
