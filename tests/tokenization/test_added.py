"""More words for a vocabulary: one piece each, where they stand as words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bothways.errors import TokenizerError
from bothways.tokenization.added import with_words
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

WORDS = ["metformin", "Hydroxychloroquine", "the", "naïveté"]


@pytest.fixture(scope="module", params=["bert_cased", "roberta", "xlm_roberta", "minilm"])
def tokenizer(request: pytest.FixtureRequest, minilm: Path) -> Tokenizer:
    if request.param == "minilm":
        return load_tokenizer(minilm)
    folder: Path = request.getfixturevalue("real_data")
    return load_tokenizer(folder / "tokenizers" / request.param)


def test_each_new_word_is_one_piece_and_says_what_it_was(tokenizer: Tokenizer) -> None:
    bigger, pieces = with_words(tokenizer, WORDS)
    assert sorted(pieces) == list(range(tokenizer.vocab_size, tokenizer.vocab_size + 3))
    assert bigger.largest_id == tokenizer.largest_id + 3
    for word in ("metformin", "Hydroxychloroquine", "naïveté"):
        before = tokenizer.encode(f"it was {word} then")
        after = bigger.encode(f"it was {word} then")
        (new,) = [token for token in after.ids if token in pieces]
        at = after.ids.index(new)
        assert after.ids[:at] + pieces[new] + after.ids[at + 1 :] == before.ids
        start, end = after.offsets[at]
        assert f"it was {word} then"[start:end].strip() == word


def test_text_without_the_words_is_read_as_before(tokenizer: Tokenizer) -> None:
    bigger, _ = with_words(tokenizer, WORDS)
    for text in ("Plain words, here.", "metformins premetformin", "the naïve one"):
        assert bigger.encode(text).ids == tokenizer.encode(text).ids


def test_words_that_are_pieces_add_nothing(tokenizer: Tokenizer) -> None:
    bigger, pieces = with_words(tokenizer, ["the", "the", "", " "])
    assert pieces == {}
    assert bigger.vocab_size == tokenizer.vocab_size


def test_the_words_are_saved_and_read_by_transformers(tokenizer: Tokenizer, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    bigger, _ = with_words(tokenizer, WORDS)
    bigger.save(tmp_path)
    text = "Take metformin now, (metformin) and Hydroxychloroquine."
    again = load_tokenizer(tmp_path)
    assert again.encode(text).ids == bigger.encode(text).ids
    make: Any = PreTrainedTokenizerFast
    theirs = make(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert theirs(text)["input_ids"] == bigger.encode(text).ids


def test_words_with_spaces_are_refused_together(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"'two words', 'and three more'.*one word a line"):
        with_words(tokenizer, ["two words", "fine", "and three more"])
