"""Running the command in this process, as a person would in another."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from bothways.cli.main import main

LEDGER_KEYS = {
    "texts",
    "texts_cut",
    "tokens",
    "tokens_cut",
    "end",
    "windows",
    "special_in_text",
    "dropped_characters",
    "targets_cut",
}


@dataclass(frozen=True)
class Done:
    """What a command left.

    Attributes:
        code: its exit code.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """Calls `bothways` with some words.

    Args:
        capsys: takes what is written.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object, code: int = 0) -> Done:
        """Run, and insist on the exit code."""
        self._capsys.readouterr()
        given = main([str(word) for word in words])
        written = self._capsys.readouterr()
        done = Done(given, written.out, written.err)
        assert given == code, f"exit code {given}, not {code}:\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err
        return done

    def fails(self, *words: object, code: int = 1, parts: Sequence[str] = ()) -> str:
        """Run what must fail; its message is one, on standard error, and has these parts."""
        done = self(*words, code=code)
        message = done.err
        assert message.count("error: ") == 1, message
        for part in parts:
            assert part in message, f"{part!r} is not in:\n{message}"
        return message


@contextmanager
def undisturbed() -> Iterator[None]:
    """What a command changes for its whole process is as before afterwards: logging, threads."""
    logger = logging.getLogger("bothways")
    before = logger.handlers[:], logger.level, logger.propagate
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
        torch.set_num_threads(threads)
