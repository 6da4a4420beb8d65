"""Saving: what it refuses, what it replaces, and that it never loses the model that was there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from bothways.checkpoints.card import CardFacts
from bothways.checkpoints.files import HEAD_NAME
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.checkpoints.save import save_parts
from bothways.checkpoints.settings import SETTINGS_NAME
from bothways.errors import CheckpointError
from bothways.families.presets import preset
from bothways.model.config import build_config
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead, MaskedLMHead
from tests.checkpoints.limits import file_size_limit
from tests.checkpoints.models import edit_json, hidden_of, logits_of, same, save_theirs

TINY = dataclasses.replace(preset("tiny").with_vocab_size(61), hidden_size=128, num_layers=1)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    save_theirs(tmp_path / "theirs")
    return load_parts(tmp_path / "theirs")


def json_of(path: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(path.read_text())
    return content


def with_mean_head(parts: Parts) -> Parts:
    head = new_head(parts, "sequence", 3, pooling="mean")
    return adapt(parts, head, labels=("a", "b", "c")).trained()


def test_a_folder_that_holds_a_model_needs_permission(parts: Parts, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds a model already \(config\.json"):
        save_parts(parts, tmp_path / "theirs")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    save_parts(parts, tmp_path / "notes")
    assert (tmp_path / "notes" / "mine.txt").exists()


def test_the_folder_that_is_loaded_can_be_saved_into(parts: Parts, tmp_path: Path) -> None:
    before = hidden_of(parts)
    with torch.no_grad():
        parts.encoder.embeddings.words.weight.add_(1.0)
    changed = hidden_of(parts)
    assert not same(before, changed)
    save_parts(parts, tmp_path / "theirs", overwrite=True)
    assert same(hidden_of(parts), changed)
    assert same(hidden_of(load_parts(tmp_path / "theirs")), changed)


def test_a_full_disk_keeps_the_last_good_model(parts: Parts, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in (tmp_path / "theirs").iterdir()}
    with torch.no_grad():
        parts.encoder.embeddings.words.weight.add_(1.0)
    size = (tmp_path / "theirs" / "model.safetensors").stat().st_size
    with file_size_limit(size // 2), pytest.raises(CheckpointError, match="the disk is full"):
        save_parts(parts, tmp_path / "theirs", overwrite=True)
    after = {path.name: path.read_bytes() for path in (tmp_path / "theirs").iterdir()}
    assert after == before


def test_a_full_disk_leaves_no_half_folder(parts: Parts, tmp_path: Path) -> None:
    with file_size_limit(2_000), pytest.raises(CheckpointError, match="the disk is full"):
        save_parts(parts, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_head_without_a_published_class_comes_back(parts: Parts, tmp_path: Path) -> None:
    adapted = with_mean_head(parts)
    save_parts(adapted, tmp_path / "ours")
    assert json_of(tmp_path / "ours" / "config.json")["architectures"] == ["BertModel"]
    settings = json_of(tmp_path / "ours" / SETTINGS_NAME)
    assert settings["pooling"] == "mean"
    assert settings["labels"] == ["a", "b", "c"]
    again = load_parts(tmp_path / "ours")
    assert isinstance(again.head, ClassificationHead)
    assert again.head.pooling == "mean"
    assert again.labels == ("a", "b", "c")
    assert again.head_trained
    assert same(logits_of(again), logits_of(adapted))


def test_old_heads_and_old_copies_do_not_stay_beside_new_weights(
    parts: Parts, tmp_path: Path
) -> None:
    save_parts(with_mean_head(parts), tmp_path / "ours")
    (tmp_path / "ours" / "int8.safetensors").touch()
    assert (tmp_path / "ours" / HEAD_NAME).exists()
    save_parts(dataclasses.replace(parts, head=None), tmp_path / "ours", overwrite=True)
    assert not (tmp_path / "ours" / HEAD_NAME).exists()
    assert not (tmp_path / "ours" / "int8.safetensors").exists()
    assert load_parts(tmp_path / "ours").head is None


def test_a_described_head_must_be_there_and_be_that_head(parts: Parts, tmp_path: Path) -> None:
    save_parts(with_mean_head(parts), tmp_path)
    head = {**json_of(tmp_path / SETTINGS_NAME)}["head"]
    assert isinstance(head, dict)
    edit_json(tmp_path / SETTINGS_NAME, head={**head, "num_labels": 4})
    with pytest.raises(
        CheckpointError, match=r"does not hold the head .* output\.bias, output\.weight"
    ):
        load_parts(tmp_path)
    (tmp_path / HEAD_NAME).unlink()
    with pytest.raises(CheckpointError, match=r"describes a head, but .* is not there"):
        load_parts(tmp_path)


def test_another_number_of_labels_than_outputs_is_an_error(parts: Parts, tmp_path: Path) -> None:
    save_parts(with_mean_head(parts), tmp_path)
    edit_json(tmp_path / SETTINGS_NAME, labels=["a", "b"])
    edit_json(tmp_path / "config.json", id2label=None, label2id=None)
    with pytest.raises(CheckpointError, match="has 3 outputs, and there are 2 labels"):
        load_parts(tmp_path)


def test_an_untrained_head_stays_untrained_on_the_disk(parts: Parts, tmp_path: Path) -> None:
    adapted = adapt(parts, new_head(parts, "sequence", 2))
    save_parts(adapted, tmp_path / "ours")
    again = load_parts(tmp_path / "ours")
    assert not again.head_trained
    assert again.report.untrained == ("head",)
    save_parts(again.trained(), tmp_path / "ours", overwrite=True)
    assert load_parts(tmp_path / "ours").head_trained


def test_dropout_that_was_changed_is_saved(parts: Parts, tmp_path: Path) -> None:
    head = ClassificationHead(24, 2, dropout=0.35)
    save_parts(adapt(parts, head), tmp_path / "ours")
    assert json_of(tmp_path / "ours" / "config.json")["classifier_dropout"] == 0.35
    assert load_parts(tmp_path / "ours").config.dropout.classifier == 0.35


def test_what_else_bothways_json_holds_is_kept(parts: Parts, tmp_path: Path) -> None:
    settings = {"task": {"name": "classify"}, "provenance": {"seed": 3}, "unknown": [1]}
    save_parts(dataclasses.replace(parts, settings=settings), tmp_path / "ours")
    again = load_parts(tmp_path / "ours").settings
    assert {key: again[key] for key in settings} == settings


def test_a_readme_that_is_there_stays_unless_there_are_facts(parts: Parts, tmp_path: Path) -> None:
    readme = tmp_path / "theirs" / "README.md"
    readme.write_text("theirs")
    save_parts(parts, tmp_path / "theirs", overwrite=True)
    assert readme.read_text() == "theirs"
    save_parts(parts, tmp_path / "theirs", overwrite=True, card=CardFacts("Topics"))
    assert "# Topics" in readme.read_text()
    assert "Reads at most 40 tokens" in readme.read_text()


def test_a_new_model_of_a_published_shape_is_saved_as_that(tmp_path: Path) -> None:
    import transformers

    parts = new_parts(TINY)
    save_parts(parts, tmp_path / "ours")
    assert parts.in_transformers() == "in transformers: BertModel, same numbers"
    theirs = transformers.BertModel.from_pretrained(tmp_path / "ours")
    assert theirs.config.num_hidden_layers == 1
    assert same(hidden_of(load_parts(tmp_path / "ours")), hidden_of(parts))


def test_a_new_model_of_no_published_shape_is_saved_too(tmp_path: Path) -> None:
    config = build_config(vocab_size=61, hidden_size=16, num_heads=2, num_layers=2)
    parts = new_parts(config, encoder=Encoder(config))
    head = MaskedLMHead(16, 16, 61)
    parts = adapt(parts, head).trained()
    assert "no published family" in parts.in_transformers()
    save_parts(parts, tmp_path / "ours")
    again = load_parts(tmp_path / "ours")
    assert again.config == config
    assert again.masked_lm is not None
    assert again.masked_lm.output.weight is again.encoder.embeddings.words.weight
    assert same(logits_of(again), logits_of(parts))
    save_parts(again, tmp_path / "twice")
    assert (tmp_path / "twice" / HEAD_NAME).read_bytes() == (
        tmp_path / "ours" / HEAD_NAME
    ).read_bytes()


def test_training_a_loaded_model_does_not_touch_its_files(parts: Parts, tmp_path: Path) -> None:
    path = tmp_path / "theirs" / "model.safetensors"
    before = path.read_bytes()
    optimizer = torch.optim.SGD(parts.encoder.parameters(), lr=0.1)
    hidden = hidden_of(parts)
    parts.encoder.train()
    from tests.checkpoints.models import batch

    output = parts.encoder(batch())
    assert output.pooled is not None
    (output.last_hidden.square().sum() + output.pooled.sum()).backward()
    assert all(parameter.grad is not None for parameter in parts.encoder.parameters())
    optimizer.step()
    parts.encoder.eval()
    assert not same(hidden_of(parts), hidden)
    assert path.read_bytes() == before
