"""A whole run of regression, read again by transformers."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
import torch
import transformers

from bothways.errors import UsageError
from bothways.inference.model import load
from bothways.tasks.results import ScoreResult
from bothways.training.finetune import finetune
from bothways.training.task_tables import RegressSettings
from tests.training.tiny import GOOD, PLAIN, settings_for

# float32; scores of some tens.
ATOL = 1e-4


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    """Texts with 10 stars for each good word in them."""
    draw = random.Random(0)
    for name in ("train", "dev"):
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "stars"])
            for number in range(60):
                words = draw.choices(GOOD, k=number % 4) + draw.choices(PLAIN, k=3)
                writer.writerow([" ".join(words), 10 * (number % 4)])
    return tmp_path


def test_a_run_and_what_others_read_of_it(tiny_model: Path, stars: Path) -> None:
    settings = settings_for(
        tiny_model,
        stars,
        stars / "out",
        task="regress",
        regress=RegressSettings((0.0, 30.0)),
        network={"pooling": "auto"},
        optim={"learning_rate": (1e-2,)},
        loop={"epochs": 8},
    )
    result = finetune(settings)
    assert result.report.metrics["spearman"].value > 0.7
    assert result.report.metrics["mae"].value < 8
    assert set(result.report.baselines) == {"mean", "bag_of_words"}
    model = load(stars / "out")
    texts = ["great fine story", "the film"]
    ours = [result.score for result in model.predict(texts) if isinstance(result, ScoreResult)]
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(stars / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(stars / "out")
    assert (theirs.config.num_labels, theirs.config.problem_type) == (1, "regression")
    with torch.no_grad():
        logits = theirs(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    assert logits[:, 0].tolist() == pytest.approx(ours, abs=ATOL)


def test_numbers_have_no_strata(tiny_model: Path, stars: Path) -> None:
    data = {"dev": None, "dev_share": 0.2, "stratify": True}
    with pytest.raises(UsageError, match="--stratify shares out labels"):
        finetune(settings_for(tiny_model, stars, stars / "out", task="regress", data=data))
