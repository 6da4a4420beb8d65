"""metrics.jsonl and events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bothways.errors import CheckpointError, MissingExtraError, UsageError
from bothways.training.recorder import LINE_KEYS, Event, Recorder, RunFinished


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_has_every_key_and_the_metrics_behind_them(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "metrics.jsonl")
    recorder.start()
    recorder.line({"step": 3, "split": "dev", "loss": 0.5}, {"accuracy": 0.75})
    (line,) = lines(tmp_path / "metrics.jsonl")
    assert list(line) == [*LINE_KEYS, "accuracy"]
    assert line["step"] == 3
    assert line["tokens"] is None
    assert line["accuracy"] == 0.75


def test_a_line_is_on_the_disk_at_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "metrics.jsonl")
    recorder.start()
    for step in range(3):
        recorder.line({"step": step})
        assert len(lines(tmp_path / "metrics.jsonl")) == step + 1


def test_going_on_drops_what_came_after_the_checkpoint_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    recorder = Recorder(path)
    recorder.start()
    for step in (10, 20, 30):
        recorder.line({"step": step})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 4')
    again = Recorder(path)
    again.start(20)
    assert [line["step"] for line in lines(path)] == [10, 20]
    again.line({"step": 30})
    assert [line["step"] for line in lines(path)] == [10, 20, 30]
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_new_run_starts_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    Recorder(tmp_path / "metrics.jsonl").start()
    assert lines(tmp_path / "metrics.jsonl") == []


def test_numbers_that_json_does_not_know_become_null(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "metrics.jsonl")
    recorder.start()
    recorder.line({"step": 1, "loss": float("nan")}, {"pearson": float("inf")})
    (line,) = lines(tmp_path / "metrics.jsonl")
    assert line["loss"] is None
    assert line["pearson"] is None


def test_a_line_that_cannot_be_written_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run" / "metrics.jsonl")
    recorder.start()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (tmp_path / "run").rmdir()
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl cannot be written: .*--resume"):
        recorder.line({"step": 1})


def test_events_are_passed_on() -> None:
    seen: list[Event] = []
    event = RunFinished("run", 12, 3.5, stopped_early=False)
    Recorder(None, on_event=seen.append).event(event)
    assert seen == [event]


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    recorder = Recorder(None)
    recorder.start()
    recorder.line({"step": 1})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'tensorboard'"):
        Recorder(tmp_path / "metrics.jsonl", trackers=("tensorbord",))


def test_a_tracker_that_is_not_installed_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"bothways\[track\]"):
        Recorder(tmp_path / "metrics.jsonl", trackers=("swanlab",))
