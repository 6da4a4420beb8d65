"""Fine-tuning on texts longer than the model: what each policy learns, and what is said of it."""

from __future__ import annotations

import csv
import dataclasses
import json
import random
from pathlib import Path
from typing import Any, Literal

import pytest
from safetensors.torch import load_file

from bothways.config import CommonSettings
from bothways.errors import UsageError
from bothways.inference.model import load
from bothways.training.finetune import FinetuneResult, finetune
from bothways.training.settings import FinetuneSettings
from bothways.training.task_tables import ClassifySettings
from tests.training.tiny import BAD, GOOD, PLAIN, labels, settings_for

Keep = Literal["head", "tail", "head+tail", "windows"]
WINDOW = 12


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of about 40 words of which only one of the last five says anything."""
    folder = tmp_path_factory.mktemp("long")
    draw = random.Random(0)
    for name, count in (("train", 96), ("test", 32)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for number in range(count):
                words = draw.choices(PLAIN, k=draw.randint(36, 42))
                words[-draw.randint(1, 5)] = draw.choice((BAD, GOOD)[number % 2])
                writer.writerow([" ".join(words), ("bad", "good")[number % 2]])
    return folder


def settings(
    model: Path, data: Path, output: Path, keep: Keep, pooling: Any, epochs: int = 8
) -> FinetuneSettings:
    made = settings_for(
        model,
        data,
        output,
        data={"dev": None, "test": data / "test.csv"},
        loop={"epochs": epochs},
        classify=ClassifySettings(pooling),
    )
    common = CommonSettings(device="cpu", max_length=WINDOW, policy=keep)
    return dataclasses.replace(made, common=common)


@pytest.fixture(scope="module")
def runs(
    tiny_model: Path, long_texts: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, FinetuneResult]:
    folder = tmp_path_factory.mktemp("runs")
    wanted: dict[str, tuple[Keep, str, int]] = {
        "head": ("head", "mean", 8),
        "max": ("windows", "max", 14),
        "attention": ("windows", "attention", 1),
    }
    return {
        name: finetune(settings(tiny_model, long_texts, folder / name, keep, pooling, epochs))
        for name, (keep, pooling, epochs) in wanted.items()
    }


def test_evidence_at_the_end_is_found_in_windows_and_not_at_the_head(
    runs: dict[str, FinetuneResult],
) -> None:
    """transformers#1666, sentence-transformers#4060: is the tail dropped, and who says so?"""
    accuracy = {name: run.report.metrics["accuracy"].value for name, run in runs.items()}
    assert accuracy["head"] < 0.75
    assert accuracy["max"] > 0.9


def test_the_ledger_says_what_was_lost(runs: dict[str, FinetuneResult]) -> None:
    head, windows = (runs[name].report.ledger for name in ("head", "max"))
    assert (head.texts_cut, head.end, head.windows) == (32, "tail", 0)
    assert (windows.texts_cut, windows.tokens_cut) == (0, 0)
    assert windows.windows >= 4 * windows.texts


def test_the_report_says_how_cut_texts_fare(runs: dict[str, FinetuneResult]) -> None:
    report = runs["head"].report
    (table,) = (table for table in report.tables if table.name == "cut")
    assert table.columns == ("texts", "count", "accuracy", "f1_macro", "f1_micro", "loss")
    ((name, count, *scores),) = table.rows
    assert (name, count) == ("cut", 32)
    assert scores == pytest.approx([metric.value for metric in report.metrics.values()])
    assert not [table for table in runs["max"].report.tables if table.name == "cut"]


def test_a_head_that_weighs_windows_comes_back_as_it_was(
    runs: dict[str, FinetuneResult], long_texts: Path
) -> None:
    folder = runs["attention"].folder
    stored = json.loads((folder / "bothways.json").read_text(encoding="utf-8"))
    assert stored["head"]["kind"] == "window_attention"
    assert (stored["policy"], stored["overlap"]) == ("windows", WINDOW // 4)
    assert load_file(folder / "head.safetensors")["windows.output.weight"].shape[0] == 3
    model = load(folder)
    assert "encoder only" in model.parts.in_transformers()
    with (long_texts / "test.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results = model.predict([row["text"] for row in rows])
    right = sum(said == row["label"] for said, row in zip(labels(results), rows, strict=True))
    assert right / len(rows) == runs["attention"].report.metrics["accuracy"].value
    assert results.tokens_cut == [0] * len(rows)


def test_the_overlap_of_another_policy_is_none_of_windows(
    runs: dict[str, FinetuneResult],
) -> None:
    """What training stored beside `head` would let windows touch and not overlap."""
    model = load(runs["head"].folder)
    assert model.policy().keep == "head"
    assert model.policy(keep="windows").overlap == WINDOW // 4
    assert model.policy(keep="windows", overlap=0).overlap == 0
    assert load(runs["max"].folder).policy().overlap == WINDOW // 4


def test_pooling_without_windows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--window-pooling says how windows are read; give"):
        settings(tmp_path, tmp_path, tmp_path, "tail", "max").check()
