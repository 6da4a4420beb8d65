"""Three parts of labelled data that share no text: to learn from, to choose by, to judge on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bothways.data.splits import split
from bothways.errors import DataError, agreeing, counted
from bothways.ladder.settings import ChooseSettings
from bothways.tasks.task import Task
from bothways.training.examples import Splits

logger = logging.getLogger(__name__)

# 60 % to learn from, 20 % each to choose by and to judge on.
TEST_SHARE = 0.2
DEV_SHARE = 0.25


@dataclass(frozen=True)
class Divided:
    """The parts.

    Attributes:
        splits: with the task fitted to what is learned from.
        removed: examples that were taken out of what is learned from, because their text is one
            that chooses or judges.
        removed_dev: those that were taken out of what chooses, because their text judges.
    """

    splits: Splits
    removed: int = 0
    removed_dev: int = 0


def divide(settings: ChooseSettings, task: Task[Any]) -> Divided:
    """Read the files, cut what is to be cut, and take out what would leak.

    Args:
        settings: of the command.
        task: as made.

    Raises:
        DataError: for whatever is wrong with the files, or when nothing would be left.
    """
    files, seed, options = settings.files, settings.common.seed, settings.file_options

    def read(path: Path) -> list[Any]:
        return task.read(options.rows(path))

    if files.test is None:
        rest, test = _cut(read(files.whole), TEST_SHARE, seed)
    else:
        rest, test = read(files.whole), read(files.test)
    train, dev = _cut(rest, DEV_SHARE, seed) if files.dev is None else (rest, read(files.dev))
    known = set(map(_text, test))
    dev, removed_dev = _without(dev, known)
    train, removed = _without(train, known | set(map(_text, dev)))
    for count, where in ((removed, "--train"), (removed_dev, "what chooses (--dev)")):
        if count:
            logger.warning(
                "%s of %s %s taken out: the same text is judged on",
                counted(count, "example"),
                where,
                agreeing(count, "were"),
            )
    if not train or not dev:
        gone = "what is learned from" if not train else "--dev"
        raise DataError(
            f"every text of {gone} also stands in what is judged on, so nothing is left of it; "
            "give files with other texts, or --data alone, which is cut"
        )
    fitted = task.fit(train)
    for part in (dev, test):
        fitted.check(part)
    return Divided(Splits(fitted, train, dev, test), removed, removed_dev)


def _cut(examples: Sequence[Any], share: float, seed: int) -> tuple[list[Any], list[Any]]:
    return split(
        examples,
        dev_share=share,
        seed=seed,
        stratify=_if_all(examples, lambda example: getattr(example, "label", None), str),
        group=_groups(examples),
        texts=list(map(_text, examples)),
    )


def _if_all(examples: Sequence[Any], of: Callable[[Any], Any], kind: type) -> list[Any] | None:
    """What all examples have; None where one lacks it."""
    found = [of(example) for example in examples]
    return found if all(isinstance(each, kind) for each in found) else None


def _groups(examples: Sequence[Any]) -> list[Hashable] | None:
    if all(example.group is None for example in examples):
        return None
    return [
        number if example.group is None else str(example.group)
        for number, example in enumerate(examples)
    ]


def _text(example: Any) -> str:
    return f"{example.text}\0{example.pair or ''}"


def _without(examples: Sequence[Any], texts: set[str]) -> tuple[list[Any], int]:
    kept = [example for example in examples if _text(example) not in texts]
    return kept, len(examples) - len(kept)
