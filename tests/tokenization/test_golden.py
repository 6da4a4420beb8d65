"""Ids that transformers 4.57 gave, by its slow and its fast engines, for texts in many scripts.

Stored by `tests/golden/make_ids.py`, with versions. Where the two engines disagree, the slow one
runs the published code of the family, SentencePiece itself or Moses, and the fast one is a copy
of it that differs: see `DIFFERENCES`.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.golden.texts import TEXTS
from tests.golden.vocabularies import FAMILIES, FOLDER, rules_hash, write_folder

MADE_HERE = tuple(FAMILIES)
REAL = ("bert_cased", "bert_uncased", "roberta", "xlm_roberta")
# For how many texts the fast engine gives other ids than the slow one, and why.
DIFFERENCES = {
    # Marks and Hangul letters that the engine's table reads by clusters (`charsmap.py`).
    "xlm-roberta": 5,
    "camembert": 5,
    # The same, and no byte pieces: what is unknown is one unknown piece.
    "deberta-v2": 10,
    # Vowel signs of Indic scripts are taken for accents; spaces at the end of a text.
    "albert": 14,
    # BERT's first code joins no accents; the slow class has done so since 4.31, alone.
    "bert_cased": 5,
}
# Real BERT is read as by the fast engine, and as by the code that the model was trained with.
READ_AS_FAST = ("bert_cased",)


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def bare(surface: str) -> str:
    """Without spaces and what became one at its ends."""
    return surface.strip(" \t\n\r\u00a0\u2028\u3000\u200b\u2581")


@pytest.fixture
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """The tokenizer of a name."""
    name = request.param
    if name in MADE_HERE:
        made: dict[str, Tokenizer] = request.getfixturevalue("made_here")
        return made[name]
    short = {"bert_cased": "cased", "bert_uncased": "uncased"}.get(name, name)
    real: Tokenizer = request.getfixturevalue(short)
    return real


every_vocabulary = pytest.mark.parametrize(
    ("name", "tokenizer"),
    [(name, name) for name in (*MADE_HERE, *REAL)],
    indirect=["tokenizer"],
    ids=[*MADE_HERE, *REAL],
)


def test_the_rules_are_those_that_the_ids_were_made_with() -> None:
    """The library brings them; when it brings others, the ids below are to be made anew."""
    assert {golden(name)["rules"] for name in MADE_HERE} == {rules_hash()}


@every_vocabulary
def test_ids_are_those_of_the_published_code(name: str, tokenizer: Tokenizer) -> None:
    """transformers#9165, #14712, #45701, #48967: ids differed by engine and by release."""
    content = golden(name)
    assert content["versions"]["transformers"].startswith("4.57.")
    rows = content["texts"]
    assert [row["text"] for row in rows] == list(TEXTS)
    ids, _, _ = tokenizer.encode_ids(TEXTS, policy=None)
    own = "slow" if content["slow"] and name not in READ_AS_FAST else "fast"
    for row, got in zip(rows, ids, strict=True):
        assert got == row.get(own, row.get("slow")), row["text"]
    assert tokenizer.encode("one", "two").ids == content["pair"]


@pytest.mark.parametrize("name", [*MADE_HERE, *REAL])
def test_the_engines_disagree_where_it_is_said(name: str) -> None:
    """The evidence: how many texts the other engine reads in another way."""
    rows = golden(name)["texts"]
    differing = [row["text"] for row in rows if "slow" in row and "fast" in row]
    assert len(differing) == DIFFERENCES.get(name, 0)


@every_vocabulary
def test_offsets_are_those_of_the_fast_engine(name: str, tokenizer: Tokenizer) -> None:
    """Beside our own rules: no spaces, accents with their letters, empty ranges for markers."""
    compared = 0
    for row in golden(name)["texts"]:
        text = row["text"]
        [[encoding]], _ = tokenizer.encode_many([text], policy=None)
        # Of two accents that became a quotation mark, theirs covers the first.
        marked = "``" in text or any(unicodedata.category(c)[0] == "M" for c in text)
        if "offsets" not in row or marked or encoding.ids != row.get("fast", row.get("slow")):
            continue
        pieces = tokenizer.tokens(encoding.ids)
        for piece, (start, end), ours in zip(pieces, row["offsets"], encoding.offsets, strict=True):
            if piece != "\u2581" and not piece.startswith("<0x"):
                assert bare(text[slice(*ours)]) == bare(text[start:end]), (text, piece)
                compared += 1
    assert compared > 300 or name == "flaubert"  # of which there is no fast engine


def test_a_cased_accent_is_read_as_bert_was_trained(cased: Tokenizer) -> None:
    """The slow class joins the accent with its letter; Devlin et al.'s code does not."""
    rows = [row for row in golden("bert_cased")["texts"] if "fast" in row]
    texts = [row["text"] for row in rows]
    assert all(unicodedata.normalize("NFC", text) != text for text in texts)
    composed, _, _ = cased.encode_ids(
        [unicodedata.normalize("NFC", text) for text in texts], policy=None
    )
    assert composed == [row["slow"] for row in rows]


@pytest.mark.parametrize("name", MADE_HERE)
def test_saved_files_are_the_published_ones(
    name: str, made_here: dict[str, Tokenizer], tmp_path: Path
) -> None:
    tokenizer = made_here[name]
    tokenizer.save(tmp_path / "saved")
    original = write_folder(FAMILIES[name], tmp_path / "original")
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    vocabulary = {FAMILIES[name].file} if FAMILIES[name].file else {"vocab.json", "merges.txt"}
    assert names == {*vocabulary, "tokenizer_config.json", "special_tokens_map.json"}
    for each in vocabulary:
        assert (tmp_path / "saved" / str(each)).read_bytes() == (original / str(each)).read_bytes()
    again = load_tokenizer(tmp_path / "saved")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.special_tokens == tokenizer.special_tokens
    # An old tokenizer.json would count more than the files.
    (tmp_path / "saved" / "tokenizer.json").write_text("{}")
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").fingerprint == tokenizer.fingerprint
