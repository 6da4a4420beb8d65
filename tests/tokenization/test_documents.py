"""Corpus texts as arrays: ids equal to the tokenizer's, words and sentences where they belong."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.errors import DataError
from bothways.tokenization import documents
from bothways.tokenization.documents import DocumentPieces, read_documents, split_text
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.words import text_words


@pytest.fixture(params=["uncased", "cased", "roberta", "xlm_roberta"])
def published(request: pytest.FixtureRequest) -> Tokenizer:
    """Real vocabularies of three kinds."""
    tokenizer: Tokenizer = request.getfixturevalue(request.param)
    return tokenizer


def grouped(tokenizer: Tokenizer, text: str) -> list[list[str]]:
    """The pieces of each word."""
    [pieces], _ = read_documents(tokenizer, [text])
    tokens = tokenizer.tokens(pieces.ids.tolist())
    starts = [*np.flatnonzero(pieces.word_starts).tolist(), len(tokens)]
    return [tokens[a:b] for a, b in pairwise(starts)]


def surfaces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The characters of each word, by the offsets that `encode` gives."""
    [pieces], _ = read_documents(tokenizer, [text])
    encoding = tokenizer.encode(text, max_length=10_000)
    offsets = [o for o, special in zip(encoding.offsets, encoding.special, strict=True)
               if not special]  # fmt: skip
    starts = [*np.flatnonzero(pieces.word_starts).tolist(), len(offsets)]
    return [text[offsets[a][0] : offsets[b - 1][1]] for a, b in pairwise(starts)]


def test_ids_are_the_tokenizers_and_nothing_is_around_them(any_tokenizer: Tokenizer) -> None:
    texts = ["Unaffable Transformers. Two!", "x", "a [SEP] b </s> c", "نعم สวัสดี 中文。好"]
    read, ledger = read_documents(any_tokenizer, texts)
    ids, _, expected = any_tokenizer.encode_ids(texts, policy=None)
    first, last = any_tokenizer.template.specials
    inner = [row[len(first) : len(row) - len(last)] for row in ids]
    assert [pieces.ids.tolist() for pieces in read] == inner
    assert ledger == expected
    assert ledger.special_in_text
    for pieces in read:
        assert pieces.word_starts[0]
        assert pieces.sentence_starts[0]
        assert not (pieces.sentence_starts & ~pieces.word_starts).any()


def test_words_of_word_pieces(uncased: Tokenizer) -> None:
    assert grouped(uncased, "Unaffable cats, too") == [
        ["una", "##ffa", "##ble"], ["cats"], [","], ["too"],
    ]  # fmt: skip


def test_words_of_byte_level_pieces(roberta: Tokenizer) -> None:
    """transformers#11768, #9866, #8628: whole words were found by "##" and nothing else."""
    assert grouped(roberta, "Unaffable cats, too") == [
        ["Un", "aff", "able"], ["Ġcats"], [","], ["Ġtoo"],
    ]  # fmt: skip


def test_words_of_sentence_pieces(xlm_roberta: Tokenizer) -> None:
    assert grouped(xlm_roberta, "Unaffable cats") == [["▁Una", "ff", "able"], ["▁cat", "s"]]


@pytest.mark.parametrize("name", ["uncased", "roberta", "xlm_roberta"])
@pytest.mark.parametrize("text", ["我们在北京学习语言。好", "สวัสดีครับ น้ำดี"])
def test_unspaced_scripts_have_words(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """No word is cut inside a character and its marks, and none is a whole line of pieces."""
    tokenizer: Tokenizer = request.getfixturevalue(name)
    [pieces], _ = read_documents(tokenizer, [text])
    found = surfaces(tokenizer, text)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    starts = [*np.flatnonzero(pieces.word_starts).tolist(), len(pieces)]
    for word, (first, stop) in zip(found, pairwise(starts), strict=True):
        assert stop - first == 1 or len(text_words(word)) == 1
    if name == "roberta":  # bytes: several pieces a character, one word
        assert len(pieces) >= 2 * len(found)
        assert "สวั" not in text or "วั" in found


def test_sentences_start_at_the_piece_that_holds_their_first_character(
    published: Tokenizer,
) -> None:
    text = "It is so. Was it?  No: it was not.\nThe end"
    [pieces], _ = read_documents(published, [text])
    starts = np.flatnonzero(pieces.sentence_starts).tolist()
    tokens = published.tokens(pieces.ids.tolist())
    firsts = [tokens[index].strip("Ġ▁").lower() for index in starts]
    # Of two spaces the first is a piece of its own, and the second belongs to the word.
    assert firsts == ["it", "was", "no", "the"]


def test_a_long_text_is_read_in_parts_without_a_difference(
    published: Tokenizer, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (real_data / "rawtext" / "us_speeches_pd.txt").read_text()[:20_000].rstrip()
    whole = read_documents(published, [text])[0][0]
    monkeypatch.setattr(documents, "PART_CHARACTERS", 3000)
    monkeypatch.setattr(split_text, "__defaults__", (3000,))
    parts = read_documents(published, ["x", text])[0][1]
    assert len(split_text(text)) > 6
    # A byte-level vocabulary may have a piece for several line ends, which a part boundary cuts.
    assert abs(len(parts) - len(whole)) <= len(split_text(text))
    same = len(parts) == len(whole) and equal(parts, whole)
    assert same or published.unk_id == 3


def equal(one: DocumentPieces, other: DocumentPieces) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("ids", "word_starts", "sentence_starts")
    )


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 9))
def test_parts_of_a_text_are_the_text(text: str, most: int) -> None:
    parts = split_text(text, most)
    assert "".join(parts) == text
    assert all(0 < len(part) <= most for part in parts) or parts == [""]


def test_texts_without_pieces(tiny: Tokenizer) -> None:
    read, ledger = read_documents(tiny, ["", "\x00", " "])
    assert [len(pieces) for pieces in read] == [0, 0, 0]
    assert (ledger.texts, ledger.tokens, ledger.dropped_characters) == (3, 0, 1)


def test_half_a_character_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        read_documents(tiny, ["fine", "not \ud800 fine"])
