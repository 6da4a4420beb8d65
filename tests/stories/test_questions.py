"""Banking questions, csv with quotes: a stratified share to choose by, the encoder frozen."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.command import Command

LABELS = (
    "card_arrival",
    "extra_charge_on_statement",
    "exchange_rate",
    "pending_card_payment",
    "age_limit",
)


@pytest.fixture
def files(real_data: Path, tmp_path: Path) -> Path:
    """train.csv and test.csv with five of the 77 intents, cells quoted as they were."""
    for name, most in (("train", 40), ("test", 15)):
        with (real_data / "banking77" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        kept = [
            row
            for label in LABELS
            for row in sorted(
                (r for r in rows if r["category"] == label), key=lambda r: '"' not in r["text"]
            )[:most]
        ]
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["text", "category"])
            writer.writeheader()
            writer.writerows(kept)
    assert '""pending""' in (tmp_path / "train.csv").read_text(encoding="utf-8")
    return tmp_path


def test_a_head_on_a_frozen_encoder_learns_intents(
    bothways: Command, minilm: Path, files: Path
) -> None:
    model = files / "model"
    done = bothways(
        *("finetune", "--task", "classify", "--model", minilm, "--train", files / "train.csv"),
        *("--text", "text", "--label", "category", "--dev-share", "0.2", "--stratify"),
        *("--freeze", "encoder", "--pooling", "mean", "--learning-rate", "1e-2"),
        *("--epochs", "12", "--test", files / "test.csv", "--output", model, "--json"),
    ).json
    assert done["data"] == str(files / "test.csv")
    assert done["count"] == 75
    assert done["metrics"]["accuracy"]["value"] > 0.85
    given = ("--model", model, "--json")
    judged = bothways("evaluate", "--data", files / "test.csv", *given).json
    assert judged["metrics"] == done["metrics"]
    lines = bothways("predict", "--model", model, "--input", files / "test.csv").lines
    with (files / "test.csv").open(encoding="utf-8", newline="") as file:
        truth = [row["category"] for row in csv.DictReader(file)]
    right = sum(line["label"] == label for line, label in zip(lines, truth, strict=True))
    assert judged["metrics"]["accuracy"]["value"] == right / 75
    assert sorted(lines[0]["probabilities"]) == sorted(LABELS)
