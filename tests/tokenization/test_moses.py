"""FlauBERT's tokenizer gives the ids that transformers' gives, and its pieces know their place.

transformers' class is the same in releases 4 and 5; it knows no places.
"""

from __future__ import annotations

import json
import pickle
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from hypothesis import example, given, settings
from tokenizers import models, pre_tokenizers, trainers

from bothways.errors import MissingExtraError, TokenizerError
from bothways.tokenization.moses import merge_pairs
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.golden.texts import SENTENCES, TEXTS
from tests.golden.vocabularies import FAMILIES, write_folder
from tests.tokenization.test_alignment import texts

Both = tuple[Tokenizer, Any]
SPECIALS = ("<s>", "</s>", "<pad>", "<unk>", "<special")


def read_by_both(folder: Path) -> Both:
    return load_tokenizer(folder), transformers.FlaubertTokenizer.from_pretrained(folder)


def folder_with(folder: Path, **config: Any) -> Path:
    write_folder(FAMILIES["flaubert"], folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def cased(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return read_by_both(folder_with(tmp_path_factory.mktemp("cased"), do_lowercase=False))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return read_by_both(folder_with(tmp_path_factory.mktemp("small"), do_lowercase=True))


@settings(max_examples=150)
@given(text=texts)
@example(text=" ".join(TEXTS))
@example(text="\u00abdit\u00a0: \u00ab\u00a0oui\u00a0\u00bb\u2026\u00bb, 3\u00a0000\u00a0%")
@example(text='il dit "oui." Et "non," aussi ``l\u00e0\'\'')
@example(text="nom-de-code L'\u00c9T\u00c9 M. X. a.b.c. 12. p. fin.")
@example(text="DOTMULTI DOTDOTMULTI x..")
def test_ids_are_those_of_transformers(cased: Both, small: Both, text: str) -> None:
    if any(name in text for name in SPECIALS):
        return  # theirs parses what a user types; ours only where it is asked to
    for ours, theirs in (cased, small):
        assert ours.encode_ids([text], policy=None)[0][0] == theirs(text)["input_ids"]


@settings(max_examples=150)
@given(text=texts)
def test_pieces_are_what_stands_at_their_place(small: Both, text: str) -> None:
    tokenizer, _ = small
    encoding = tokenizer.encode(text)
    for start, end in encoding.offsets[1:-1]:
        assert 0 <= start < end <= len(text)
        assert text[start:end].strip()


def pieces(tokenizer: Tokenizer, text: str) -> list[tuple[str, str, int | None]]:
    """Each piece with its surface and its word."""
    encoding = tokenizer.encode(text)
    names = tokenizer.tokens(encoding.ids)
    rows = zip(names, encoding.offsets, encoding.words, strict=True)
    return [(name, text[start:end], word) for name, (start, end), word in rows][1:-1]


def test_places_survive_what_moses_rewrites(small: Both) -> None:
    text = "L\u2019e\u0302tre dit\u00a0: \u00ab\u00a0Oui\u00a0\u00bb 20\u00a0% fin!"
    words: dict[int | None, str] = {}
    for _, surface, word in pieces(small[0], text):
        words[word] = words.get(word, "") + surface
    first, second, *rest = words.values()
    assert (first, second) == ("L\u2019", "e\u0302tre")  # one letter with an accent, as NFC
    # A non-breaking space beside a quotation mark was part of it.
    assert [word.strip("\u00a0") for word in rest] == [
        "dit", ":", "\u00ab", "Oui", "\u00bb", "20", "%", "fin", "!",
    ]  # fmt: skip


def test_what_moses_turns_round_is_covered_as_a_whole(small: Both) -> None:
    """A full stop and a quotation mark change places, so each stands for both."""
    rows = pieces(small[0], 'non." oui')
    assert {surface for _, surface, _ in rows if '"' in surface} == {'."'}


def test_what_the_vocabulary_lacks_is_unknown(cased: Both) -> None:
    """Single letters can be in merges and in no piece of their own."""
    assert {"q", "z"}.isdisjoint(cased[0].vocabulary())
    rows = pieces(cased[0], "qz")
    assert "<unk>" in [name for name, _, _ in rows]
    assert "".join(surface for _, surface, _ in rows) == "qz"


def test_the_template_and_roles(small: Both, tmp_path: Path) -> None:
    """cls and sep are one piece; a text begins with another; the mask is <special1>."""
    tokenizer, theirs = small
    assert tokenizer.special_tokens == {
        "cls": "</s>", "sep": "</s>", "pad": "<pad>", "mask": "<special1>", "unk": "<unk>",
        "bos": "<s>",
    }  # fmt: skip
    pair = tokenizer.encode("un", "deux")
    assert pair.ids == theirs("un", "deux")["input_ids"]
    assert [tokenizer.tokens([piece])[0] for piece, own in zip(pair.ids, pair.special, strict=True) if own] == ["<s>", "</s>", "</s>"]  # fmt: skip  # noqa: E501
    assert set(pair.type_ids) == {0}
    assert tokenizer.special_ids == set(range(14))
    folder = folder_with(tmp_path)
    (folder / "config.json").write_text(json.dumps({"model_type": "flaubert", "mask_token_id": 0}))
    assert load_tokenizer(folder).mask_id == tokenizer.mask_id == 5


def test_typed_special_tokens_are_text_unless_parsed(small: Both) -> None:
    tokenizer, theirs = small
    text = "le <special1> dort"
    plain, _, ledger = tokenizer.encode_ids([text], policy=None)
    assert ledger.special_in_text == 1
    assert tokenizer.special_ids.isdisjoint(plain[0][1:-1] if 3 not in plain[0] else [])
    parsed, _, _ = tokenizer.encode_ids([text], policy=None, special_tokens_in_text="parse")
    assert parsed == [theirs(text)["input_ids"]]
    assert parsed[0].count(5) == 1


def test_dropped_characters_are_counted(small: Both) -> None:
    _, _, ledger = small[0].encode_ids(["a\x00b \u200bc \ue000"], policy=None)
    assert ledger.dropped_characters == 3


def test_words_of_the_caller_keep_their_index(small: Both) -> None:
    words = ["L\u2019\u00e9t\u00e9,", "aujourd'hui", "\u2026", "\u00ab", "20\u00a0%"]
    [[encoding]], _ = small[0].encode_words([words], policy=None)
    own = [word for word in encoding.words if word is not None]
    assert sorted(set(own)) == list(range(5))
    assert own == sorted(own)


def test_a_pickled_copy_reads_the_same(small: Both) -> None:
    tokenizer = small[0]
    before = tokenizer.encode_ids(TEXTS, policy=None)[0]
    copy: Tokenizer = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - made right here
    assert copy.encode_ids(TEXTS, policy=None)[0] == before


def test_decoding_gives_words(small: Both) -> None:
    text = "le chat dort sur la chaise"
    assert small[0].decode(small[0].encode(text).ids) == text


def test_pairs_are_merged_in_the_order_of_their_ranks() -> None:
    ranks = {("b", "c"): 0, ("a", "bc"): 1, ("a", "b"): 2, ("a", "a"): 3}
    assert merge_pairs(list("abc"), ranks) == ("abc",)
    assert merge_pairs(list("aaa"), ranks) == ("aa", "a")
    assert merge_pairs(["x"], ranks) == ("x",)


def test_merging_is_that_of_the_engine() -> None:
    """An engine that is given every piece that merges pass through merges the same."""
    engine = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=400, end_of_word_suffix="</w>", show_progress=False)
    engine.train_from_iterator(SENTENCES, trainer)
    merges = json.loads(engine.to_str())["model"]["merges"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    for word in " ".join(SENTENCES).split():
        merged = merge_pairs([*word[:-1], word[-1] + "</w>"], ranks)
        assert list(merged) == engine.encode(word).tokens


# --- what cannot be read


def damaged(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    merges = (folder / "merges.txt").read_bytes()
    yield "vocab.json", b"{", "cannot be read"
    yield "vocab.json", b'{"a</w>": 0}', "1 pieces, but not </s>, <pad>, <s>, <special1>, <unk>"
    yield "merges.txt", merges + b"\xff", "cannot be read"


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    for name, content, message in damaged(folder_with(tmp_path)):
        folder = folder_with(tmp_path)
        (folder / name).write_bytes(content)
        with pytest.raises(TokenizerError, match=message):
            load_tokenizer(folder)


def test_an_absent_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bothways\[flaubert\]'"):
        load_tokenizer(folder_with(tmp_path))


@settings(max_examples=100)
@given(text=texts)
@example(text=" ".join(TEXTS))
def test_letters_of_a_piece_are_those_of_its_surface(small: Both, text: str) -> None:
    tokenizer, _ = small
    encoding = tokenizer.encode(text)
    for piece, (start, end) in zip(tokenizer.tokens(encoding.ids), encoding.offsets, strict=True):
        sigma = piece.removesuffix("</w>").replace("\u03c2", "\u03c3")  # one at a word's end
        letters = "".join(filter(str.isalpha, sigma))
        if piece[0] != "<":
            surface = unicodedata.normalize("NFC", text[start:end]).lower()
            surface = surface.replace("\u03c2", "\u03c3")
            assert letters in "".join(filter(str.isalpha, surface)), (piece, text[start:end])
