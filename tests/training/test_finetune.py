"""Fine-tuning from files to a folder."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bothways.config import read_recipe
from bothways.inference.model import load
from bothways.training.finetune import finetune
from bothways.training.recorder import (
    CheckpointSaved,
    Evaluated,
    Event,
    RunFinished,
    RunStarted,
    StepDone,
)
from bothways.training.settings import FinetuneSettings
from tests.training.tiny import (
    labels,
    lines,
    same,
    settings_for,
    undecided,
    write_examples,
)


@pytest.fixture(scope="module")
def done(
    tiny_model: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[FinetuneSettings, Any, list[Event]]:
    """A whole run with dev and test."""
    events: list[Event] = []
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path_factory.mktemp("done") / "model",
        data={"test": examples / "test.csv", "text": "text", "label": "label"},
        loop={"epochs": 6},
    )
    return settings, finetune(settings, on_event=events.append), events


def test_it_learns_and_is_judged_on_test(done: tuple[FinetuneSettings, Any, list[Event]]) -> None:
    settings, result, _ = done
    assert result.report.data == str(settings.data.test)
    assert result.report.count == 24
    assert result.report.metrics["accuracy"].value > 0.8
    assert result.report.metrics["accuracy"].low is not None
    assert "majority" in result.report.baselines


def test_the_folder_has_everything(done: tuple[FinetuneSettings, Any, list[Event]]) -> None:
    settings, _, _ = done
    names = {path.name for path in settings.output.iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "bothways.json",
        "README.md",
        "recipe.toml",
        "metrics.jsonl",
        "report.json",
        "report.md",
        "report.html",
        "checkpoints",
    }
    stored = json.loads((settings.output / "bothways.json").read_text(encoding="utf-8"))
    assert stored["task"]["labels"] == ["bad", "good"]
    assert stored["task"]["label_counts"] == {"bad": 32, "good": 32}
    assert stored["columns"]["text"] == "text"
    assert stored["files"]["encoding"] is None
    assert stored["provenance"]["examples"] == {"train": 64, "dev": 24, "test": 24}
    assert read_recipe(FinetuneSettings, settings.output / "recipe.toml") == settings
    card = (settings.output / "README.md").read_text(encoding="utf-8")
    assert "64 examples of `train.csv`" in card
    assert "| test |" in card


def test_the_model_predicts_with_its_labels(
    done: tuple[FinetuneSettings, Any, list[Event]],
) -> None:
    """transformers#13298, #2487: label names were lost or permuted."""
    settings, _, _ = done
    model = load(settings.output)
    assert labels(model.predict(["the film was great", "the film was awful"])) == ["good", "bad"]


def test_the_best_weights_are_the_folder_s(done: tuple[FinetuneSettings, Any, list[Event]]) -> None:
    """transformers#11931, PR#40221: the last weights were kept in place of the best."""
    settings, result, _ = done
    dev = lines(settings.output, "dev")
    best = max(dev, key=lambda line: line["accuracy"])  # the first of equals
    assert result.best.best_step == best["step"]
    assert result.best.metrics["accuracy"] == best["accuracy"]
    model = load(settings.output)
    assert model.task is not None
    text = (settings.data.dev or Path()).read_text(encoding="utf-8").splitlines()[1:]
    pairs = [line.rsplit(",", 1) for line in text]
    found = labels(model.predict([pair[0] for pair in pairs]))
    right = sum(label == pair[1] for label, pair in zip(found, pairs, strict=True))
    assert right / len(pairs) == pytest.approx(best["accuracy"])


def test_events_tell_the_story(done: tuple[FinetuneSettings, Any, list[Event]]) -> None:
    _, result, events = done
    kinds = [type(event) for event in events]
    assert kinds[0] is RunStarted
    assert kinds[-1] is RunFinished
    assert kinds.count(Evaluated) == 6
    assert kinds.count(StepDone) == 48
    assert CheckpointSaved in kinds
    assert result.as_dict()["best"] == result.best.name
    json.dumps(result.as_dict())


def test_without_held_out_data_the_last_weights_are_kept_and_it_is_said(
    tiny_model: Path, examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = undecided(tiny_model, examples, tmp_path / "out")
    with caplog.at_level(logging.INFO, logger="bothways"):
        result = finetune(settings)
    said = [r for r in caplog.records if "all 3 epochs run" in r.getMessage()]
    assert len(said) == 1
    assert result.best.best_step == result.best.step == 24
    assert result.report.metrics == {}
    assert any("remains unknown" in finding.text for finding in result.report.findings)
    assert labels(load(settings.output).predict(["great film"]))[0] in ("good", "bad")


def test_the_dev_side_of_a_share_is_the_same_each_time_and_keeps_groups_whole(
    tiny_model: Path, tmp_path: Path
) -> None:
    write_examples(tmp_path / "train.csv", 60, groups=12)
    counts = []
    for name in ("a", "b"):
        settings = settings_for(
            tiny_model,
            tmp_path,
            tmp_path / name,
            data={"dev": None, "dev_share": 0.25, "group": "film"},
            loop={"epochs": 1},
        )
        finetune(settings)
        stored = json.loads((settings.output / "bothways.json").read_text(encoding="utf-8"))
        counts.append(stored["provenance"]["examples"])
    assert counts[0] == counts[1]
    assert counts[0]["dev"] == 15  # three whole groups of five
    assert same(tmp_path / "a", tmp_path / "b")


def test_early_stop_ends_a_run(tiny_model: Path, examples: Path, tmp_path: Path) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        optim={"learning_rate": (1e-9,)},
        loop={"epochs": 9, "early_stop": 2},
    )
    result = finetune(settings)
    assert result.best.stopped_early
    assert result.best.step == 24  # one epoch that is best, two that are no better


def test_a_metric_where_less_is_better_chooses_the_least(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers PR#31142: greater_is_better was wrong, so the worst was kept."""
    settings = settings_for(tiny_model, examples, tmp_path / "out", loop={"metric": "loss"})
    result = finetune(settings)
    dev = lines(settings.output, "dev")
    assert result.best.value == min(line["loss"] for line in dev)


def test_steps_planned_by_tokens(tiny_model: Path, examples: Path, tmp_path: Path) -> None:
    settings = settings_for(tiny_model, examples, tmp_path / "out", loop={"batch_size": None})
    common = dataclasses.replace(settings.common, batch_tokens=100)
    result = finetune(dataclasses.replace(settings, common=common))
    train = lines(settings.output, "train")
    assert train[0]["tokens"] <= 100 * train[0]["step"]
    assert result.report.metrics["accuracy"].value > 0.5


# --- grids ------------------------------------------------------------------------------------


def test_a_grid_keeps_the_best_run_and_shows_all(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        optim={"learning_rate": (1e-6, 2e-2)},
        loop={"seeds": 2},
    )
    result = finetune(settings)
    assert [run.name for run in result.runs] == [
        "lr-1e-06-seed-0",
        "lr-1e-06-seed-1",
        "lr-0.02-seed-0",
        "lr-0.02-seed-1",
    ]
    values = [run.value for run in result.runs]
    assert result.best is result.runs[values.index(max(value for value in values if value))]
    assert result.best.learning_rate == 2e-2
    report = json.loads((settings.output / "report.json").read_text(encoding="utf-8"))
    (table,) = [table for table in report["tables"] if table["name"] == "runs"]
    assert len(table["rows"]) == 4
    kept = [path.parent.parent.name for path in settings.output.glob("runs/*/checkpoints/step-*")]
    assert kept == [result.best.name]
    dev = lines(settings.output, "dev")
    assert result.best.value == max(line["accuracy"] for line in dev)
