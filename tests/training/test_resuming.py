"""Fine-tuning that is killed, stopped, resumed, overwritten or refused."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bothways.config import read_recipe
from bothways.errors import DataError, RunStopped, TrainingError, UsageError
from bothways.inference.model import load
from bothways.training.finetune import finetune
from bothways.training.recorder import (
    Event,
    RunStarted,
    StepDone,
)
from bothways.training.settings import FinetuneSettings
from tests.training.tiny import (
    Killed,
    kill_after,
    labels,
    lines,
    same,
    settings_for,
    undecided,
    write_examples,
)


def test_a_killed_grid_repeats_no_finished_run_and_ends_the_same(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    def settings(name: str, **rest: Any) -> FinetuneSettings:
        return settings_for(
            tiny_model,
            examples,
            tmp_path / name,
            optim={"learning_rate": (2e-2, 1e-6)},
            loop={"checkpoint_every": 2, "epochs": 2},
            **rest,
        )

    def kill_in_second_run(event: Event) -> None:
        seen.append(event)
        second = sum(isinstance(event, RunStarted) for event in seen) == 2
        if second and isinstance(event, StepDone) and event.step == 5:
            raise Killed

    seen: list[Event] = []
    with pytest.raises(Killed):
        finetune(settings("killed"), on_event=kill_in_second_run)
    after: list[Event] = []
    resumed = finetune(settings("killed", resume=True), on_event=after.append)
    started = [event for event in after if isinstance(event, RunStarted)]
    assert [(event.run, event.step) for event in started] == [("lr-1e-06-seed-0", 4)]
    straight = finetune(settings("straight"))
    assert same(tmp_path / "killed", tmp_path / "straight")
    assert resumed.best.name == straight.best.name == "lr-0.02-seed-0"
    assert [run.metrics for run in resumed.runs] == [run.metrics for run in straight.runs]


# --- resuming ---------------------------------------------------------------------------------


def test_a_killed_run_resumes_to_the_same_bits(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers#11323: the resumed run was another one. Dropout is on: see the next test."""
    loop = {"checkpoint_every": 3, "accumulate": 2}
    with pytest.raises(Killed):
        finetune(
            settings_for(tiny_model, examples, tmp_path / "killed", loop=loop),
            on_event=kill_after(7),
        )
    again = settings_for(tiny_model, examples, tmp_path / "killed", loop=loop, resume=True)
    finetune(again)
    finetune(settings_for(tiny_model, examples, tmp_path / "straight", loop=loop))
    assert same(tmp_path / "killed", tmp_path / "straight")
    strip = ("step", "epoch", "split", "loss", "learning_rate", "tokens")
    for split in ("train", "dev"):
        both = [lines(tmp_path / name, split) for name in ("killed", "straight")]
        assert [[line[key] for key in strip] for line in both[0]] == [
            [line[key] for key in strip] for line in both[1]
        ]


def test_the_checkpoint_s_dropout_is_on_and_can_be_set(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    off = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
    for name, network in (("on", {}), ("off", off)):
        finetune(
            undecided(tiny_model, examples, tmp_path / name, network=network, loop={"epochs": 1})
        )
    assert not same(tmp_path / "on", tmp_path / "off")
    config = json.loads((tmp_path / "off" / "config.json").read_text(encoding="utf-8"))
    assert config["attention_probs_dropout_prob"] == 0.0
    assert config["hidden_dropout_prob"] == 0.0


def test_resuming_with_other_settings_is_refused_with_the_differences(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        finetune(undecided(tiny_model, examples, tmp_path / "out"), on_event=kill_after(1))
    other = undecided(
        tiny_model,
        examples,
        tmp_path / "out",
        optim={"learning_rate": (1e-3,)},
        loop={"epochs": 4, "log_every": 5},
        resume=True,
    )
    with pytest.raises(TrainingError) as error:
        finetune(other)
    message = str(error.value)
    assert "loop.epochs was 3, is 4" in message
    assert "optim.learning_rate was [0.02], is [0.001]" in message
    assert "log_every" not in message


def test_resuming_with_other_data_is_refused(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    write_examples(tmp_path / "train.csv", 64)
    data = {"train": tmp_path / "train.csv", "dev": examples / "dev.csv"}
    loop = {"checkpoint_every": 1}
    first = settings_for(tiny_model, tmp_path, tmp_path / "out", data=data, loop=loop)
    with pytest.raises(Killed):
        finetune(first, on_event=kill_after(3))
    write_examples(tmp_path / "train.csv", 64, seed=9)
    with pytest.raises(TrainingError, match="training data was"):
        finetune(dataclasses.replace(first, resume=True))


def test_resuming_without_a_checkpoint_starts_and_says_so(
    tiny_model: Path, examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = undecided(tiny_model, examples, tmp_path / "out", loop={"epochs": 1}, resume=True)
    events: list[Event] = []
    finetune(settings, on_event=events.append)
    assert "starting at step 0" in caplog.text
    assert isinstance(events[0], RunStarted)
    assert events[0].step == 0


def test_sigterm_names_the_command_that_goes_on(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    settings = undecided(tiny_model, examples, tmp_path / "an out")
    with pytest.raises(RunStopped) as error:
        finetune(settings, on_event=on_event)
    recipe = tmp_path / "an out" / "recipe.toml"
    assert f"bothways finetune --config '{recipe}' --resume" in str(error.value)
    resumed = dataclasses.replace(read_recipe(FinetuneSettings, recipe), resume=True)
    finetune(resumed)
    finetune(undecided(tiny_model, examples, tmp_path / "straight"))
    assert same(tmp_path / "an out", tmp_path / "straight")


# --- the output folder ------------------------------------------------------------------------


def test_a_run_that_ended_at_its_data_is_repeated_without_ado(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = undecided(tiny_model, examples, tmp_path / "out", loop={"epochs": 1})
    missing = dataclasses.replace(settings.data, train=tmp_path / "missing.csv")
    with pytest.raises(DataError, match="there is no file"):
        finetune(dataclasses.replace(settings, data=missing))
    finetune(settings)
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_folder_that_is_not_empty_is_left_alone(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine", encoding="utf-8")
    settings = undecided(tiny_model, examples, tmp_path / "out", loop={"epochs": 1})
    with pytest.raises(TrainingError, match=r"not empty \(it has notes.txt\).*--overwrite"):
        finetune(settings)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]
    finetune(dataclasses.replace(settings, overwrite=True))
    assert (tmp_path / "out" / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_overwriting_starts_anew(tiny_model: Path, examples: Path, tmp_path: Path) -> None:
    loop = {"checkpoint_every": 1}
    settings = undecided(tiny_model, examples, tmp_path / "out", loop=loop)
    with pytest.raises(Killed):
        finetune(settings, on_event=kill_after(5))
    events: list[Event] = []
    finetune(dataclasses.replace(settings, overwrite=True), on_event=events.append)
    assert isinstance(events[0], RunStarted)
    assert events[0].step == 0


def test_training_into_the_folder_that_is_loaded(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    first = undecided(tiny_model, examples, tmp_path / "out", loop={"epochs": 1})
    finetune(first)
    again = dataclasses.replace(first, model=str(tmp_path / "out"), overwrite=True)
    result = finetune(again)
    assert labels(load(tmp_path / "out").predict(["great"]))[0] in ("good", "bad")
    assert result.best.step == 8


# --- refused before training ------------------------------------------------------------------


def test_an_unknown_metric_lists_those_there_are(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers PR#40221: a metric that did not exist failed after the first epoch."""
    settings = settings_for(tiny_model, examples, tmp_path / "out", loop={"metric": "acuracy"})
    with pytest.raises(UsageError) as error:
        finetune(settings)
    assert "did you mean 'accuracy'" in str(error.value)
    assert "loss (-)" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_all_impossible_settings_are_named_at_once(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        data={"dev": None, "stratify": True},
        optim={"learning_rate": (0.0, 1e-3), "warmup": 1.5, "clip": -1.0},
        loop={"epochs": 0, "early_stop": 2},
        resume=True,
        overwrite=True,
    )
    with pytest.raises(UsageError) as error:
        finetune(settings)
    for part in (
        "--epochs is 0",
        "--learning-rate is 0.0",
        "--warmup is 1.5",
        "--clip is -1.0",
        "--stratify and --group",
        "--resume or --overwrite",
        "--early-stop needs something to choose by",
        "several learning rates or seeds needs something to choose by",
    ):
        assert part in str(error.value)


def test_a_label_that_only_dev_has_is_named(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\ngreat film,good\nodd film,odd\n", encoding="utf-8")
    settings = settings_for(tiny_model, examples, tmp_path / "out", data={"dev": dev})
    with pytest.raises(DataError, match=r"dev\.csv, line 3: 'odd'"):
        finetune(settings)


def test_texts_that_stand_on_both_sides_are_counted(
    tiny_model: Path, examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        data={"dev": examples / "train.csv"},
        loop={"epochs": 1},
    )
    finetune(settings)
    assert "64 of 64 texts" in caplog.text
