"""Forking a process that has used the tokenizer engine's threads.

The engine's thread pool does not survive a fork: a child that waits for it hangs, or the engine
prints a warning. The switch is an environment variable that it reads at each call; it is off at
the moment of a fork and stays off in the child, which then reads texts in its own thread.
"""

from __future__ import annotations

import functools
import os

SWITCH = "TOKENIZERS_PARALLELISM"


@functools.cache
def guard_forks() -> None:
    """Turn the engine's threads off in every child forked from now on; once a process."""
    if not hasattr(os, "register_at_fork"):  # no fork on this system
        return
    before: list[str | None] = []

    def close() -> None:
        before.append(os.environ.get(SWITCH))
        os.environ[SWITCH] = "false"

    def reopen() -> None:
        value = before.pop()
        if value is None:
            os.environ.pop(SWITCH, None)
        else:
            os.environ[SWITCH] = value

    os.register_at_fork(before=close, after_in_parent=reopen)
