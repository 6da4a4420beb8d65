"""Every error this library raises on purpose, as one tree.

Each says what was wrong, the value, what was expected and the next step. The command line prints
any of them as one message and exits with 1; UsageError exits with 2.

    BothwaysError
    ├── UsageError            an unknown name or an impossible combination of settings
    ├── ConfigError           a model configuration that cannot be built
    │   └── LengthError       a text longer than the positions of the model
    ├── CheckpointError       a model folder that cannot be read or written
    │   ├── UnsafeFileError   weights in a format that can run code
    │   └── UnsupportedModelError   a family or an option that is not built here
    ├── TokenizerError        a tokenizer that is missing, incomplete or does not fit its model
    ├── DataError             a data file with something wrong, with file and line
    │   └── ColumnError       a data file without a column that was named
    ├── UntrainedHeadError    a prediction asked of a head whose weights are random
    ├── TaskError             something asked of a model that it cannot do
    │   └── NotAsked          a question that cannot be asked of this model and data
    ├── TrainingError         a run that cannot start, go on or resume
    │   ├── BadStepError      a step whose loss is not finite or has jumped
    │   └── RunStopped        a run that was asked to stop and has saved itself; exit code 143
    └── MissingExtraError     an optional library that is not installed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BothwaysError(Exception):
    """The root of all errors raised on purpose; its text is meant for the user."""


class UsageError(BothwaysError):
    """An unknown name or an impossible combination of settings."""


class ConfigError(BothwaysError):
    """A model configuration that cannot be built."""


class LengthError(ConfigError):
    """A text longer than the positions of the model."""


class CheckpointError(BothwaysError):
    """A model folder that cannot be read or written."""


class UnsafeFileError(CheckpointError):
    """Weights in a format that can run code when opened."""


class UnsupportedModelError(CheckpointError):
    """A family or an option that is not built here."""


class TokenizerError(BothwaysError):
    """A tokenizer that is missing, incomplete or does not fit its model."""


class DataError(BothwaysError):
    """A data file with something wrong in it; the message names file and line."""


class ColumnError(DataError):
    """A data file that does not have a column that was named, by a flag or by a stored model."""


class UntrainedHeadError(BothwaysError):
    """A prediction asked of a head whose weights are random."""


class TaskError(BothwaysError):
    """Something asked of a model that it cannot do."""


class NotAsked(TaskError):  # noqa: N818 - no failure: the report says why
    """A question that cannot be asked of this model and data; the message says why."""


class TrainingError(BothwaysError):
    """A run that cannot start, go on or resume."""


class BadStepError(TrainingError):
    """A step whose loss or gradient is not finite, or whose loss has jumped.

    Args:
        message: which step, which batch, what to do.
        step: its number, from 0.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class RunStopped(TrainingError):  # noqa: N818 - no failure: it was asked to
    """A run that was asked to stop and has saved itself; the message says how to go on."""


class MissingExtraError(BothwaysError):
    """An optional library that is not installed.

    Args:
        library: the name to import.
        extra: the extra of this package that brings it.
    """

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"this needs {library}, which is not installed: pip install 'bothways[{extra}]'"
        )


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number of things, of which there may be one.

    Example:
        >>> counted(1, "tensor"), counted(2, "tensor"), counted(0, "query", "queries")
        ('1 tensor', '2 tensors', '0 queries')
    """
    return f"{count} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def agreeing(count: int, verb: str) -> str:
    """A verb ("are", "were" or "have") in the number of what it is said of.

    Example:
        >>> agreeing(1, "were"), agreeing(2, "were")
        ('was', 'were')
    """
    return {"are": "is", "were": "was", "have": "has"}[verb] if count == 1 else verb


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the known word closest to a mistyped one, or all of them.

    Those that begin with the whole of it and a dash are the closest.

    Example:
        >>> nearest("lerning_rate", ["learning_rate", "epochs"])
        "did you mean 'learning_rate'?"
        >>> nearest("--lora", ["--format", "--lora-alpha", "--lora-rank"])
        "did you mean '--lora-alpha' or '--lora-rank'?"
    """
    words = sorted(known)
    longer = (f"{name}-", f"{name}_")
    begun = [word for word in words if name.strip("-") and word.startswith(longer)]
    close = begun or difflib.get_close_matches(name, words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return "known: " + ", ".join(words)
