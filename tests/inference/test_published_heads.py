"""Heads that other libraries saved predict here, with the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

from bothways.inference.model import Model, load
from bothways.tasks.regress import scores_of
from bothways.tasks.results import ChoiceResult

# float32; the libraries add in another order.
ATOL = 1e-5
PAIRS = [("the film", "it was great"), ("a story", "dull")]


@pytest.fixture
def pieces(tiny_folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tiny_folder)


def saved(encoder: Path, folder: Path, kind: str, pieces: Any, **keys: Any) -> tuple[Any, Model]:
    """A model with a random head, as transformers saves it, and here."""
    torch.manual_seed(0)
    theirs = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(encoder, **keys).eval()
    theirs.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return theirs, load(folder)


@pytest.mark.parametrize("problem_type", [None, "regression"])
def test_one_output_is_a_number(
    tiny_folder: Path, tmp_path: Path, pieces: Any, problem_type: str | None
) -> None:
    keys = {"num_labels": 1, "problem_type": problem_type}
    theirs, model = saved(tiny_folder, tmp_path, "SequenceClassification", pieces, **keys)
    assert model.task is not None
    assert model.task.name == "regress"
    with torch.no_grad():
        logits = theirs(**pieces(*zip(*PAIRS, strict=True), padding=True, return_tensors="pt"))[0]
    assert scores_of(model.predict(PAIRS)) == pytest.approx(logits[:, 0].numpy(), abs=ATOL)


def test_a_choice_is_one(tiny_folder: Path, tmp_path: Path, pieces: Any) -> None:
    theirs, model = saved(tiny_folder, tmp_path, "MultipleChoice", pieces)
    choices = ["great", "a dull story", "lovely"]
    (found,) = model.predict([("the film", choices)])
    given = pieces(["the film"] * 3, choices, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**{name: rows[None] for name, rows in given.items()}).logits
    assert isinstance(found, ChoiceResult)
    assert found.probabilities == pytest.approx(logits.softmax(-1)[0].tolist(), abs=ATOL)


def test_a_cross_encoder_ranks_by_logits(tiny_folder: Path, tmp_path: Path, pieces: Any) -> None:
    saved(tiny_folder, tmp_path / "base", "SequenceClassification", pieces, num_labels=1)
    theirs = CrossEncoder(str(tmp_path / "base"), num_labels=1, device="cpu")
    theirs.save_pretrained(str(tmp_path / "cross"))
    assert (tmp_path / "cross" / "modules.json").exists()
    model = load(tmp_path / "cross")
    assert model.task is not None
    assert model.task.name == "rerank"
    wanted = theirs.predict(PAIRS, activation_fn=torch.nn.Identity())
    assert scores_of(model.predict(PAIRS)) == pytest.approx(wanted, abs=ATOL)
    model.save(tmp_path / "again")
    again = CrossEncoder(str(tmp_path / "again"), device="cpu")
    assert again.predict(PAIRS) == pytest.approx(theirs.predict(PAIRS), abs=ATOL)
