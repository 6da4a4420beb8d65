"""Processes that tokenise units, each a fresh interpreter that talks through its pipes.

Nothing is forked, so it does not matter which threads this process has started (the engine's,
torch's), and no script needs a guard around its main part. A worker ends with its input: when this
process is killed, the workers end too. What they do is `write_unit`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from bothways.data.units import Unit, UnitSettings, write_unit
from bothways.errors import BothwaysError, DataError
from bothways.tokenization.forks import SWITCH
from bothways.tokenization.tokenizer import Tokenizer


def write_units(
    tokenizer: Tokenizer,
    units: Iterator[Unit],
    settings: UnitSettings,
    *,
    workers: int,
    on_unit: Callable[[Unit], None] | None = None,
) -> None:
    """Tokenise units into their files.

    Args:
        tokenizer: reads them.
        units: asked for one at a time, from several threads but never at once.
        settings: of the files.
        workers: processes; 1 is this one, whose engine then uses all its threads.
        on_unit: called for each unit when its file is written, never at once.

    Raises:
        DataError: what the units raise or reading them does, and when a worker dies.
    """
    if workers == 1:
        for unit in units:
            write_unit(tokenizer, unit, settings)
            if on_unit is not None:
                on_unit(unit)
        return
    lock = threading.Lock()
    failed = threading.Event()

    def work() -> None:
        with _Worker(tokenizer, settings) as worker:
            while True:
                with lock:
                    unit = None if failed.is_set() else next(units, None)
                if unit is None:
                    return
                worker.write(unit)
                if on_unit is not None:
                    with lock:
                        on_unit(unit)

    def guarded() -> None:
        try:
            work()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(guarded) for _ in range(workers)]
        try:
            for future in futures:
                future.result()
        finally:
            failed.set()


class _Worker:
    """A process that writes units until its input ends."""

    def __init__(self, tokenizer: Tokenizer, settings: UnitSettings) -> None:
        self._setup: tuple[Tokenizer, UnitSettings] | None = (tokenizer, settings)

    def __enter__(self) -> _Worker:
        # As many workers as there are cores: each reads in one thread.
        path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from bothways.data.workers import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, SWITCH: "false", "PYTHONPATH": path},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        return self

    def write(self, unit: Unit) -> None:
        try:
            if self._setup is not None:
                pickle.dump(self._setup, self._input)
                self._setup = None
            pickle.dump(unit, self._input)
            self._input.flush()
            answer = pickle.load(self._output)  # noqa: S301 - from our own child
        except (BrokenPipeError, EOFError) as error:
            raise DataError(
                f"a worker process died (exit code {self._process.wait()}) while it read documents "
                f"of {unit.source}; what is finished is kept: go on with --resume, and with fewer "
                "--workers if memory was short"
            ) from error
        if isinstance(answer, BothwaysError):
            raise answer

    def __exit__(self, *error: object) -> None:
        self._process.kill() if error[0] else None
        self._input.close()
        self._process.wait()
        self._output.close()


def serve() -> None:
    """What a worker does: read units from standard input, answer each on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints by mistake must not reach the answers
    _answer(sys.stdin.buffer, answers)


def _answer(requests: BinaryIO, answers: BinaryIO) -> None:
    try:
        tokenizer, settings = pickle.load(requests)  # noqa: S301 - from our own parent
        while True:
            unit = pickle.load(requests)  # noqa: S301
            answer: BothwaysError | None = None
            try:
                write_unit(tokenizer, unit, settings)
            except BothwaysError as error:
                answer = error
            pickle.dump(answer, answers)
            answers.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
