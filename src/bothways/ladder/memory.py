"""How much memory a piece of work takes: the growth of this process at its peak."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# Makes Linux count the peak anew; proc(5).
_PEAK_ANEW = "5"


def peak_of(work: Callable[[], Made]) -> tuple[Made, float | None]:
    """What a function returns, and by how many megabytes (10^6 bytes) the process grew meanwhile.

    Memory that the process holds and does not use is handed back first, so that using it again
    counts. Where the system cannot tell the peak (anything but Linux), it is None.

    Args:
        work: what is measured.
    """
    before = _begin()
    made = work()
    if before is None:
        return made, None
    return made, max(_megabytes("VmHWM") - before, 0.0)


def _begin() -> float | None:
    """Count the peak from now on; the memory in use, or None where that cannot be done."""
    gc.collect()
    # Another C library has no such function; what it holds is then counted as in use.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _RESET.write_text(_PEAK_ANEW)
        return _megabytes("VmRSS")
    except OSError:
        return None


def _megabytes(field: str) -> float:
    lines = _STATUS.read_text().splitlines()
    found = next(line for line in lines if line.startswith(f"{field}:"))
    return float(found.split()[1]) * 1024 / 1e6
