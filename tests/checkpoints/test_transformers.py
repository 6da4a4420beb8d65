"""transformers' models give the same numbers here, and ours give the same numbers there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.testing import assert_close

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from tests.checkpoints.models import (
    TOLERANCE,
    batch,
    hidden_of,
    inputs,
    kept,
    logits_of,
    read_tensors,
    same,
    save_theirs,
    theirs_of,
)

SEQUENCE_HEADS = (
    "BertForSequenceClassification",
    "BertForNextSentencePrediction",
)
TOKEN_HEADS = ("BertForMaskedLM", "BertForTokenClassification")


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert_close(ours, theirs, atol=TOLERANCE, rtol=TOLERANCE)


def reloaded(folder: Path, name: str) -> Any:
    """transformers' reading of a folder, which must find every tensor it wants."""
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize("pooler", [True, False])
def test_a_bare_encoder_both_ways(tmp_path: Path, pooler: bool) -> None:
    options: dict[str, Any] = {} if pooler else {"pooler": False}
    theirs = theirs_of(save_theirs(tmp_path / "theirs", **options))
    parts = load_parts(tmp_path / "theirs")
    assert (parts.encoder.pooler is not None) == pooler
    assert ("pooler" in parts.report.missing) != pooler
    close(hidden_of(parts), kept(theirs.last_hidden_state))
    save_parts(parts, tmp_path / "ours")
    kind: Any = transformers.BertModel
    again = kind.from_pretrained(tmp_path / "ours", add_pooling_layer=pooler).eval()
    with torch.no_grad():
        output = again(**inputs())
    assert same(output.last_hidden_state, theirs.last_hidden_state)
    if pooler:
        pooled = parts.encoder(batch()).pooled
        assert pooled is not None
        close(pooled.detach(), theirs.pooler_output)
        assert same(output.pooler_output, theirs.pooler_output)


@pytest.mark.parametrize("name", SEQUENCE_HEADS)
def test_heads_over_sequences_both_ways(tmp_path: Path, name: str) -> None:
    theirs = theirs_of(save_theirs(tmp_path / "theirs", name)).logits
    parts = load_parts(tmp_path / "theirs")
    assert parts.architecture == name
    close(logits_of(parts), theirs)
    save_parts(parts, tmp_path / "ours")
    assert same(theirs_of(reloaded(tmp_path / "ours", name)).logits, theirs)


@pytest.mark.parametrize("name", TOKEN_HEADS)
def test_heads_over_tokens_both_ways(tmp_path: Path, name: str) -> None:
    theirs = theirs_of(save_theirs(tmp_path / "theirs", name, num_labels=5)).logits
    parts = load_parts(tmp_path / "theirs")
    close(logits_of(parts), kept(theirs))
    save_parts(parts, tmp_path / "ours")
    assert same(theirs_of(reloaded(tmp_path / "ours", name)).logits, theirs)


def test_an_answer_head_both_ways(tmp_path: Path) -> None:
    name = "BertForQuestionAnswering"
    theirs = theirs_of(save_theirs(tmp_path / "theirs", name))
    both = torch.stack([theirs.start_logits, theirs.end_logits], dim=-1)
    parts = load_parts(tmp_path / "theirs")
    assert parts.labels == ()
    close(logits_of(parts), kept(both))
    save_parts(parts, tmp_path / "ours")
    again = theirs_of(reloaded(tmp_path / "ours", name))
    assert same(again.start_logits, theirs.start_logits)


def test_a_choice_head_both_ways(tmp_path: Path) -> None:
    name = "BertForMultipleChoice"
    model = save_theirs(tmp_path / "theirs", name)
    given = {key: value[None] for key, value in inputs().items()}
    with torch.no_grad():
        theirs = model(**given).logits
    parts = load_parts(tmp_path / "theirs")
    close(logits_of(parts).T, theirs)
    save_parts(parts, tmp_path / "ours")
    with torch.no_grad():
        assert same(reloaded(tmp_path / "ours", name)(**given).logits, theirs)


def test_a_pretraining_head_both_ways(tmp_path: Path) -> None:
    name = "BertForPreTraining"
    theirs = theirs_of(save_theirs(tmp_path / "theirs", name))
    parts = load_parts(tmp_path / "theirs")
    close(logits_of(parts), kept(theirs.prediction_logits))
    assert parts.masked_lm is not None
    assert parts.masked_lm.relation is not None
    with torch.no_grad():
        relation = parts.masked_lm.relation(parts.encoder(batch()), batch())
    close(relation, theirs.seq_relationship_logits)
    save_parts(parts, tmp_path / "ours")
    again = theirs_of(reloaded(tmp_path / "ours", name))
    assert same(again.prediction_logits, theirs.prediction_logits)
    assert same(again.seq_relationship_logits, theirs.seq_relationship_logits)


def test_a_masked_lm_head_that_is_not_tied_both_ways(tmp_path: Path) -> None:
    """With the ties cut, transformers adds the second of two biases and leaves the first out."""
    name = "BertForMaskedLM"
    model = save_theirs(tmp_path / "theirs", name, tie_word_embeddings=False)
    assert not torch.equal(model.cls.predictions.bias, model.cls.predictions.decoder.bias)
    theirs = theirs_of(model).logits
    parts = load_parts(tmp_path / "theirs")
    assert "differs" in parts.report.ignored["cls.predictions.bias"]
    close(logits_of(parts), kept(theirs))
    save_parts(parts, tmp_path / "ours")
    assert same(theirs_of(reloaded(tmp_path / "ours", name)).logits, theirs)


def test_gradients_are_the_same_through_head_and_table(tmp_path: Path) -> None:
    model = save_theirs(tmp_path, "BertForMaskedLM")
    parts = load_parts(tmp_path)
    assert parts.head is not None
    kept(model(**inputs()).logits).square().sum().backward()
    parts.head(parts.encoder(batch()), batch()).square().sum().backward()
    ours = parts.encoder.embeddings.words.weight.grad
    theirs = model.bert.embeddings.word_embeddings.weight.grad
    assert ours is not None
    assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_every_tensor_comes_back_with_its_bits(tmp_path: Path) -> None:
    save_theirs(tmp_path / "theirs", "BertForPreTraining")
    save_parts(load_parts(tmp_path / "theirs"), tmp_path / "ours")
    theirs, ours = read_tensors(tmp_path / "theirs"), read_tensors(tmp_path / "ours")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_every_key_of_the_configuration_comes_back(tmp_path: Path) -> None:
    save_theirs(tmp_path / "theirs", "BertForSequenceClassification", num_labels=3, foo="kept")
    save_parts(load_parts(tmp_path / "theirs"), tmp_path / "ours")
    theirs = json.loads((tmp_path / "theirs" / "config.json").read_text())
    ours = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert ours == theirs
    assert ours["foo"] == "kept"


def test_shards_both_ways(tmp_path: Path) -> None:
    theirs = theirs_of(save_theirs(tmp_path / "theirs", "BertForMaskedLM", max_shard_size="20KB"))
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 2
    parts = load_parts(tmp_path / "theirs")
    close(logits_of(parts), kept(theirs.logits))
    save_parts(parts, tmp_path / "ours", max_shard_size=15_000)
    assert len(list((tmp_path / "ours").glob("model-*.safetensors"))) > 3
    again = theirs_of(reloaded(tmp_path / "ours", "BertForMaskedLM"))
    assert same(again.logits, theirs.logits)
    assert same(logits_of(load_parts(tmp_path / "ours")), logits_of(parts))


def test_half_precision_is_read_exactly_and_written_as_it_is_held(tmp_path: Path) -> None:
    model = save_theirs(tmp_path / "theirs").to(torch.bfloat16)
    model.save_pretrained(tmp_path / "theirs")
    parts = load_parts(tmp_path / "theirs")
    assert parts.report.stored_dtypes == ("BF16",)
    ours = parts.encoder.embeddings.words.weight
    assert ours.dtype == torch.float32
    assert torch.equal(ours, model.embeddings.word_embeddings.weight.float())
    save_parts(parts, tmp_path / "float")
    assert json.loads((tmp_path / "float" / "config.json").read_text())["dtype"] == "float32"
    half = load_parts(tmp_path / "theirs", dtype=torch.float16)
    assert {p.dtype for p in half.encoder.parameters()} == {torch.float16}
