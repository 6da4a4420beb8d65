"""Offsets, words and dropped characters, for vocabularies of every kind."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from bothways.errors import DataError
from bothways.tokenization.aligned import Aligned
from bothways.tokenization.alignment import GivenWords, words_by_space
from bothways.tokenization.encoding import Encoding
from bothways.tokenization.files import TokenizerFiles
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

# What has gone wrong somewhere: accents of both forms, ligatures, NUL, byte-order mark, emoji with
# joiners and skin, zero-width space, wide forms, scripts without spaces, right-to-left, lone marks.
FRAGMENTS = (
    "Hello", "world", "don't", "18th", "U.S.", " ", "  ", "\n", "\t", "\u00a0", "\u3000",
    "caf\u00e9", "cafe\u0301", "\u0301", "na\u0131\u0308ve", "\ufb01ne", "\u00bd", "\u2460",
    "\x00", "\x0b", "\x1f", "\x85", "\ufeff", "\ufffd", "\u200b", "\u00ad", "\U0001f600",
    "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f",
    "\uff28\uff49", "\uff76\uff9e", "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\ud55c\uad6d",
    "\u1112\u1161\u11ab", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0627\u0644\u0639\u064e\u0631\u0628\u064a\u0629",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u0130stanbul", "\u1e9e", "\u2581", "\u0120", "##s", "[SEP]", "<s>", "</s>", "<mask>",
    "[MASK]", "\uff1cs\uff1e", "...", "--", "_", "\U0001d49c", "\U00020000",
)  # fmt: skip

texts = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
SHARED_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(tokenizer: Tokenizer, text: str) -> tuple[Encoding, list[str]]:
    encoding = tokenizer.encode_many([text], policy=None)[0][0][0]
    return encoding, tokenizer.tokens(encoding.ids)


def surfaces(tokenizer: Tokenizer, text: str) -> list[tuple[str, str]]:
    """Each piece with what stands at its offsets, special ones left out."""
    encoding, pieces = read(tokenizer, text)
    return [
        (piece, text[start:end])
        for piece, (start, end), special in zip(
            pieces, encoding.offsets, encoding.special, strict=True
        )
        if not special
    ]


def normalized(tokenizer: Tokenizer, text: str) -> str:
    prepare = tokenizer._reader._prepare
    if prepare is not None:
        return prepare(Aligned.of(text)).text
    normalizer = tokenizer._reader.engine.normalizer
    return text if normalizer is None else str(normalizer.normalize_str(text))


@SHARED_FIXTURE
@given(texts)
@example("cafe\u0301 \U0001f469\u200d\U0001f469 \x00x")
def test_ranges_are_ordered_inside_the_text_and_leave_out_spaces(
    any_tokenizer: Tokenizer, text: str
) -> None:
    encoding, _ = read(any_tokenizer, text)
    own = [
        offset for offset, special in zip(encoding.offsets, encoding.special, strict=True)
        if not special
    ]  # fmt: skip
    assert all(0 <= start <= end <= len(text) for start, end in own)
    assert all(before[0] <= after[0] for before, after in pairwise(own))
    for start, end in own:
        surface = text[start:end]
        assert not surface.strip() or not surface[0].isspace()


@SHARED_FIXTURE
@given(texts)
def test_word_pieces_are_the_normalised_surface(
    uncased: Tokenizer, cased: Tokenizer, text: str
) -> None:
    for tokenizer in (uncased, cased):
        for piece, surface in surfaces(tokenizer, text):
            if piece != "[UNK]":
                # One character can become several pieces: a Hangul syllable, taken apart.
                assert piece.removeprefix("##") in normalized(tokenizer, surface)
                if surface.isascii() and surface.isprintable() and not piece.startswith("##"):
                    assert normalized(tokenizer, surface) == piece


@SHARED_FIXTURE
@given(texts)
def test_bytes_of_a_piece_stand_at_its_offsets(roberta: Tokenizer, text: str) -> None:
    """transformers#14305: offsets of byte-level pieces were odd."""
    to_byte = {character: byte for byte, character in byte_alphabet().items()}
    for piece, surface in surfaces(roberta, text):
        content = bytes(to_byte[character] for character in piece)
        assert content.lstrip(b" ") in surface.encode()
        assert surface


@SHARED_FIXTURE
@given(texts)
def test_sentence_pieces_come_from_their_surface(xlm_roberta: Tokenizer, text: str) -> None:
    for piece, surface in surfaces(xlm_roberta, text):
        if piece != "<unk>":
            content = unicodedata.normalize("NFKC", piece.replace("\u2581", ""))
            source = unicodedata.normalize("NFKC", normalized(xlm_roberta, surface))
            assert content in source


@SHARED_FIXTURE
@given(texts)
def test_what_no_piece_covers_is_space_or_counted_as_dropped(
    any_tokenizer: Tokenizer, text: str
) -> None:
    [[encoding]], ledger = any_tokenizer.encode_many([text], policy=None)
    seen = {index for start, end in encoding.offsets for index in range(start, end)}
    lost = [
        character
        for index, character in enumerate(text)
        if index not in seen and normalized(any_tokenizer, character).strip()
        and not character.isspace()
    ]  # fmt: skip
    assert len(lost) <= ledger.dropped_characters


@SHARED_FIXTURE
@given(texts)
def test_words_count_up_and_special_pieces_have_none(any_tokenizer: Tokenizer, text: str) -> None:
    encoding, _ = read(any_tokenizer, text)
    assert [word is None for word in encoding.words] == encoding.special
    own = [word for word in encoding.words if word is not None]
    assert own == sorted(own)


@SHARED_FIXTURE
@given(st.lists(st.sampled_from(FRAGMENTS).filter(lambda word: not word.isspace()), max_size=6))
def test_the_callers_words_keep_their_index(any_tokenizer: Tokenizer, words: list[str]) -> None:
    """transformers#14305, #12665: `word_ids` of pre-tokenised RoBERTa input split "18th"."""
    [[encoding]], _ = any_tokenizer.encode_words([words], policy=None)
    joined, pieces = read(any_tokenizer, " ".join(words))
    assert encoding.ids == joined.ids
    starts = [sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
    for word, offset, there, piece in zip(
        encoding.words, encoding.offsets, joined.offsets, pieces, strict=True
    ):
        if word is not None:
            assert 0 <= offset[0] <= offset[1] <= len(words[word]), piece
            assert starts[word] + offset[0] == there[0]


def test_a_word_of_two_kinds_of_characters_is_one_word(roberta: Tokenizer) -> None:
    """transformers#14305: "18th" given as one word became two."""
    [[encoding]], _ = roberta.encode_words([["the", "18th", "of", "May"]], policy=None)
    pieces = roberta.tokens(encoding.ids)
    assert [piece for piece, word in zip(pieces, encoding.words, strict=True) if word == 1] == [
        "\u012018",
        "th",
    ]
    assert encoding.offsets[2:4] == [(0, 2), (2, 4)]


def test_words_are_read_with_the_spaces_of_running_text(roberta: Tokenizer) -> None:
    """ModernBERT#149: without the space before each word, a tagger lost two points."""
    [[encoding]], _ = roberta.encode_words([["Hello", "world"]], policy=None)
    assert encoding.ids == roberta.encode("Hello world").ids


def test_one_string_instead_of_words_is_refused_with_its_row(tiny: Tokenizer) -> None:
    with pytest.raises(DataError, match="row 1: expected a list of words and got 'the cat'"):
        tiny.encode_words([["the"], "the cat"], policy=None)
    with pytest.raises(DataError, match="row 0"):
        GivenWords([None], 0)  # type: ignore[list-item]


def test_empty_words_shift_no_index(uncased: Tokenizer) -> None:
    [[encoding]], _ = uncased.encode_words([["", "cat", "\x00", "", "mat"]], policy=None)
    assert encoding.words == [None, 1, 4, None]


def test_an_accent_belongs_to_its_letter(uncased: Tokenizer) -> None:
    encoding, pieces = read(uncased, "Cafe\u0301 x")
    assert pieces == ["[CLS]", "cafe", "x", "[SEP]"]
    assert encoding.offsets == [(0, 0), (0, 5), (6, 7), (0, 0)]


def test_a_marker_that_stands_for_nothing_is_empty(xlm_roberta: Tokenizer) -> None:
    encoding, pieces = read(xlm_roberta, "\u4e2d\u6587\u5b57abc")
    assert pieces[1] == "\u2581"
    assert encoding.offsets[1] == (0, 0)
    assert encoding.offsets[2] == (0, 1)


def test_dropped_characters_before_a_text_shift_no_offset(xlm_roberta: Tokenizer) -> None:
    """The engine itself (tokenizers 0.23) is one character off for each, through the whole text."""
    text = "\x1f\x1fHello big world"
    engine = xlm_roberta._reader.engine.encode(text, add_special_tokens=False)
    assert text[slice(*engine.offsets[-1])].strip() != "world"
    assert surfaces(xlm_roberta, text) == [
        ("\u2581Hello", "Hello"),
        ("\u2581big", "big"),
        ("\u2581world", "world"),
    ]


def test_spaces_before_a_piece_are_left_out(xlm_roberta: Tokenizer, roberta: Tokenizer) -> None:
    for tokenizer in (xlm_roberta, roberta):
        assert surfaces(tokenizer, "Hello world")[1][1] == "world"
    assert surfaces(roberta, "a  b")[1] == ("\u0120", " ")


def test_words_of_an_engine_without_any_are_found_by_spaces() -> None:
    pieces = ["<s>", "</s>", "\u2581", "a", "b", "\u2581a", "<unk>"]
    engine = tokenizers.Tokenizer(models.Unigram([(p, -1.0) for p in pieces], 6, False))
    engine.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer = Tokenizer(TokenizerFiles(engine, {"cls": "<s>", "sep": "</s>"}))
    encoding, read_pieces = read(tokenizer, "ab a b")
    assert read_pieces == ["a", "b", "\u2581a", "\u2581", "b"]
    assert encoding.words == [0, 0, 1, 2, 2]
    assert words_by_space("", [(0, 0)]) == [0]


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("plain text", 0),
        ("tab\tand\nline\r\n", 0),
        ("nul\x00 in \x00it", 2),
        ("soft\u00adhyphen", 1),
        ("glued\x0btogether", 1),
        ("caf\u00e9", 0),
        ("cafe\u0301", 1),
        ("\u4e2d\u6587 \U0001f600", 0),
        ("", 0),
    ],
)
def test_characters_that_leave_no_trace_are_counted(
    uncased: Tokenizer, text: str, dropped: int
) -> None:
    for _ in range(2):  # the second time from memory
        assert uncased.encode_ids([text], policy=None)[2].dropped_characters == dropped
        assert uncased.encode_many([text], policy=None)[1].dropped_characters == dropped


def test_byte_level_vocabularies_drop_nothing(roberta: Tokenizer) -> None:
    text = "".join(FRAGMENTS)
    assert roberta.encode_ids([text], policy=None)[2].dropped_characters == 0


def test_an_alphabet_with_holes_drops_what_it_lacks() -> None:
    """transformers#47706: a byte-level tokenizer without its alphabet read Arabic as nothing."""
    pieces = {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "x": 4, "\u0120": 5}
    engine = tokenizers.Tokenizer(models.BPE(pieces, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(TokenizerFiles(engine))
    ids, _, ledger = tokenizer.encode_ids(["ab \u0633\u0644", "qab!"], policy=None)
    assert ids == [[2, 3, 5], [2, 3]]
    assert ledger.dropped_characters == 4


def test_a_character_that_becomes_a_space_is_not_dropped(xlm_roberta: Tokenizer) -> None:
    ledger = xlm_roberta.encode_ids(["zero\u200bwidth \x01"], policy=None)[2]
    assert ledger.dropped_characters == 1  # the control character only


def test_unknown_letters_are_not_dropped(make_folder: Callable[..., Path]) -> None:
    """Where "x" itself is unknown, an unknown character looks like nothing between two of them."""
    tokenizer = load_tokenizer(make_folder(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a")))
    ids, _, ledger = tokenizer.encode_ids(["a \u4e2d z \x00"], policy=None)
    assert ids == [[2, 4, 1, 1, 3]]
    assert ledger.dropped_characters == 1


def byte_alphabet() -> dict[int, str]:
    """The published map of bytes to printable characters (Radford et al. 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + index) for index, byte in enumerate(others)
    }
