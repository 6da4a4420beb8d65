"""Fewer pieces: texts whose words are kept are read as before, by every kind of vocabulary."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from bothways.tokenization.trimming import trimmed
from tests.golden.vocabularies import train_model

KEPT = [
    "The film was unbelievably long, and nobody laughed.",
    "Un été à Paris : « déjà vu » ? Ça alors !",
    "lower lowest newer widest, 12,345 — 3.14",
    "e\u0301te\u0301 ﬁne \u2603 日本語 love\U0001f600d <0x41> [SEP] two  spaces",
    "",
]


def used(tokenizer: Tokenizer, texts: list[str]) -> set[int]:
    return {piece for ids in tokenizer.plain_ids(texts) for piece in ids}


@functools.cache
def smaller(tokenizer: Tokenizer) -> tuple[Tokenizer, list[int]]:
    return trimmed(tokenizer, used(tokenizer, KEPT))


def test_kept_texts_are_read_as_before_and_ids_close_up(any_tokenizer: Tokenizer) -> None:
    small, rows = smaller(any_tokenizer)
    assert small.vocab_size == len(rows) < any_tokenizer.vocab_size
    assert small.largest_id == len(rows) - 1
    assert rows == sorted(set(rows))
    for before, after in zip(any_tokenizer.plain_ids(KEPT), small.plain_ids(KEPT), strict=True):
        assert [rows[piece] for piece in after] == before
    pair, ours = any_tokenizer.encode(KEPT[0], KEPT[2]), small.encode(KEPT[0], KEPT[2])
    assert [rows[piece] for piece in ours.ids] == pair.ids
    assert (ours.type_ids, ours.offsets, ours.words) == (pair.type_ids, pair.offsets, pair.words)


def test_special_pieces_keep_their_roles(any_tokenizer: Tokenizer) -> None:
    small, rows = smaller(any_tokenizer)
    assert small.special_tokens == any_tokenizer.special_tokens
    for role in ("cls", "sep", "pad", "mask", "unk"):
        assert rows[getattr(small, f"{role}_id")] == getattr(any_tokenizer, f"{role}_id")
    assert {rows[piece] for piece in small.special_ids} == any_tokenizer.special_ids


def test_a_saved_one_is_read_again(any_tokenizer: Tokenizer, tmp_path: Path) -> None:
    small, _ = smaller(any_tokenizer)
    small.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.fingerprint == small.fingerprint
    assert again.plain_ids(KEPT) == small.plain_ids(KEPT)


def test_other_words_of_the_same_letters_are_still_spelled(any_tokenizer: Tokenizer) -> None:
    small, _ = smaller(any_tokenizer)
    word = "vello bungle"
    assert len(small.encode(word).ids) >= len(any_tokenizer.encode(word).ids)
    assert small.unk_id not in small.encode(word).ids


def test_what_is_merged_on_the_way_stays(tmp_path: Path) -> None:
    """A piece of many merges needs them all, and SentencePiece lists none."""
    sentences = ["the newest lower newer lowest widest film" for _ in range(20)]
    content = train_model(sentences, model_type="bpe", vocab_size=60, user_defined_symbols=["<x>"])
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    whole = load_tokenizer(tmp_path)
    texts = ["lowest film"]
    small, rows = trimmed(whole, used(whole, texts))
    assert small.vocab_size < whole.vocab_size
    assert [rows[piece] for piece in small.plain_ids(texts)[0]] == whole.plain_ids(texts)[0]


def test_an_unknown_letter_costs_what_it_did(tmp_path: Path) -> None:
    """The price of an unknown letter hangs on the worst piece, which therefore stays."""
    import sentencepiece

    sentences = ["the film was long", "a long film it was", "was it long"] * 9
    content = train_model(sentences, vocab_size=30)
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(content)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    whole = load_tokenizer(tmp_path)
    worst = min(range(3, model.GetPieceSize()), key=model.GetScore)
    small, _ = trimmed(whole, [])
    assert model.IdToPiece(worst) in small.vocabulary()
    assert model.IdToPiece(worst) in whole.vocabulary()


@pytest.mark.parametrize("text", ["hello \U0001f600", "zzz"])
def test_bytes_stay_where_pieces_are_made_of_bytes(roberta: Tokenizer, text: str) -> None:
    small, _ = trimmed(roberta, used(roberta, ["film"]))
    assert small.decode(small.encode(text).ids) == text
