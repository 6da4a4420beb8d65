"""What a person sees while something runs: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bothways.cli.progress import counting
from bothways.cli.training import follow
from bothways.training.recorder import (
    CheckpointSaved,
    Evaluated,
    Event,
    RunFinished,
    RunStarted,
    StepDone,
)


@contextmanager
def terminal(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Standard error is a terminal inside; afterwards the list has what it showed."""
    shown: list[str] = []
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as stream, patch.context() as inside:
        inside.setattr("sys.stderr", stream)
        inside.setenv("TERM", "xterm")
        inside.setenv("COLUMNS", "160")
        yield shown
    pieces: list[bytes] = []
    # Where nobody can write any more, reading ends with an error.
    with contextlib.suppress(OSError):
        while piece := os.read(leader, 1 << 20):
            pieces.append(piece)
    os.close(leader)
    shown.append(b"".join(pieces).decode())


STARTED = RunStarted("lr-5e-05-seed-0", 1, 1, 0, 1200, 3)
STEP = StepDone(
    step=40,
    steps=1200,
    epoch=1,
    loss=0.51234,
    learning_rate=5e-5,
    tokens_per_second=12_345.6,
    seconds_left=3_725.0,
)
EVALUATED = Evaluated(400, 1, "dev", {"accuracy": 0.75, "loss": 0.5}, True)
FINISHED = RunFinished("lr-5e-05-seed-0", 800, 65.0, True)
SAVED = CheckpointSaved(400, Path("out/checkpoints/step-00000400"))
STORY: list[Event] = [STARTED, STEP, EVALUATED, SAVED, FINISHED]


def test_a_bar_shows_loss_speed_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, follow() as on_event:
        for event in STORY:
            on_event(event)
    page = "".join(shown)
    for part in (
        "1,200 steps",
        "epoch 1  40/1200  loss 0.512  12,346 tokens/s  1:02:05 left",
        "epoch 1, step 400, dev: accuracy 0.7500  loss 0.5000  (best so far)",
        "800 steps in 1:05, stopped early",
    ):
        assert part in page, page


def test_without_a_terminal_it_is_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="bothways"), follow() as on_event:
        for event in STORY:
            on_event(event)
    assert [record.getMessage() for record in caplog.records] == [
        "1,200 steps",
        "epoch 1, step 400, dev: accuracy 0.7500  loss 0.5000  (best so far)",
        "800 steps in 1:05, stopped early",
    ]


def test_steps_are_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="bothways"), follow(quiet_seconds=0) as on_event:
        on_event(STEP)
    assert caplog.records[0].getMessage() == (
        "epoch 1  40/1200  loss 0.512  12,346 tokens/s  1:02:05 left"
    )


def test_without_epochs_none_are_told(caplog: pytest.LogCaptureFixture) -> None:
    step = dataclasses.replace(STEP, epoch=0, loss=None, seconds_left=None)
    with caplog.at_level(logging.INFO, logger="bothways"), follow(quiet_seconds=0) as on_event:
        on_event(step)
        on_event(Evaluated(7, 0, "dev", {"loss": 2.0}, None))
    assert [record.getMessage() for record in caplog.records] == [
        "40/1200  12,346 tokens/s",
        "step 7, dev: loss 2.0000",
    ]


def test_runs_of_a_grid_are_numbered_and_resumed_ones_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="bothways"), follow() as on_event:
        on_event(RunStarted("lr-3e-05-seed-1", 2, 6, 70, 1200, 3))
    assert caplog.records[0].getMessage() == (
        "run 2 of 6 (lr-3e-05-seed-1): 1,200 steps, resumed at step 70"
    )


@pytest.mark.parametrize("total", [None, 30])
def test_counting_adds_up_on_a_terminal(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, counting("texts", total) as count:
        count(10)
        count(20)
    assert "texts" in "".join(shown)
    if total:
        assert "30/30" in "".join(shown)


def test_counting_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with counting("texts", 3) as count:
        count(3)
    assert stream.getvalue() == ""
