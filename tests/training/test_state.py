"""Checkpoints: what they hold, and that a run goes on from them exactly."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from bothways.errors import CheckpointError, TrainingError
from bothways.training.optim import adamw
from bothways.training.recorder import StepDone
from bothways.training.state import CheckpointStore, Progress, named_tensors
from tests.training.runs import ToyRun, same_bits
from tests.training.tiny import Killed, kill_after


def dropped(folder: Path, dropout: float = 0.3) -> ToyRun:
    plan = {"checkpoint_every": 3, "seed": 7}
    return ToyRun(folder=folder, dropout=dropout, micro_batches=2, plan=plan)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[ToyRun, Progress]:
    """A run that nothing interrupted."""
    run = dropped(tmp_path_factory.mktemp("straight"))
    return run, run.run()


def test_dropout_is_on(straight: tuple[ToyRun, Progress], tmp_path: Path) -> None:
    """Without this the next test would prove nothing about random numbers."""
    without = dropped(tmp_path, dropout=0.0)
    without.run()
    assert not same_bits(straight[0].weights(), without.weights())


@pytest.mark.parametrize("step", range(1, 12))
def test_a_killed_run_ends_with_the_bits_of_the_straight_one(
    step: int, straight: tuple[ToyRun, Progress], tmp_path: Path
) -> None:
    """transformers#11323, #8874, #11294: a resumed run gave substantially different results."""
    first = dropped(tmp_path)
    first.on_event = kill_after(step)
    with pytest.raises(Killed):
        first.run()
    second = dropped(tmp_path)
    steps: list[int] = []
    second.on_event = lambda event: (
        steps.append(event.step) if isinstance(event, StepDone) else None
    )
    progress = second.run()
    assert steps == list(range(step // 3 * 3 + 1, 13))  # only what the checkpoint lacks
    assert same_bits(second.weights(), straight[0].weights())
    assert progress.tokens == straight[1].tokens
    assert lines(tmp_path) == lines(straight[0].folder)


def lines(folder: Path | None) -> list[tuple[int, float]]:
    assert folder is not None
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [(line["step"], line["loss"]) for line in map(json.loads, text.splitlines())]


def test_the_best_and_the_count_of_bad_evaluations_survive_a_kill(tmp_path: Path) -> None:
    def run() -> ToyRun:
        plan = {"metric": "accuracy", "direction": 1, "patience": 3, "checkpoint_every": 1}
        return ToyRun(folder=tmp_path, epochs=6, plan=plan)

    def evaluate(*values: float) -> dict[str, float]:
        return {"accuracy": values[0]}

    first, given = run(), iter([0.9, 0.5])
    first.evaluate = lambda: evaluate(next(given))
    first.on_event = kill_after(13)
    with pytest.raises(Killed):
        first.run()
    second, given = run(), iter([0.6, 0.7, 0.95])
    second.evaluate = lambda: evaluate(next(given))
    progress = second.run()
    assert (progress.best, progress.best_step) == (0.9, 6)
    assert progress.stopped_early
    assert progress.step == 24  # 0.5, 0.6 and 0.7 were no better


# --- the folder -------------------------------------------------------------------------------


def store_with(folder: Path, *, steps: int = 5, best_step: int = 0) -> CheckpointStore:
    store = CheckpointStore(folder, settings={}, keep=2)
    module = nn.Linear(2, 2)
    optimizer = adamw(module, learning_rate=0.1)
    for step in range(1, steps + 1):
        store.save(module, optimizer, Progress(step=step, best_step=min(best_step, step)))
    return store


def test_the_newest_and_the_best_stay(tmp_path: Path) -> None:
    assert store_with(tmp_path).steps() == [4, 5]
    assert store_with(tmp_path / "best", best_step=2).steps() == [2, 4, 5]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000004",
        "step-00000005",
    ]


def test_a_checkpoint_is_tensors_and_json(tmp_path: Path) -> None:
    """pytorch CVE-2025-32434: files that torch.load opens can run code."""
    store = store_with(tmp_path)
    files = {path.name for path in store.path(5).iterdir()}
    assert files == {"weights.safetensors", "optimizer.safetensors", "state.json"}


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    """transformers#12426: a tied decoder was missing or random after reloading."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4)
            self.output = nn.Linear(4, 5)
            self.output.weight = self.table.weight

    module, other = Tied(), Tied()
    assert list(named_tensors(module)) == ["table.weight", "output.bias"]
    store = CheckpointStore(tmp_path, settings={})
    store.save(module, adamw(module, learning_rate=0.1), Progress(step=1))
    store.load_weights(other, 1)
    assert torch.equal(other.output.weight, module.table.weight)
    assert other.output.weight is other.table.weight


def test_what_a_killed_save_left_is_not_taken_for_a_checkpoint(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    torn = [tmp_path / "checkpoints" / f".step-0000000{step}.tmp" for step in (6, 9)]
    for folder in torn:
        folder.mkdir()
        (folder / "weights.safetensors").write_bytes(b"half")
    assert store.steps() == [4, 5]
    module = nn.Linear(2, 2)
    store.save(module, adamw(module, learning_rate=0.1), Progress(step=6))
    assert store.steps() == [5, 6]
    assert not any(folder.exists() for folder in torn)


def test_without_a_checkpoint_a_run_is_at_its_start(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    store = CheckpointStore(tmp_path, settings={})
    assert store.restore(module, adamw(module, learning_rate=0.1)) == Progress()


# --- what is refused --------------------------------------------------------------------------


def test_other_settings_are_refused_with_every_difference(tmp_path: Path) -> None:
    settings = {"seed": 0, "optim": {"learning_rate": 1e-2, "clip": 1.0}}
    ToyRun(folder=tmp_path, settings=settings, plan={"checkpoint_every": 3}).run()
    other = {"seed": 0, "optim": {"learning_rate": 3e-2}, "extra": True}
    with pytest.raises(TrainingError) as error:
        ToyRun(folder=tmp_path, settings=other).run()
    message = str(error.value)
    assert "optim.learning_rate was 0.01, is 0.03" in message
    assert "optim.clip was 1.0, is 'not set'" in message
    assert "extra was 'not set', is True" in message
    assert "seed" not in message


def test_another_model_is_refused_with_every_tensor(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    with pytest.raises(CheckpointError) as error:
        store.load_weights(nn.Sequential(nn.Linear(3, 2)), 5)
    assert "0.weight is missing" in str(error.value)
    assert "bias is not in the model" in str(error.value)
    with pytest.raises(CheckpointError, match=r"weight has shape \(2, 2\), expected \(2, 3\)"):
        store.load_weights(nn.Linear(3, 2), 5)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_truncated_file_is_named(name: str, tmp_path: Path) -> None:
    store = store_with(tmp_path)
    path = store.path(5) / name
    path.write_bytes(path.read_bytes()[:40])
    module = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match=name):
        store.restore(module, adamw(module, learning_rate=0.1))


@contextmanager
def disk_with_room_for(size: int) -> Iterator[None]:
    """No file can grow beyond a size, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    run = ToyRun(folder=tmp_path, plan={"checkpoint_every": 3})
    run.on_event = kill_after(4)
    with pytest.raises(Killed):
        run.run()
    with disk_with_room_for(20_000), pytest.raises(CheckpointError) as error:
        ToyRun(folder=tmp_path, plan={"checkpoint_every": 3}).run()
    assert "step-00000003" in str(error.value)
    assert "--resume" in str(error.value)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000003"]
    again = ToyRun(folder=tmp_path, plan={"checkpoint_every": 3})
    again.run()
    straight = ToyRun(plan={"checkpoint_every": 3})
    straight.run()
    assert same_bits(again.weights(), straight.weights())
