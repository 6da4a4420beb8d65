"""Reading, splitting, encoding; scores along the way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt
from bothways.errors import DataError
from bothways.inference.model import Model
from bothways.model.layout import Batch
from bothways.tasks.answer import AnswerTask
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.classify import ClassifyTask
from bothways.tasks.results import Result
from bothways.tokenization.policy import CutPolicy
from bothways.training.examples import EncodedExamples, TrainingData, new_task, read_splits
from bothways.training.objectives import TaskObjective
from bothways.training.runtime import Runtime
from bothways.training.scoring import score
from bothways.training.settings import FinetuneSettings
from tests.training.tiny import settings_for, write_examples

# Probabilities of one model in batches of different sizes.
LOSS_TOLERANCE = 1e-5


def encode(model: Path, settings: FinetuneSettings, max_length: int = 24) -> TrainingData:
    splits = read_splits(settings, new_task(settings))
    tokenizer = load_parts(model).tokenizer
    assert tokenizer is not None
    return TrainingData.encode(splits, tokenizer, CutPolicy(max_length))


def test_equal_texts_and_groups_stay_on_one_side(tiny_model: Path, tmp_path: Path) -> None:
    path = write_examples(tmp_path / "train.csv", 40, groups=8)
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text.split("\n", 1)[1], encoding="utf-8")  # every row twice
    data = {"dev": None, "dev_share": 0.25, "group": "film", "stratify": True}
    settings = settings_for(tiny_model, tmp_path, tmp_path / "out", data=data)
    splits = read_splits(settings, new_task(settings))
    assert splits.dev is not None
    assert len(splits.train) + len(splits.dev) == 80
    for key in ("group", "text"):
        sides = [{getattr(e, key) for e in side} for side in (splits.train, splits.dev)]
        assert not sides[0] & sides[1]


def test_one_example_has_a_fingerprint(tiny_model: Path) -> None:
    """Its targets are columns of a tensor, which has no bytes to look at."""
    tokenizer = load_parts(tiny_model).tokenizer
    assert tokenizer is not None
    made = []
    for answer in (Answer("great", 0), Answer("film", 6)):
        example = AnswerExample("what", "great film", (answer,))
        task = AnswerTask().fit([example])
        policy = CutPolicy(24, "windows", 4)
        made.append(EncodedExamples(task, [example], tokenizer=tokenizer, policy=policy))
    first, second = (each.fingerprint() for each in made)
    assert first != second


def test_a_test_file_may_lack_the_group_column(tiny_model: Path, tmp_path: Path) -> None:
    write_examples(tmp_path / "train.csv", 40, groups=8)
    write_examples(tmp_path / "test.csv", 6, seed=1)
    data = {"dev": None, "dev_share": 0.25, "group": "film", "test": tmp_path / "test.csv"}
    settings = settings_for(tiny_model, tmp_path, tmp_path / "out", data=data)
    splits = read_splits(settings, new_task(settings))
    assert splits.test is not None
    assert [example.group for example in splits.test] == [None] * 6


def test_a_cut_that_leaves_a_label_without_training_examples_is_refused(
    tiny_model: Path, tmp_path: Path
) -> None:
    rows = [f"the film number {n},good" for n in range(8)] + ["a dull film,bad", "an odd one,odd"]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(rows), encoding="utf-8")
    data = {"dev": None, "dev_share": 0.5}
    refused = 0
    for seed in range(6):
        settings = settings_for(tiny_model, tmp_path, tmp_path / "out", data=data)
        settings = with_seed(settings, seed)
        try:
            splits = read_splits(settings, new_task(settings))
        except DataError as error:
            refused += "does not have" in str(error) or "at least two" in str(error)
        else:
            assert splits.dev is not None
            assert {e.label for e in splits.dev} <= {e.label for e in splits.train}
    assert refused


def with_seed(settings: FinetuneSettings, seed: int) -> FinetuneSettings:
    return dataclasses.replace(settings, common=dataclasses.replace(settings.common, seed=seed))


def test_what_was_cut_is_said(
    tiny_model: Path, examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """sentence-transformers#4060: texts were cut and nobody was told."""
    settings = settings_for(tiny_model, examples, tmp_path / "out")
    data = encode(tiny_model, settings, max_length=6)
    assert data.train.ledger.texts_cut > 0
    assert f"training: {data.train.ledger.texts_cut} of 64 texts were cut" in caplog.text
    assert "dev: " in caplog.text
    assert data.dev is not None
    assert data.ledger.texts == 64 + 24


def test_characters_that_become_no_token_are_said(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [json.dumps({"text": f"good \0film {n}", "label": "ab"[n % 2]}) for n in range(8)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    files = {"train": path, "dev": None}
    data = encode(tiny_model, settings_for(tiny_model, path, tmp_path / "out", data=files))
    assert data.train.ledger.dropped_characters == 8
    assert "training: nothing was cut (8 texts" in caplog.text
    assert "8 characters became no token" in caplog.text


def test_batches_hold_what_was_asked_for_in_order(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    data = encode(tiny_model, settings_for(tiny_model, examples, tmp_path / "out")).train
    batch = data.batch([7, 2])
    assert [source.example for source in batch.sources] == [7, 2]
    assert batch.layout.lengths == (data.lengths[7], data.lengths[2])
    assert batch.targets["label"].tolist() == [1, 0]  # good, bad


def test_a_fingerprint_changes_with_texts_labels_and_lengths(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(tiny_model, examples, tmp_path / "out")
    prints = [
        encode(tiny_model, settings).train.fingerprint(),
        encode(tiny_model, settings, max_length=8).train.fingerprint(),
    ]
    lines = (examples / "train.csv").read_text(encoding="utf-8").splitlines()
    for change in (("bad", "good"), ("the", "a")):
        changed = [line.replace(*change) if n == 1 else line for n, line in enumerate(lines)]
        (tmp_path / "train.csv").write_text("\n".join(changed), encoding="utf-8")
        data = {"train": tmp_path / "train.csv", "dev": examples / "dev.csv"}
        other = settings_for(tiny_model, examples, tmp_path / "out", data=data)
        prints.append(encode(tiny_model, other).train.fingerprint())
    assert encode(tiny_model, settings).train.fingerprint() == prints[0]
    assert len(set(prints)) >= 3  # the second change is none where the word does not occur


# --- scores -----------------------------------------------------------------------------------


class Watched(ClassifyTask):
    """Notes how many rows of logits it decodes at a time."""

    rows: list[int]

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        self.rows.append(len(logits))
        return super().decode(logits, batch)


def scored(
    model: Path, data: EncodedExamples, task: ClassifyTask, **options: Any
) -> dict[str, float]:
    parts = load_parts(model)
    torch.manual_seed(0)
    head = task.head(parts.config, task.labels)
    objective = TaskObjective(parts.encoder, head, task).train()
    found = score(objective, data, runtime=Runtime(device="cpu"), **options)
    assert objective.training  # back to what it was
    return found


def test_logits_are_decoded_batch_by_batch(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers#7232, #8476, #11848: evaluation kept all logits until memory ran out."""
    data = encode(tiny_model, settings_for(tiny_model, examples, tmp_path / "out"))
    task = Watched(labels=("bad", "good"))
    object.__setattr__(task, "rows", [])
    few = scored(tiny_model, data.train, task, batch_tokens=50)
    assert sum(task.rows) == 64
    assert max(task.rows) <= 50 // 6
    whole = scored(tiny_model, data.train, task)
    assert few["accuracy"] == whole["accuracy"]
    assert few["loss"] == pytest.approx(whole["loss"], rel=LOSS_TOLERANCE)


def test_scores_are_those_of_the_model_used_later(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """The dev score of training, `predict` and evaluation must agree."""
    data = encode(tiny_model, settings_for(tiny_model, examples, tmp_path / "out"))
    task = data.splits.task
    assert isinstance(task, ClassifyTask)
    parts = load_parts(tiny_model)
    torch.manual_seed(0)
    head = task.head(parts.config, task.labels)
    along = score(
        TaskObjective(parts.encoder, head, task), data.train, runtime=Runtime(device="cpu")
    )
    parts = adapt(parts, head, labels=task.labels, trained=True)
    model = Model(dataclasses.replace(parts, settings={"task": task.state()}))
    later = task.metrics(model.predict(data.train.examples), data.train.examples)
    assert along["accuracy"] == later["accuracy"]
    assert along["loss"] == pytest.approx(later["loss"], rel=LOSS_TOLERANCE)
