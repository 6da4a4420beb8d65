"""Worker processes: none is forked, none outlives its parent, and a death is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bothways.data.units import Unit, UnitSettings, is_written, read_unit
from bothways.data.workers import write_units
from bothways.errors import DataError
from tests.data.corpora import documents, tokenizer

ENOUGH_SECONDS = 60

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="children are found through /proc"
)


def children(process: int) -> list[int]:
    """The processes that a process has started and not yet buried."""
    tasks = Path(f"/proc/{process}/task")
    lists = [task / "children" for task in tasks.iterdir()]
    return [int(word) for path in lists for word in path.read_text().split()]


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture
def settings(tmp_path: Path) -> UnitSettings:
    return UnitSettings(tmp_path, tokenizer().fingerprint, with_signatures=True)


def some(count: int) -> Iterator[Unit]:
    for number in range(count):
        yield Unit(number, "corpus.txt", documents()[number : number + 20])


def test_units_are_the_same_here_and_there(tmp_path: Path) -> None:
    both = []
    for workers in (1, 2):
        where = UnitSettings(tmp_path / str(workers), tokenizer().fingerprint, True)
        write_units(tokenizer(), some(4), where, workers=workers)
        both.append([where.path(number).read_bytes() for number in range(4)])
        assert all(is_written(unit, where) for unit in some(4))
    assert both[0] == both[1]
    rows = read_unit(where.path(0))
    assert rows.counts["documents"] == 20
    assert rows.column("signature").shape == (20, 128)


def test_workers_are_gone_afterwards(settings: UnitSettings) -> None:
    before = set(children(os.getpid()))
    seen: set[int] = set()
    write_units(
        tokenizer(), some(4), settings, workers=2,
        on_unit=lambda unit: seen.update(children(os.getpid())),
    )  # fmt: skip
    assert seen - before
    assert set(children(os.getpid())) <= before


def test_a_worker_that_dies_is_told_with_what_to_do(settings: UnitSettings) -> None:
    before = set(children(os.getpid()))

    def kill(unit: Unit) -> None:
        for process in set(children(os.getpid())) - before:
            os.kill(process, signal.SIGKILL)

    with pytest.raises(
        DataError, match=r"worker process died \(exit code -9\).*corpus\.txt.*--resume"
    ):
        write_units(tokenizer(), some(200), settings, workers=2, on_unit=kill)
    assert settings.path(0).exists() or settings.path(1).exists()


SCRIPT = """
import sys
from pathlib import Path
from bothways.data.units import Unit, UnitSettings
from bothways.data.workers import write_units
from bothways.tokenization.tokenizer import load_tokenizer
tokenizer = load_tokenizer(sys.argv[1])
settings = UnitSettings(Path(sys.argv[2]), tokenizer.fingerprint, False)
units = (Unit(number, "x", ("some text of a unit",) * 50) for number in range(1_000_000))
write_units(tokenizer, units, settings, workers=2)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path, project: Path) -> None:
    """No guard around the main part of a script is needed, and nothing is left behind."""
    tokenizer().save(tmp_path / "tokenizer")
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "tokenizer"), str(tmp_path / "units")]
    parent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(project / "src")})
    ends = time.monotonic() + ENOUGH_SECONDS
    while not list((tmp_path / "units").glob("unit-*.arrow")):
        assert parent.poll() is None
        assert time.monotonic() < ends
    started = children(parent.pid)
    assert len(started) == 2
    parent.kill()
    parent.wait()
    while any(map(is_running, started)):
        assert time.monotonic() < ends
