"""Scores on held-out text: the same twice, and what they say."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from bothways.model.layout import Batch
from bothways.training.dropout import with_dropout
from bothways.training.held_out import score_held_out, unigram_loss
from bothways.training.masked_lm import MASKED, ORIGINALS, MaskedLMObjective
from bothways.training.runtime import Runtime
from tests.training.masks import masked_batch
from tests.training.test_masked_lm import masked_parts, objective_of, without_dropout
from tests.training.test_replaced import made, small_config


def objective(relations: int = 0) -> MaskedLMObjective:
    parts = masked_parts(without_dropout("tiny"), relations)
    encoder = with_dropout(parts.encoder, {"hidden": 0.3})
    return objective_of(dataclasses.replace(parts, encoder=encoder)).train()


def batches(count: int = 3) -> list[Batch]:
    config = without_dropout("tiny")
    return [masked_batch(config, [7, 9, 4], seed=seed) for seed in range(count)]


def test_the_same_number_twice_with_dropout_off_and_back_on() -> None:
    """transformers#36357, PR#1633: the evaluation of masked LMs changed from run to run."""
    scored, runtime = objective(), Runtime(device="cpu")
    torch.manual_seed(1)
    first = score_held_out(scored, batches(), runtime)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = score_held_out(scored, batches(), runtime)
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    assert scored.training
    with torch.no_grad():
        assert not torch.equal(scored(batches()[0]), scored(batches()[0]))  # dropout is on


def test_the_loss_is_over_all_masked_tokens_and_perplexity_is_its_power() -> None:
    scored = objective()
    found = score_held_out(scored, batches(), Runtime(device="cpu"))
    assert list(found) == ["loss", "perplexity", "accuracy"]
    scored.eval()
    with torch.no_grad():
        sums = torch.stack([scored(batch) for batch in batches()]).sum(0)
    masked = sum(len(batch.targets[MASKED]) for batch in batches())
    assert found["loss"] == pytest.approx(sums[0].item() / masked, rel=1e-6)
    assert found["accuracy"] == sums[1].item() / masked
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert 40 < found["perplexity"] < 200  # new weights guess about evenly, among 60


def test_every_part_is_scored_where_there_are_several_losses() -> None:
    found = score_held_out(objective(relations=2), batches(), Runtime(device="cpu"))
    assert found["loss"] == pytest.approx(found["masked_lm"] + found["relation"])
    assert 0.0 <= found["relation_accuracy"] <= 1.0
    detecting = made().train()
    ones = [masked_batch(small_config(), [8, 8], seed=seed) for seed in range(2)]
    once, twice = (score_held_out(detecting, ones, Runtime(device="cpu")) for _ in range(2))
    assert once == twice  # what the generator draws, too
    assert once["loss"] == pytest.approx(once["masked_lm"] + 50 * once["replaced"])


def test_guessing_by_frequency_by_hand() -> None:
    counts = np.zeros(60, np.int64)
    counts[10] = 38  # with one added to each, 39 of 98
    batch = masked_batch(without_dropout("tiny"), [6])
    targets = {MASKED: torch.tensor([1, 2]), ORIGINALS: torch.tensor([10, 11])}
    batch = dataclasses.replace(batch, targets=targets)
    expected = -(math.log(39 / 98) + math.log(1 / 98)) / 2
    assert unigram_loss(counts, [batch]) == pytest.approx(expected)
    nothing = {MASKED: torch.tensor([], dtype=torch.long), ORIGINALS: torch.tensor([])}
    assert math.isnan(unigram_loss(counts, [dataclasses.replace(batch, targets=nothing)]))
