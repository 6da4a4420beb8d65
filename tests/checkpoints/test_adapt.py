"""An encoder gets another head; what is random is said, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, needs_pooler, new_head, new_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import CheckpointError, ConfigError
from bothways.model.config import build_config
from bothways.model.heads import (
    ClassificationHead,
    MaskedLMHead,
    TokenHead,
    build_head,
    describe_head,
)
from tests.checkpoints.models import hidden_of, logits_of, same, save_theirs


def load(folder: Path, *, pooler: bool = True) -> Parts:
    if pooler:
        save_theirs(folder)
    else:
        save_theirs(folder, pooler=False)
    return load_parts(folder)


def test_a_new_head_is_random_and_says_so(tmp_path: Path) -> None:
    """transformers#8887, #8407: users overlook that a head is random."""
    parts = load(tmp_path)
    adapted = adapt(parts, new_head(parts, "sequence", 3), labels=("a", "b", "c"))
    assert adapted.report.untrained == ("head",)
    assert "random" in adapted.report.missing["head"]
    assert not adapted.head_trained
    assert adapted.trained().head_trained
    assert parts.head_trained
    assert parts.head is None


def test_outputs_without_names_are_counted_in_the_configuration(tmp_path: Path) -> None:
    parts = load(tmp_path / "old")
    save_parts(adapt(parts, new_head(parts, "sequence", 3)), tmp_path / "new")
    again = BertForSequenceClassification.from_pretrained(tmp_path / "new")
    assert again.config.num_labels == 3
    assert load_parts(tmp_path / "new").labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_new_weights_have_the_deviation_of_the_configuration(tmp_path: Path) -> None:
    parts = load(tmp_path)
    head = adapt(parts, new_head(parts, "sequence", 400)).head
    assert isinstance(head, ClassificationHead)
    # 9,600 draws: the deviation is off by less than 3 % with near certainty.
    assert head.output.weight.std().item() == pytest.approx(0.2, rel=0.03)
    assert not head.output.bias.any()


def test_an_encoder_without_a_pooler_gets_a_random_one_where_the_head_reads_it(
    tmp_path: Path,
) -> None:
    parts = load(tmp_path, pooler=False)
    adapted = adapt(parts, new_head(parts, "sequence", 2))
    assert adapted.report.untrained == ("head", "pooler")
    assert adapted.encoder.pooler is not None
    assert adapted.config.pooler
    assert parts.encoder.pooler is None
    assert adapted.encoder.embeddings.words.weight is parts.encoder.embeddings.words.weight
    assert same(hidden_of(adapted), hidden_of(parts))
    save_parts(adapted, tmp_path / "ours")
    assert same(logits_of(load_parts(tmp_path / "ours")), logits_of(adapted))


def test_a_head_that_reads_no_pooler_makes_none(tmp_path: Path) -> None:
    parts = load(tmp_path, pooler=False)
    adapted = adapt(parts, new_head(parts, "sequence", 2, pooling="cls"))
    assert adapted.encoder is parts.encoder
    assert adapted.report.untrained == ("head",)


@pytest.mark.parametrize(
    ("pooling", "architecture", "line"),
    [
        ("pooler", "BertForSequenceClassification", "BertForSequenceClassification, same numbers"),
        ("cls", "BertModel", "encoder only .BertModel., because of the head .*pooling cls"),
        ("mean", "BertModel", "encoder only .BertModel., because of the head .*pooling mean"),
    ],
)
def test_the_pooling_decides_whether_transformers_has_a_class(
    tmp_path: Path, pooling: str, architecture: str, line: str
) -> None:
    import re

    parts = load(tmp_path)
    adapted = adapt(parts, new_head(parts, "sequence", 2, pooling=pooling))
    assert adapted.architecture == architecture
    assert re.search(line, adapted.in_transformers())


def test_heads_that_look_alike_are_told_apart_by_their_kind(tmp_path: Path) -> None:
    parts = load(tmp_path)
    answer = adapt(parts, new_head(parts, "answer", 2), kind="answer")
    assert answer.architecture == "BertForQuestionAnswering"
    token = adapt(parts, new_head(parts, "token", 2))
    assert token.architecture == "BertForTokenClassification"
    choice = adapt(parts, new_head(parts, "choice", 1), kind="choice")
    assert choice.architecture == "BertForMultipleChoice"
    save_parts(choice, tmp_path / "ours")
    assert load_parts(tmp_path / "ours").architecture == "BertForMultipleChoice"


def test_a_masked_lm_head_is_tied_and_the_table_keeps_its_values(tmp_path: Path) -> None:
    parts = load(tmp_path)
    before = parts.encoder.embeddings.words.weight.clone()
    adapted = adapt(parts, new_head(parts, "masked_lm", 0))
    assert adapted.masked_lm is not None
    assert adapted.masked_lm.output.weight is parts.encoder.embeddings.words.weight
    assert torch.equal(parts.encoder.embeddings.words.weight, before)
    assert adapted.architecture == "BertForMaskedLM"


def test_a_trained_head_keeps_its_weights(tmp_path: Path) -> None:
    parts = load(tmp_path)
    head = ClassificationHead(24, 2)
    before = head.output.weight.clone()
    adapted = adapt(parts, head, trained=True)
    assert torch.equal(head.output.weight, before)
    assert adapted.head_trained


def test_a_family_without_the_head_says_which_it_has(tmp_path: Path) -> None:
    parts = load(tmp_path)
    with pytest.raises(CheckpointError, match=r"BERT has no head of kind 'replaced'; it has: .*"):
        new_head(parts, "replaced", 1)
    own = new_parts(build_config(vocab_size=9, hidden_size=8, num_heads=2, num_layers=1))
    with pytest.raises(CheckpointError, match="it has: none"):
        new_head(own, "sequence", 2)


@pytest.mark.parametrize(
    "head",
    [
        ClassificationHead(8, 3, pooling="mean", dropout=0.2, dense="tanh"),
        TokenHead(8, 3, dense="gelu"),
        MaskedLMHead(8, 4, 11, activation="relu", num_relations=2),
    ],
)
def test_a_head_is_made_again_from_its_description(head: nn.Module) -> None:
    again = build_head(describe_head(head))
    assert describe_head(again) == describe_head(head)
    shapes = {name: value.shape for name, value in head.state_dict().items()}
    assert {name: value.shape for name, value in again.state_dict().items()} == shapes


def test_heads_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(ConfigError, match="no head is of kind 'tokne'; did you mean 'token'"):
        build_head({"kind": "tokne"})
    with pytest.raises(ConfigError, match="cannot be built: .*num_labels"):
        build_head({"kind": "token", "hidden_size": 8})
    with pytest.raises(ConfigError, match="class Linear cannot be described"):
        describe_head(nn.Linear(2, 2))


def test_a_pooler_is_needed_by_a_part_of_a_head_too() -> None:
    assert needs_pooler(MaskedLMHead(8, 8, 11, num_relations=2))
    assert not needs_pooler(MaskedLMHead(8, 8, 11))
    assert not needs_pooler(ClassificationHead(8, 2, pooling="mean"))
