"""Reading folders of every layout, and writing what others can read."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from bothways.errors import BothwaysError, CheckpointError, TokenizerError
from bothways.files import Staged
from bothways.tokenization.files import TokenizerFiles, read_folder
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from bothways.tokenization.vocabularies import is_cased

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CASED_PIECES = (*SPECIALS, "the", "The", "cat", "Cat", "CAT")


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.tokens(tokenizer.encode(text).ids)[1:-1]


# --- casing


def test_a_cased_vocabulary_is_read_as_cased(make_folder: Callable[..., Path]) -> None:
    """The common tools lower-case here, since nothing in the folder tells them not to."""
    tokenizer = load_tokenizer(make_folder(CASED_PIECES))
    assert pieces(tokenizer, "The cat Cat CAT") == ["The", "cat", "Cat", "CAT"]


def test_the_real_cased_vocabulary_is_read_as_cased(cased: Tokenizer, uncased: Tokenizer) -> None:
    assert pieces(cased, "The Transformers caf\u00e9") == ["The", "Transformers", "caf\u00e9"]
    assert pieces(uncased, "The Transformers caf\u00e9") == ["the", "transformers", "cafe"]


def test_stated_lower_casing_is_respected(
    make_folder: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    small = make_folder((*SPECIALS, "the"), tokenizer_config={"do_lower_case": False})
    assert pieces(load_tokenizer(small), "the The") == ["the", "[UNK]"]
    assert not caplog.records


def test_lower_casing_that_the_vocabulary_contradicts_is_not_done(
    make_folder: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_folder(CASED_PIECES, tokenizer_config={"do_lower_case": True})
    with caplog.at_level(logging.WARNING):
        tokenizer = load_tokenizer(folder)
    assert pieces(tokenizer, "The") == ["The"]
    assert "3 of 5 pieces hold capitals" in caplog.text
    tokenizer.save(folder)
    caplog.clear()
    assert pieces(load_tokenizer(folder), "The") == ["The"]
    assert not caplog.records  # the saved settings say what is done


def test_a_few_added_capitals_make_no_vocabulary_cased() -> None:
    small = [f"word{index}" for index in range(1000)]
    assert not is_cased([*small, "CO2", "[CLS]", "[E1]"], None, "here")
    assert is_cased([*small, *(f"Word{index}" for index in range(10))], None, "here")
    assert not is_cased([], None, "here")


@pytest.mark.parametrize(("stated", "expected"), [(False, "[UNK]"), (True, "the"), (None, "the")])
def test_stated_casing_counts_for_tokenizer_json_too(
    make_folder: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    stated: bool | None,
    expected: str,
) -> None:
    folder = make_folder((*SPECIALS, "the"))
    load_tokenizer(folder).save(folder)
    write(folder, "tokenizer_config.json", {} if stated is None else {"do_lower_case": stated})
    with caplog.at_level(logging.WARNING):
        assert pieces(load_tokenizer(folder), "The") == [expected]
    assert bool(caplog.records) == (stated is False)


def test_sentence_bert_lower_casing_comes_before_a_cased_vocabulary(
    make_folder: Callable[..., Path],
) -> None:
    config = {"do_lower_case": True, "max_seq_length": 12}
    tokenizer = load_tokenizer(make_folder(CASED_PIECES, sentence_bert_config=config))
    assert pieces(tokenizer, "The CAT") == ["the", "cat"]
    assert tokenizer.declared_max_length == 12


def test_stated_accents_and_chinese_are_respected(make_folder: Callable[..., Path]) -> None:
    vocabulary = (*SPECIALS, "caf\u00e9", "cafe", "\u4e2d\u6587")
    settings = {"strip_accents": False, "tokenize_chinese_chars": False}
    tokenizer = load_tokenizer(make_folder(vocabulary, tokenizer_config=settings))
    assert pieces(tokenizer, "Caf\u00e9 \u4e2d\u6587") == ["caf\u00e9", "\u4e2d\u6587"]


# --- the longest text


@pytest.mark.parametrize(
    ("sentence", "declared", "expected"),
    [
        ({"max_seq_length": 64}, 512, 64),
        ({"max_seq_length": None}, 512, 512),
        ({}, 512.0, 512),
        ({}, 1e30, None),
        ({}, 1_000_001, None),
        ({}, None, None),
    ],
)
def test_the_longest_text_is_declared_by_the_first_file_that_says(
    make_folder: Callable[..., Path],
    sentence: dict[str, Any],
    declared: float | None,
    expected: int | None,
) -> None:
    folder = make_folder(
        tokenizer_config={"model_max_length": declared}, sentence_bert_config=sentence
    )
    assert load_tokenizer(folder).declared_max_length == expected


def test_a_saved_tokenizer_declares_the_same_length(uncased: Tokenizer, tmp_path: Path) -> None:
    uncased.save(tmp_path)
    assert load_tokenizer(tmp_path).declared_max_length == uncased.declared_max_length == 256


# --- other layouts


def byte_level_folder(folder: Path, specials: tuple[str, ...]) -> Path:
    """A small byte-level vocabulary, trained here, as vocab.json and merges.txt."""
    engine = tokenizers.Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(["hello world, hello words"] * 20, trainer)
    engine.model.save(str(folder))
    return folder


def test_roberta_vocabulary_files(tmp_path: Path) -> None:
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    tokenizer = load_tokenizer(byte_level_folder(tmp_path, names))
    pair = tokenizer.encode("hello", "world")
    assert tokenizer.tokens(pair.ids) == ["<s>", "hello", "</s>", "</s>", *pieces(tokenizer, "world"), "</s>"]  # fmt: skip  # noqa: E501
    assert set(pair.type_ids) == {0}
    assert (tokenizer.cls_id, tokenizer.pad_id, tokenizer.mask_id) == (0, 1, 4)
    masked, _, _ = tokenizer.encode_ids(
        ["hello <mask>"], policy=None, special_tokens_in_text="parse"
    )
    assert tokenizer.tokens(masked[0]) == ["<s>", "hello", "<mask>", "</s>"]  # it takes its space


def test_deberta_vocabulary_files(tmp_path: Path) -> None:
    names = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
    tokenizer = load_tokenizer(byte_level_folder(tmp_path, names))
    pair = tokenizer.encode("hello", "hello")
    assert tokenizer.tokens(pair.ids) == ["[CLS]", "hello", "[SEP]", "hello", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("prefix", [True, False])
def test_the_stated_prefix_space_counts(tmp_path: Path, prefix: bool) -> None:
    byte_level_folder(tmp_path, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    write(tmp_path, "tokenizer_config.json", {"add_prefix_space": prefix})
    tokenizer = load_tokenizer(tmp_path)
    encoding = tokenizer.encode("hello world")
    assert tokenizer.tokens(encoding.ids)[1].startswith("\u0120") == prefix
    assert encoding.offsets[1] == (0, 5)


def test_added_tokens_follow_the_vocabulary(make_folder: Callable[..., Path]) -> None:
    folder = make_folder((*SPECIALS, "a"), added_tokens={"<e2>": 7, "<e1>": 6})
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("a <e1> a <e2>").ids == [2, 5, 6, 5, 7, 3]
    write(folder, "added_tokens.json", {"<e1>": 9})
    with pytest.raises(TokenizerError, match=r"'<e1>' has id 9, but the vocabulary leaves 6"):
        load_tokenizer(folder)


def test_tokenizer_json_wins_over_a_vocabulary(make_folder: Callable[..., Path]) -> None:
    folder = make_folder((*SPECIALS, "a", "b"))
    load_tokenizer(folder).save(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nb\n")
    assert load_tokenizer(folder).encode("b").ids == [2, 6, 3]


def test_special_tokens_are_named_by_the_settings(make_folder: Callable[..., Path]) -> None:
    names = ("<pad>", "<unk>", "<cls>", "<sep>", "<hide>")
    config = {
        "pad_token": "<pad>",
        "unk_token": {"content": "<unk>"},
        "cls_token": "<cls>",
        "sep_token": "<sep>",
    }
    folder = make_folder(
        (*names, "a"), tokenizer_config=config, special_tokens_map={"mask_token": "<hide>"}
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("a q").ids == [2, 5, 1, 3]
    assert tokenizer.mask_id == 4
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}


# --- what cannot be read


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {})
    with pytest.raises(TokenizerError, match=r"no tokenizer; expected .*found config.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(TokenizerError, match="no such folder"):
        load_tokenizer(tmp_path / "absent")


def test_a_damaged_tokenizer_json(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    for content in ("{", '{"model": 1}'):
        (folder / "tokenizer.json").write_text(content)
        with pytest.raises(TokenizerError, match=r"tokenizer\.json: cannot be read"):
            load_tokenizer(folder)


def test_damaged_settings(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(BothwaysError, match=r"tokenizer_config\.json is not valid JSON"):
        load_tokenizer(folder)


def test_a_vocabulary_in_another_encoding(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    (folder / "vocab.txt").write_bytes(b"[PAD]\ncaf\xe9\n")
    with pytest.raises(TokenizerError, match="not UTF-8 text"):
        load_tokenizer(folder)


@pytest.mark.parametrize("damaged", ["vocab.json", "merges.txt"])
def test_damaged_byte_level_files(tmp_path: Path, damaged: str) -> None:
    byte_level_folder(tmp_path, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    (tmp_path / damaged).write_bytes(b"\xff{")
    with pytest.raises(TokenizerError, match=r"vocab\.json or merges\.txt cannot be read"):
        load_tokenizer(tmp_path)


BYTE_LEVEL_VOCABULARY = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("merges.txt", "#version: 0.2\nab\n"),
        ("merges.txt", "#version: 0.2\nqq zz\n"),
        ("vocab.json", json.dumps({p: str(i) for p, i in BYTE_LEVEL_VOCABULARY.items()})),
        ("added_tokens.json", "[]"),
    ],
)
def test_files_that_are_damaged_in_unforeseen_ways_are_named(
    tmp_path: Path, name: str, content: str
) -> None:
    write(tmp_path, "vocab.json", BYTE_LEVEL_VOCABULARY)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    load_tokenizer(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(TokenizerError, match=r"merges\.txt is damaged .*fetch it again"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("setting", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
def test_a_switch_is_no_text(make_folder: Callable[..., Path], setting: str) -> None:
    """The text "false" would count as true."""
    folder = make_folder(tokenizer_config={setting: "false"})
    with pytest.raises(TokenizerError, match=rf"expected true, false or null: .*{setting}"):
        load_tokenizer(folder)


def test_a_vocabulary_without_special_pieces(make_folder: Callable[..., Path]) -> None:
    with pytest.raises(TokenizerError, match=r"2 pieces, but not \[CLS\], \[SEP\], \[UNK\]"):
        load_tokenizer(make_folder(("a", "b")))


def test_a_vocabulary_that_reads_nothing() -> None:
    engine = tokenizers.Tokenizer(models.BPE({}, []))
    with pytest.raises(TokenizerError, match="makes no piece of 'a'"):
        Tokenizer(TokenizerFiles(engine))


def test_a_template_with_the_pair_turned_round_is_refused() -> None:
    engine = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    engine.post_processor = processors.TemplateProcessing(single="$A", pair="$B $A")
    with pytest.raises(TokenizerError, match=r"order \[1, 0\]"):
        Tokenizer(TokenizerFiles(engine))


# --- saving


@pytest.mark.parametrize("name", ["uncased", "cased", "roberta"])
def test_saving_keeps_ids_files_and_settings(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    texts = ["Hello world", "caf\u00e9 \u4e2d\u6587", "a [SEP] b </s>"]
    assert again.encode_many(texts, policy=None) == tokenizer.encode_many(texts, policy=None)
    assert again.special_tokens == tokenizer.special_tokens
    assert again.fingerprint == tokenizer.fingerprint
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    assert content["truncation"] is None
    assert content["padding"] is None
    assert content["post_processor"] is not None


def test_saving_over_the_folder_that_was_read(minilm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    tokenizer = load_tokenizer(folder)
    tokenizer.save(folder)
    assert (folder / "vocab.txt").read_bytes() == (minilm / "vocab.txt").read_bytes()
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    assert settings["name_or_path"] == "nreimers/MiniLM-L6-H384-uncased"  # not ours, and kept
    assert load_tokenizer(folder).fingerprint == tokenizer.fingerprint


def test_files_are_staged_with_others(tiny: Tokenizer, tmp_path: Path) -> None:
    def fail_after_staging() -> None:
        with Staged(tmp_path / "out") as files:
            tiny.stage(files)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_staging()
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        tiny.save(tmp_path / "file" / "out")


def test_a_sentence_bert_normaliser_is_kept_once(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(CASED_PIECES, sentence_bert_config={"do_lower_case": True})
    load_tokenizer(folder).save(folder)
    again = load_tokenizer(folder)
    assert pieces(again, "THE") == ["the"]
    assert isinstance(read_folder(folder).engine.normalizer, normalizers.Sequence)
