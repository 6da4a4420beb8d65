"""Pretraining that is killed, stopped, resumed, refused or given an amount of time."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bothways.cli.main import main
from bothways.config import read_recipe
from bothways.errors import RunStopped, TrainingError
from bothways.training.networks import GENERATOR
from bothways.training.pretrain import PretrainResult, pretrain, steps_that_fit
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.recorder import Event, RunStarted, StepDone
from tests.data.corpora import documents, tokenizer
from tests.training.pretraining import curve, lines, text_settings
from tests.training.tiny import Killed, kill_after, same


@pytest.fixture(scope="module")
def straight(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    """A run that nothing interrupted."""
    return pretrain(text_settings(shards, tmp_path_factory.mktemp("straight") / "out"))


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("killed", "changes"),
    [
        (5, {}),
        (11, {"machine__workers": 2}),
        (7, {"optim__optimizer": "muon", "optim__schedule": "trapezoid", "loop__accumulate": 2}),
        (8, {"optim__optimizer": "stable-adamw", "optim__ramp": 0.8, "loop__batch_tokens": 512}),
        (6, {"objective__relation": "sentence-order", "objective__mask_unit": "word"}),
    ],
)
def test_a_killed_run_ends_with_the_bits_of_the_straight_one(
    killed: int, changes: dict[str, Any], shards: Path, tmp_path: Path, straight: PretrainResult
) -> None:
    """transformers#11323, #8874, ModernBERT#246: resumed runs differed, or replayed for hours."""
    expected = straight.folder
    if set(changes) - {"machine__workers"}:
        expected = tmp_path / "straight"
        pretrain(text_settings(shards, expected, **changes))
    settings = text_settings(shards, tmp_path / "out", loop__checkpoint_every=3, **changes)
    with pytest.raises(Killed):
        pretrain(settings, on_event=kill_after(killed))
    steps: list[int] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepDone):
            steps.append(event.step)

    result = pretrain(dataclasses.replace(settings, resume=True), on_event=on_event)
    assert steps == list(range(killed // 3 * 3 + 1, 13))  # only what the checkpoint lacks
    assert same(tmp_path / "out", expected)
    assert curve(tmp_path / "out")[-1] == curve(expected)[-1]
    assert result.tokens == lines(expected)[-1]["tokens"]


def test_dropout_was_on(shards: Path, tmp_path: Path, straight: PretrainResult) -> None:
    """Without this the test before would prove nothing about random numbers."""
    off = {"network__hidden_dropout": 0.0, "network__attention_dropout": 0.0}
    pretrain(text_settings(shards, tmp_path, **off))
    assert not same(tmp_path, straight.folder)


def test_a_detecting_run_goes_on_too(shards: Path, tmp_path: Path) -> None:
    def settings(name: str, **changes: Any) -> PretrainSettings:
        return text_settings(
            shards,
            tmp_path / name,
            objective__goal="replaced",
            objective__sharing="disentangled",
            loop__steps=6,
            loop__checkpoint_every=2,
            **changes,
        )

    pretrain(settings("straight"))
    with pytest.raises(Killed):
        pretrain(settings("killed"), on_event=kill_after(5))
    pretrain(settings("killed", resume=True))
    assert same(tmp_path / "killed", tmp_path / "straight")
    assert same(tmp_path / "killed" / GENERATOR, tmp_path / "straight" / GENERATOR)


def test_resuming_with_another_recipe_is_refused_with_the_differences(
    shards: Path, tmp_path: Path
) -> None:
    settings = text_settings(shards, tmp_path, loop__checkpoint_every=2)
    with pytest.raises(Killed):
        pretrain(settings, on_event=kill_after(3))
    changed = text_settings(
        shards,
        tmp_path,
        resume=True,
        loop__checkpoint_every=5,
        loop__steps=13,
        objective__mask_share=0.3,
        machine__threads=1,
    )
    with pytest.raises(TrainingError) as error:
        pretrain(changed)
    message = str(error.value)
    assert "loop.steps was 12, is 13" in message
    assert "objective.mask_share was 0.15, is 0.3" in message
    assert "checkpoint_every" not in message
    assert "threads" not in message


def test_resuming_over_other_text_is_refused(shards: Path, tmp_path: Path) -> None:
    from tests.data.corpora import make_shards

    settings = text_settings(shards, tmp_path / "out", loop__checkpoint_every=2)
    with pytest.raises(Killed):
        pretrain(settings, on_event=kill_after(3))
    make_shards(tmp_path / "other", documents(seed=8), tokenizer=tokenizer())
    other = text_settings(tmp_path / "other" / "shards", tmp_path / "out", resume=True)
    with pytest.raises(TrainingError, match="text was"):
        pretrain(other)


def test_resuming_without_a_checkpoint_starts_and_says_so(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    killed = tmp_path / ".writing-abc"
    killed.mkdir()
    (killed / "recipe.toml").write_text("half", encoding="utf-8")
    pretrain(text_settings(shards, tmp_path, resume=True, loop__steps=1), on_event=events.append)
    assert not killed.exists()
    assert "starting at step 0" in caplog.text
    assert isinstance(events[0], RunStarted)
    assert events[0].step == 0


def test_a_folder_that_is_not_empty_is_left_alone(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"not empty \(it has notes.txt\)"):
        pretrain(text_settings(shards, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# --- stopping ---------------------------------------------------------------------------------


def stop_at(step: int) -> Any:
    def on_event(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_event


def test_sigterm_saves_and_names_the_command_that_goes_on(
    shards: Path, tmp_path: Path, straight: PretrainResult
) -> None:
    with pytest.raises(RunStopped) as error:
        pretrain(text_settings(shards, tmp_path / "an out"), on_event=stop_at(4))
    recipe = tmp_path / "an out" / "recipe.toml"
    assert f"bothways pretrain --config '{recipe}' --resume" in str(error.value)
    assert "step 5 of 12 is saved" in str(error.value)
    resumed = dataclasses.replace(read_recipe(PretrainSettings, recipe), resume=True)
    pretrain(resumed)
    assert same(tmp_path / "an out", straight.folder)


@pytest.mark.parametrize(("flags", "code"), [([], 143), (["--preempt-ok"], 0)])
def test_the_command_that_is_stopped_says_so_by_its_exit_code(
    flags: list[str],
    code: int,
    shards: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from contextlib import contextmanager

    from bothways.cli.commands import pretrain as command

    @contextmanager
    def follow() -> Any:
        yield stop_at(2)

    monkeypatch.setattr(command, "follow", follow)
    arguments = ["--preset", "tiny", "--data", str(shards), "--output", str(tmp_path / "out")]
    arguments += ["--steps", "6", "--batch-tokens", "256", "--max-length", "32", "--workers", "0"]
    assert main(["pretrain", *arguments, *flags]) == code
    told = capsys.readouterr()
    assert "--resume" in (told.out if flags else told.err)


# --- a budget of time -------------------------------------------------------------------------


def test_a_budget_becomes_a_stored_number_of_steps(shards: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "loop__hours": 5 / 3600,
        "loop__batch_tokens": 96,
        "loop__checkpoint_every": 5,
        "loop__evaluate_every": 10_000,
    }
    settings = text_settings(shards, tmp_path / "out", **changes)
    with pytest.raises(Killed):
        pretrain(settings, on_event=kill_after(7))
    stored = json.loads((tmp_path / "out" / "steps.json").read_text(encoding="utf-8"))
    assert stored["steps"] >= 8
    events: list[Event] = []
    result = pretrain(dataclasses.replace(settings, resume=True), on_event=events.append)
    assert isinstance(events[0], RunStarted)
    assert (events[0].step, events[0].steps) == (5, stored["steps"])
    assert result.steps == stored["steps"]
    # The same as a run that was given the number.
    plain = dict(changes, loop__hours=None, loop__steps=stored["steps"])
    pretrain(text_settings(shards, tmp_path / "plain", **plain))
    assert same(tmp_path / "out", tmp_path / "plain")


def test_how_many_steps_fit() -> None:
    # 100 s, of which 10 are spent and 11 evaluations of 2 s to come; a step takes half a second.
    assert steps_that_fit(100.0, spent=10.0, step=0.5, scoring=2.0, ramp=(0.0, 0.25)) == 136
    # A batch that grows from nothing over the whole run takes half as long on average.
    assert steps_that_fit(100.0, spent=10.0, step=0.5, scoring=2.0, ramp=(1.0, 1e-9)) == 271
    assert steps_that_fit(1.0, spent=10.0, step=0.5, scoring=2.0, ramp=(0.0, 0.25)) == 1
