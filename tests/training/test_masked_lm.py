"""Masked language modelling: the loss is transformers', over masked tokens and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertForMaskedLM, BertForPreTraining

from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import TrainingError
from bothways.families.presets import PRESETS
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.training.estimate import forward_flops, head_flops
from bothways.training.masked_lm import MASKED, ORIGINALS, RELATION, MaskedLMObjective
from tests.training.masks import masked_batch

# The same float32 equations, summed in another order.
SAME = 1e-5
LENGTHS = [9, 4, 12, 9, 3]


def without_dropout(name: str, vocab_size: int = 60) -> EncoderConfig:
    config = PRESETS[name].with_vocab_size(vocab_size)
    off = dataclasses.replace(config.dropout, hidden=0.0, attention=0.0, classifier=0.0)
    return dataclasses.replace(config, dropout=off, initializer_range=0.1)


def masked_parts(config: EncoderConfig, relations: int = 0, seed: int = 0) -> Parts:
    torch.manual_seed(seed)
    parts = new_parts(config)
    if not relations:
        return adapt(parts, new_head(parts, "masked_lm", 0)).trained()
    head = MaskedLMHead(
        config.hidden_size, config.embeddings.size, config.embeddings.vocab_size, num_relations=2
    )
    return adapt(parts, head, kind="masked_lm").trained()


def objective_of(parts: Parts) -> MaskedLMObjective:
    assert parts.masked_lm is not None
    return MaskedLMObjective(parts.encoder, parts.masked_lm)


def padded(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and labels as transformers takes them."""
    labels = torch.full_like(batch.ids, -100)
    labels[batch.targets[MASKED]] = batch.targets[ORIGINALS]
    ids, labels = (
        torch.nn.utils.rnn.pad_sequence(batch.layout.split(rows), True, value)
        for rows, value in ((batch.ids, 0), (labels, -100))
    )
    mask = torch.arange(ids.shape[1]) < torch.tensor(batch.layout.lengths)[:, None]
    return ids, mask.long(), labels


def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    config = dataclasses.replace(without_dropout("tiny"), pooler=False)
    parts = masked_parts(config)
    save_parts(parts, tmp_path)
    theirs = BertForMaskedLM.from_pretrained(tmp_path).train()
    batch = masked_batch(config, LENGTHS)
    ids, mask, labels = padded(batch)
    expected = theirs(input_ids=ids, attention_mask=mask, labels=labels).loss
    objective = objective_of(parts).train()
    sums, counts = objective(batch), objective.counts(batch)
    loss = sums[0] / counts[0]
    assert loss.item() == pytest.approx(expected.item(), rel=SAME)
    torch.autograd.backward(expected)
    torch.autograd.backward(loss)
    assert objective.head.dense is not None
    for ours, name in (
        (parts.encoder.embeddings.words.weight, "bert.embeddings.word_embeddings.weight"),
        (
            parts.encoder.get_parameter("layers.1.attention.value.weight"),
            "bert.encoder.layer.1.attention.self.value.weight",
        ),
        (objective.head.dense.weight, "cls.predictions.transform.dense.weight"),
        (objective.head.output.bias, "cls.predictions.bias"),
    ):
        torch.testing.assert_close(ours.grad, theirs.get_parameter(name).grad, rtol=1e-4, atol=SAME)


def test_relations_are_those_of_transformers(tmp_path: Path) -> None:
    config = without_dropout("tiny")
    parts = masked_parts(config, relations=2)
    save_parts(parts, tmp_path)
    theirs = BertForPreTraining.from_pretrained(tmp_path).train(False)
    batch = masked_batch(config, LENGTHS)
    ids, mask, labels = padded(batch)
    with torch.no_grad():
        expected = theirs(
            input_ids=ids,
            attention_mask=mask,
            labels=labels,
            next_sentence_label=batch.targets[RELATION],
        )
        objective = objective_of(parts).eval()
        sums, counts = objective(batch), objective.counts(batch)
    means = dict(
        zip(
            (part.name for part in objective.parts),
            (sums / torch.tensor(counts)).tolist(),
            strict=True,
        )
    )
    loss = means["masked_lm"] + means["relation"]
    assert loss == pytest.approx(expected.loss.item(), rel=SAME)
    logits = expected.seq_relationship_logits
    right = (logits.argmax(1) == batch.targets[RELATION]).float().mean()
    assert means["relation_accuracy"] == pytest.approx(right.item())


@pytest.mark.parametrize("name", ["tiny", "modern-mini", "electra-small"])
def test_only_masked_tokens_count(name: str) -> None:
    config = without_dropout(name)
    objective = objective_of(masked_parts(config)).eval()
    batch = masked_batch(config, LENGTHS)
    with torch.no_grad():
        output = objective.encoder(batch)
        logits = objective.head(output, batch)[batch.targets[MASKED]]
        sums = objective(batch)
    expected = F.cross_entropy(logits, batch.targets[ORIGINALS], reduction="sum")
    assert sums[0].item() == pytest.approx(expected.item(), rel=SAME)
    assert sums[1].item() == (logits.argmax(1) == batch.targets[ORIGINALS]).sum()
    assert objective.counts(batch) == (len(logits), len(logits))


def test_the_table_is_one(tmp_path: Path) -> None:
    """Tied weights get the sum of both gradients, and stand once among the parameters."""
    parts = masked_parts(without_dropout("tiny"))
    objective = objective_of(parts)
    assert objective.head.output.weight is parts.encoder.embeddings.words.weight
    table = parts.encoder.embeddings.words.weight
    assert sum(p is table for p in objective.parameters()) == 1
    batch = masked_batch(parts.config, LENGTHS)
    torch.autograd.backward(objective(batch)[0])
    assert table.grad is not None
    unread = sorted(set(range(60)) - set(batch.ids.tolist()))
    assert table.grad[unread].abs().sum() > 0  # as words that might have been guessed


def test_a_batch_without_masks_is_no_loss() -> None:
    config = without_dropout("tiny")
    batch = masked_batch(config, LENGTHS, share=0.0)
    objective = objective_of(masked_parts(config))
    sums = objective(batch)
    assert sums.tolist() == [0.0, 0.0]
    assert objective.counts(batch) == (0, 0)
    torch.autograd.backward(sums.sum())


def test_flops_count_the_vocabulary_for_masked_tokens_only() -> None:
    config = without_dropout("tiny")
    objective = objective_of(masked_parts(config))
    batch = masked_batch(config, LENGTHS)
    masked = len(batch.targets[MASKED])
    after_mixing = 2 * (sum(LENGTHS) - masked) * (128 * 128 + 2 * 128 * 512)
    encoder = forward_flops(config, LENGTHS) - after_mixing
    head = 2 * masked * 128 * (128 + 60)
    assert head_flops(config, masked) == head
    assert objective.flops(batch) == 3 * (encoder + head)


def test_relations_need_a_pooler() -> None:
    config = dataclasses.replace(without_dropout("tiny"), pooler=False)
    head = MaskedLMHead(128, 128, 60, num_relations=2)
    with pytest.raises(TrainingError, match="pooler"):
        MaskedLMObjective(Encoder(config), head)
