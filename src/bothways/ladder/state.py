"""What a choice has found out so far, a file each, so that a killed one goes on where it was."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.errors import CheckpointError, TrainingError
from bothways.files import read_json_object, write_json
from bothways.training.examples import Splits
from bothways.training.state import refuse_other_settings

# Of an example, what says where it stood and not what it is.
WHERE = ("place", "lines")


@dataclass
class Memory:
    """Stores what is found, and counts what it took.

    Attributes:
        deciding: settings and data, which must be the same when a choice goes on.
        spent: seconds of everything found so far, in this process and before.
    """

    deciding: Mapping[str, Any]
    spent: float = 0.0

    def recall(self, path: Path, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was found before, else what is found now, which is then stored.

        Args:
            path: of the file.
            find: makes JSON values.

        Raises:
            TrainingError: when it was found with other settings or data, or cannot be stored.
        """
        if path.exists():
            stored = read_json_object(path)
            refuse_other_settings(stored["settings"], self.deciding, path)
        else:
            begin = time.perf_counter()
            found = find()
            stored = {"found": found, "seconds": time.perf_counter() - begin}
            _write(path, stored | {"settings": self.deciding})
        self.spent += stored["seconds"]
        result: dict[str, Any] = stored["found"]
        return result


def fingerprint(splits: Splits) -> str:
    """A hash of all examples as read, wherever their files lie."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (splits.train, splits.dev or (), splits.test or ()):
        digest.update(f"{len(part)}".encode())
        for example in part:
            digest.update(repr(_content(example)).encode())
    return digest.hexdigest()


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same as JSON values, as it reads back from a file."""
    found: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return found


def _write(path: Path, value: dict[str, Any]) -> None:
    try:
        write_json(path, value)
    except CheckpointError as error:
        raise TrainingError(f"{error}; then go on with --resume") from error


def _content(example: Any) -> Iterable[Any]:
    return [
        getattr(example, field.name)
        for field in dataclasses.fields(example)
        if field.name not in WHERE
    ]
