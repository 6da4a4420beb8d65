"""What is trained: presets over a tokenizer, loaded models, new words, generators."""

from __future__ import annotations

import dataclasses
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.checkpoints.save import save_parts
from bothways.data.manifest import Manifest
from bothways.errors import DataError, UsageError
from bothways.families.presets import PRESETS, preset
from bothways.tokenization.added import with_words
from bothways.tokenization.tokenizer import Tokenizer
from bothways.training.masked_lm import MaskedLMObjective
from bothways.training.networks import (
    GENERATOR,
    Networks,
    begin_at_frequencies,
    build_networks,
    fitted,
    vocabulary,
    with_new_words,
)
from bothways.training.pretrain_saving import Outcome, save_pretrained
from bothways.training.replaced import AddedTable, ReplacedTokenObjective, Sharing
from bothways.training.state import Progress, named_tensors
from tests.data.corpora import tokenizer
from tests.training.masks import masked_batch
from tests.training.pretraining import text_settings


def build(name: str = "tiny", *, reads: Tokenizer | None = None, **changes: Any) -> Networks:
    settings = text_settings(Path("s"), Path("o"), preset=name, **changes).filled()
    torch.manual_seed(0)
    return build_networks(settings, reads or tokenizer(), None)


def continued(base: Parts, **changes: Any) -> Networks:
    settings = text_settings(Path("s"), Path("o"), from_="model", **changes).filled()
    assert base.tokenizer is not None
    return build_networks(settings, base.tokenizer, base)


# Nats that the random weights of a new model add to the loss of guessing by frequency.
RANDOM_WEIGHTS = 0.1


SMALL = [name for name, config in PRESETS.items() if config.hidden_size <= 256]


@pytest.mark.parametrize("name", ["tiny", "modern-tiny", "electra-small"])
def test_a_new_head_begins_with_how_frequent_pieces_are(name: str) -> None:
    made = build(name)
    # Every piece of the texts below is a hundred times as frequent as any other.
    counts = np.full(380, 1, np.int64)
    batch = masked_batch(made.parts.config.with_vocab_size(24), [30, 20])
    counts[5:24] = 199
    begin_at_frequencies(made, counts)
    with torch.no_grad():
        loss = made.objective(batch)[0] / made.objective.counts(batch)[0]
    shares = (counts + 1) / (counts + 1).sum()
    assert float(loss) == pytest.approx(-np.log(shares[5]), abs=RANDOM_WEIGHTS)
    assert float(loss) < np.log(400) - 1.0


@pytest.mark.parametrize("name", SMALL)
def test_presets_take_their_vocabulary_from_the_tokenizer(name: str) -> None:
    made = build(name)
    assert made.parts.config.embeddings.vocab_size == 400
    assert made.parts.config.embeddings.usable_positions == preset(name).embeddings.usable_positions
    replaced = name == "electra-small"
    assert isinstance(made.objective, ReplacedTokenObjective if replaced else MaskedLMObjective)
    assert (made.generator is not None) == replaced
    assert made.parts.encoder.pooler is None


def test_positions_start_after_the_padding_id_of_the_tokenizer() -> None:
    config = fitted(preset("roberta-base"), tokenizer())
    axis = config.embeddings
    assert axis.pad_id is not None
    assert axis.pad_id == tokenizer().pad_id
    assert axis.position_start == axis.pad_id + 1
    assert axis.usable_positions == 512


def test_weights_are_a_function_of_the_seed() -> None:
    one, other = (named_tensors(build("electra-small").objective) for _ in range(2))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_dropout_is_set_in_encoder_and_generator() -> None:
    made = build("electra-small", network__hidden_dropout=0.25, network__attention_dropout=0.0)
    assert made.generator is not None
    for config in (made.parts.config, made.generator.config):
        assert (config.dropout.hidden, config.dropout.attention) == (0.25, 0.0)


def test_relations_bring_a_pooler_and_a_second_output() -> None:
    made = build("mini", objective__relation="next-sentence")
    assert made.parts.encoder.pooler is not None
    assert made.parts.architecture == "BertForPreTraining"
    assert [part.name for part in made.objective.parts][2:] == ["relation", "relation_accuracy"]
    with pytest.raises(UsageError, match="modern-mini has none; take a BERT with one"):
        build("modern-mini", objective__relation="next-sentence")
    with pytest.raises(UsageError, match="goes with --goal masked-lm, and electra-small"):
        build("electra-small", objective__relation="next-sentence")


def test_any_preset_can_detect_replaced_tokens_and_any_sharing_serves() -> None:
    made = build("tiny", objective__goal="replaced", objective__sharing="disentangled")
    assert made.generator is not None
    assert made.generator.config.num_layers == 1
    table = made.parts.encoder.embeddings.words
    assert isinstance(table, AddedTable)
    assert not table.added.any()
    trained = made.trained()
    assert trained.parts.head_trained
    assert not isinstance(trained.parts.encoder.embeddings.words, AddedTable)


def test_a_new_configuration_has_the_ids_of_its_tokenizer() -> None:
    """Where they are absent transformers takes those of the published vocabulary."""
    ids, reads = build("modern-tiny").parts.raw, tokenizer()
    assert (ids["bos_token_id"], ids["cls_token_id"]) == (reads.cls_id, reads.cls_id)
    assert (ids["eos_token_id"], ids["sep_token_id"]) == (reads.sep_id, reads.sep_id)


# --- going on with a model --------------------------------------------------------------------


def saved(folder: Path, *, masked_lm: bool = True) -> Parts:
    torch.manual_seed(1)
    config = dataclasses.replace(fitted(preset("tiny"), tokenizer()), pooler=False)
    parts = new_parts(config, tokenizer=tokenizer())
    if masked_lm:
        parts = adapt(parts, new_head(parts, "masked_lm", 0))
    save_parts(parts.trained(), folder)
    return load_parts(folder)


def test_a_loaded_model_is_copied(tmp_path: Path) -> None:
    base = saved(tmp_path)
    before = {name: value.clone() for name, value in base.encoder.state_dict().items()}
    made = continued(base)
    for parameter in made.objective.parameters():
        with torch.no_grad():
            parameter.add_(1.0)
    assert all(torch.equal(base.encoder.state_dict()[name], before[name]) for name in before)
    head = made.parts.masked_lm
    assert head is not None
    assert head.output.weight is made.parts.encoder.embeddings.words.weight


def test_a_model_without_a_masked_lm_head_gets_one_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = continued(saved(tmp_path, masked_lm=False))
    assert made.parts.masked_lm is not None
    assert "has no masked-LM head" in caplog.text


def test_a_generator_beside_the_model_is_gone_on_with(tmp_path: Path) -> None:
    made = build("electra-small").trained()
    assert made.generator is not None
    save_parts(made.parts, tmp_path)
    save_parts(made.generator, tmp_path / GENERATOR)
    again = continued(load_parts(tmp_path), objective__sharing="embeddings")
    assert isinstance(again.objective, ReplacedTokenObjective)
    assert again.generator is not None
    for parts, other in ((made.parts, again.parts), (made.generator, again.generator)):
        ours, theirs = parts.encoder.state_dict(), other.encoder.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert isinstance(again.parts.head, type(made.parts.head))


@pytest.mark.parametrize("sharing", ["embeddings", "disentangled"])
def test_sharing_goes_on_and_nothing_that_was_learned_is_lost(
    tmp_path: Path, sharing: Sharing
) -> None:
    made = build("tiny", objective__goal="replaced", objective__sharing=sharing)
    if sharing == "disentangled":
        table = made.parts.encoder.embeddings.words
        assert isinstance(table, AddedTable)
        torch.nn.init.normal_(table.added)
    learned = made.parts.encoder.embeddings.words.weight.detach().clone()
    made, output = made.trained(), tmp_path / "model"
    settings = text_settings(Path("s"), output, preset="tiny", objective__goal="replaced").filled()
    output.mkdir()
    line = {"step": 1, "split": "train", "loss": 9.0, "tokens": 1}
    (output / "metrics.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    manifest = Manifest("f", 400, {}, {}, {})
    save_pretrained(settings, made, Outcome(Progress(), 1, {}, {}, None, manifest))
    again = continued(load_parts(output))
    assert isinstance(again.objective, ReplacedTokenObjective)
    assert again.objective.sharing == sharing
    assert torch.allclose(again.parts.encoder.embeddings.words.weight, learned)


def test_what_a_model_cannot_learn_is_refused_before_text_is_read(tmp_path: Path) -> None:
    settings = partial(text_settings, Path("no shards"), tmp_path / "o", from_="base")
    base = saved(tmp_path / "base")
    with pytest.raises(UsageError, match="needs a generator.*--goal masked-lm"):
        vocabulary(settings(objective__goal="replaced"), base)
    with pytest.raises(UsageError, match="base has none; take a BERT with one"):
        vocabulary(settings(objective__relation="sentence-order"), base)
    made = build("electra-small").trained()
    assert made.generator is not None
    save_parts(made.generator, tmp_path / "base" / GENERATOR)
    with pytest.raises(UsageError, match="does not know --new-words"):
        vocabulary(settings(objective__goal="replaced", corpus__new_words=Path("w")), base)


def test_a_file_of_new_words_that_is_not_there_is_named(tmp_path: Path) -> None:
    base, words = saved(tmp_path / "base"), tmp_path / "no.txt"
    read: dict[str, Any] = {"corpus__data": None, "corpus__input": ("a.txt",)}
    settings = text_settings(Path(), tmp_path, from_="base", corpus__new_words=words, **read)
    with pytest.raises(DataError, match=r"there is no file .*no\.txt"):
        vocabulary(settings, base)


# --- new words --------------------------------------------------------------------------------


def test_new_words_begin_as_the_mean_of_their_pieces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    base = saved(tmp_path)
    bigger, pieces = with_words(tokenizer(), ["Bafideagon", "lusmerpa"])
    assert len(pieces) == 2
    parts = with_new_words(base, bigger, pieces)
    table, old = parts.encoder.embeddings.words.weight, base.encoder.embeddings.words.weight
    assert table.shape == (402, 128)
    assert torch.equal(table[:400], old)
    for token, read in pieces.items():
        torch.testing.assert_close(table[token], old[read].mean(0))
    head, before = parts.masked_lm, base.masked_lm
    assert head is not None
    assert before is not None
    assert head.output.weight is table
    assert head.output.bias.shape == (402,)
    assert torch.equal(head.output.bias[:400], before.output.bias)
    assert base.config.embeddings.vocab_size == 400  # as it was


def test_a_model_with_new_words_is_saved_and_read_again(tmp_path: Path) -> None:
    from transformers import BertForMaskedLM

    bigger, pieces = with_words(tokenizer(), ["Bafideagon"])
    parts = with_new_words(saved(tmp_path / "old"), bigger, pieces)
    save_parts(parts, tmp_path / "new")
    again = load_parts(tmp_path / "new")
    assert torch.equal(again.encoder.embeddings.words.weight, parts.encoder.embeddings.words.weight)
    assert again.tokenizer is not None
    assert again.tokenizer.encode("Bafideagon").ids[1] in pieces
    assert BertForMaskedLM.from_pretrained(tmp_path / "new").config.vocab_size == 401
