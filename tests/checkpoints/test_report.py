"""Every tensor of a file is accounted for, and what does not fit is said at once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import CheckpointError
from tests.checkpoints.models import (
    edit_json,
    hidden_of,
    logits_of,
    read_tensors,
    same,
    save_theirs,
    write_tensors,
)

TABLE = "bert.embeddings.word_embeddings.weight"
DECODER = "cls.predictions.decoder.weight"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    save_theirs(tmp_path / "bare")
    return tmp_path / "bare"


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    save_theirs(tmp_path / "masked", "BertForMaskedLM")
    return tmp_path / "masked"


def rename(folder: Path, old: str, new: str) -> None:
    write_tensors(folder, {k.replace(old, new): v for k, v in read_tensors(folder).items()})


def change(folder: Path, **tensors: torch.Tensor | None) -> None:
    content = {**read_tensors(folder), **{k.replace("__", "."): v for k, v in tensors.items()}}
    write_tensors(folder, {k: v for k, v in content.items() if v is not None})


def test_more_layers_than_a_file_can_hold_are_refused_before_they_are_built(bare: Path) -> None:
    edit_json(bare / "config.json", num_hidden_layers=9_999)
    with pytest.raises(CheckpointError, match=r"asks for 9,999 layers .* holds 55 tensors in all"):
        load_parts(bare)


def test_every_tensor_of_a_plain_file_is_loaded(bare: Path) -> None:
    report = load_parts(bare).report
    assert set(report.loaded) == set(read_tensors(bare))
    assert (report.unexpected, report.missing, report.mismatched) == ((), {}, {})
    assert report.head_trained
    assert "loaded" in report.summary()


def test_the_report_is_plain_json(masked: Path) -> None:
    report = load_parts(masked).report.as_dict()
    assert json.loads(json.dumps(report)) == report
    assert report["tied"] == {"output.weight": "embeddings.words.weight"}


def test_old_names_of_norms_are_read_and_listed(masked: Path) -> None:
    before = logits_of(load_parts(masked))
    rename(masked, "LayerNorm.weight", "LayerNorm.gamma")
    rename(masked, "LayerNorm.bias", "LayerNorm.beta")
    parts = load_parts(masked)
    assert same(logits_of(parts), before)
    assert len(parts.report.aliases) == 16
    assert parts.report.aliases["bert.embeddings.LayerNorm.gamma"] == (
        "bert.embeddings.LayerNorm.weight"
    )


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_the_prefix_may_be_there_or_not(masked: Path, bare: Path, prefix: str) -> None:
    before = hidden_of(load_parts(masked))
    rename(masked, "bert.", prefix)
    assert same(hidden_of(load_parts(masked)), before)
    write_tensors(bare, {prefix + k: v for k, v in read_tensors(bare).items()})
    assert load_parts(bare).report.unexpected == ()


def test_an_encoder_under_a_foreign_prefix_is_not_left_out_in_silence(bare: Path) -> None:
    """transformers#8887, #8407: whole encoders were left out because of a prefix."""
    write_tensors(bare, {"module." + k: v for k, v in read_tensors(bare).items()})
    with pytest.raises(CheckpointError, match=r"stands under the prefix 'module\.'"):
        load_parts(bare)


def test_stray_buffers_are_ignored_with_a_reason(bare: Path) -> None:
    change(bare, embeddings__position_ids=torch.arange(40)[None])
    report = load_parts(bare).report
    assert report.ignored == {
        "embeddings.position_ids": "a list of numbers that is counted, not stored"
    }


def test_tensors_that_nothing_reads_are_reported(
    bare: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(bare, classifier__weight=torch.zeros(2, 24))
    report = load_parts(bare).report
    assert report.unexpected == ("classifier.weight",)
    assert "1 tensor is not read: classifier.weight" in caplog.text


def test_a_missing_tensor_of_the_encoder_is_an_error(bare: Path) -> None:
    change(bare, encoder__layer__1__output__dense__bias=None)
    with pytest.raises(
        CheckpointError, match=r"1 of \d+ tensors .* missing: bert\.encoder\.layer\.1\.output"
    ):
        load_parts(bare)


def test_a_file_with_more_layers_than_the_configuration_is_an_error(bare: Path) -> None:
    edit_json(bare / "config.json", num_hidden_layers=2)
    with pytest.raises(CheckpointError, match=r"16 tensors have no place .* fewer layers"):
        load_parts(bare)


def test_a_configuration_with_more_layers_than_the_file_is_an_error(bare: Path) -> None:
    edit_json(bare / "config.json", num_hidden_layers=4)
    with pytest.raises(CheckpointError, match=r"16 of \d+ tensors of the encoder are missing"):
        load_parts(bare)


def test_a_vocabulary_of_another_size_is_an_error(bare: Path) -> None:
    edit_json(bare / "config.json", vocab_size=60)
    with pytest.raises(CheckpointError, match=r"says vocab_size 60, the token table .* 61 rows"):
        load_parts(bare)


def test_all_problems_stand_in_one_error(bare: Path) -> None:
    change(bare, encoder__layer__1__output__dense__bias=None)
    edit_json(bare / "config.json", intermediate_size=41, vocab_size=60)
    with pytest.raises(CheckpointError) as caught:
        load_parts(bare)
    text = str(caught.value)
    assert str(bare / "model.safetensors") in text
    assert "is missing" in text
    assert "vocab_size 60" in text
    assert "tensors have another shape" in text
    assert "[40, 24] in the file, [41, 24] expected" in text


def test_a_tensor_of_whole_numbers_in_the_encoder_is_an_error(bare: Path) -> None:
    change(bare, encoder__layer__0__output__dense__bias=torch.zeros(24, dtype=torch.int8))
    with pytest.raises(CheckpointError, match="does not hold floating-point numbers"):
        load_parts(bare)


def test_half_a_pooler_is_an_error(bare: Path) -> None:
    change(bare, pooler__dense__bias=None)
    with pytest.raises(CheckpointError, match=r"missing: bert\.pooler\.dense\.bias"):
        load_parts(bare)


def test_a_head_that_reads_an_absent_pooler_is_an_error(tmp_path: Path) -> None:
    """transformers#5421: a random pooler under a trained head."""
    save_theirs(tmp_path, "BertForSequenceClassification")
    change(tmp_path, bert__pooler__dense__weight=None, bert__pooler__dense__bias=None)
    with pytest.raises(CheckpointError, match="the pooler is missing, and the head reads"):
        load_parts(tmp_path)


def test_a_head_without_any_tensor_leaves_a_bare_encoder(masked: Path) -> None:
    write_tensors(masked, {k: v for k, v in read_tensors(masked).items() if "cls." not in k})
    parts = load_parts(masked)
    assert parts.head is None
    assert parts.architecture == "BertModel"
    assert "cls.predictions.bias" in parts.report.missing


def test_half_a_head_is_an_error(masked: Path) -> None:
    change(masked, cls__predictions__bias=None)
    with pytest.raises(CheckpointError, match=r"1 of 5 tensors of the head is missing"):
        load_parts(masked)


def test_a_class_that_is_not_built_here_leaves_the_encoder(masked: Path) -> None:
    edit_json(masked / "config.json", architectures=["BertForMaskedLanguage"])
    parts = load_parts(masked)
    assert parts.head is None
    assert any("did you mean 'BertForMaskedLM'" in text for text in parts.report.warnings)
    assert all(name.startswith("cls.") for name in parts.report.unexpected)


def test_a_tied_decoder_may_be_absent_or_present(masked: Path) -> None:
    """transformers#12426, #38870; safetensors#265: tied decoders random after reloading."""
    absent = load_parts(masked)
    change(masked, **{DECODER.replace(".", "__"): read_tensors(masked)[TABLE]})
    present = load_parts(masked)
    for parts in (absent, present):
        assert parts.masked_lm is not None
        assert parts.masked_lm.output.weight is parts.encoder.embeddings.words.weight
    assert DECODER in present.report.loaded
    assert same(logits_of(absent), logits_of(present))


def test_a_decoder_of_its_own_is_kept_reported_and_saved(masked: Path, tmp_path: Path) -> None:
    change(masked, **{DECODER.replace(".", "__"): read_tensors(masked)[TABLE] * 2})
    parts = load_parts(masked)
    assert parts.report.untied == ("output.weight",)
    assert parts.report.tied == {}
    assert any("is not the token table" in text for text in parts.report.warnings)
    save_parts(parts, tmp_path / "ours")
    assert (
        json.loads((tmp_path / "ours" / "config.json").read_text())["tie_word_embeddings"] is False
    )
    assert same(logits_of(load_parts(tmp_path / "ours")), logits_of(parts))


def test_a_decoder_that_is_untied_by_configuration_stays_apart(tmp_path: Path) -> None:
    save_theirs(tmp_path, "BertForMaskedLM", tie_word_embeddings=False)
    content = read_tensors(tmp_path)
    bias = content["cls.predictions.bias"]
    equal = {DECODER: content[TABLE], "cls.predictions.decoder.bias": bias}
    write_tensors(tmp_path, {**content, **equal})
    parts = load_parts(tmp_path)
    assert parts.masked_lm is not None
    assert parts.masked_lm.output.weight is not parts.encoder.embeddings.words.weight
    change(tmp_path, **{DECODER.replace(".", "__"): None})
    with pytest.raises(CheckpointError, match="missing, and tie_word_embeddings is false"):
        load_parts(tmp_path)


def test_a_copy_is_ignored_when_it_is_one(masked: Path) -> None:
    bias = read_tensors(masked)["cls.predictions.bias"]
    change(masked, cls__predictions__decoder__bias=bias)
    report = load_parts(masked).report
    assert report.ignored["cls.predictions.decoder.bias"] == "a copy of cls.predictions.bias"
    change(masked, bert__embeddings__LayerNorm__gamma=torch.zeros(24))
    with pytest.raises(CheckpointError, match="should be the same, but differ"):
        load_parts(masked)


def test_the_other_name_of_a_copy_will_do(masked: Path) -> None:
    before = logits_of(load_parts(masked))
    rename(masked, "cls.predictions.bias", "cls.predictions.decoder.bias")
    assert same(logits_of(load_parts(masked)), before)


def test_a_next_sentence_head_beside_a_masked_lm_is_ignored_with_a_reason(tmp_path: Path) -> None:
    save_theirs(tmp_path, "BertForPreTraining")
    edit_json(tmp_path / "config.json", architectures=["BertForMaskedLM"])
    parts = load_parts(tmp_path)
    assert parts.masked_lm is not None
    assert "next-sentence" in parts.report.ignored["cls.seq_relationship.weight"]
    assert parts.encoder.pooler is not None


def test_the_number_of_outputs_comes_from_the_file_where_no_labels_are_named(
    tmp_path: Path,
) -> None:
    save_theirs(tmp_path, "BertForSequenceClassification", num_labels=4)
    edit_json(tmp_path / "config.json", id2label=None, label2id=None)
    assert load_parts(tmp_path).labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


def test_more_labels_than_outputs_is_an_error(tmp_path: Path) -> None:
    save_theirs(tmp_path, "BertForSequenceClassification", num_labels=3)
    edit_json(tmp_path / "config.json", id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})
    with pytest.raises(CheckpointError, match=r"classifier\.weight: \[3, 24\] in the file, \[2,"):
        load_parts(tmp_path)


def test_a_folder_that_is_no_model_says_what_it_holds(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(CheckpointError, match=r"has no config\.json.*it has: bare, notes\.txt"):
        load_parts(tmp_path)
    shutil.move(bare / "config.json", bare / "adapter_config.json")
    with pytest.raises(CheckpointError, match="holds an adapter"):
        load_parts(bare)
