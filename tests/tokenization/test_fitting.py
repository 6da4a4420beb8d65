"""Tokenizers that do not belong to a model are refused, with everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bothways.errors import TokenizerError
from bothways.tokenization.fitting import check_fits, odd_size
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

ROWS = 24  # pieces of the tiny vocabulary


def test_a_tokenizer_that_fits_passes(tiny: Tokenizer, any_tokenizer: Tokenizer) -> None:
    assert tiny.largest_id == ROWS - 1
    check_fits(tiny, vocab_rows=ROWS, pad_position_id=0, needs_mask=True)
    rows = any_tokenizer.vocab_size
    check_fits(any_tokenizer, vocab_rows=rows, pad_position_id=None, needs_mask=True)


def test_an_id_beyond_the_embedding_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"largest id is 23 \('##e'\).*has 23 rows"):
        check_fits(tiny, vocab_rows=ROWS - 1, pad_position_id=None, needs_mask=False)


def test_ids_with_gaps_are_seen(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    tokenizer = load_tokenizer(folder)
    tokenizer.save(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["far"] = 99
    (folder / "tokenizer.json").write_text(json.dumps(content))
    gapped = load_tokenizer(folder)
    assert gapped.vocab_size == ROWS + 1
    assert gapped.largest_id == 99
    with pytest.raises(TokenizerError, match="largest id is 99"):
        check_fits(gapped, vocab_rows=ROWS + 1, pad_position_id=None, needs_mask=False)


def test_missing_special_tokens_are_refused(make_folder: Callable[..., Path]) -> None:
    tokenizer = load_tokenizer(make_folder(("[UNK]", "[CLS]", "[SEP]", "a")))
    check = {"vocab_rows": ROWS, "pad_position_id": None}
    with pytest.raises(TokenizerError, match="no pad, mask token"):
        check_fits(tokenizer, vocab_rows=ROWS, pad_position_id=None, needs_mask=True)
    with pytest.raises(TokenizerError, match="no pad token"):
        check_fits(tokenizer, needs_mask=False, **check)  # type: ignore[arg-type]


def test_a_mask_that_is_not_in_the_vocabulary_is_no_mask(make_folder: Callable[..., Path]) -> None:
    """transformers#16798: for a custom vocabulary another symbol was used as the mask."""
    tokenizer = load_tokenizer(make_folder(tokenizer_config={"mask_token": "[HIDDEN]"}))
    assert tokenizer.mask_id is None
    with pytest.raises(TokenizerError, match="no mask token"):
        check_fits(tokenizer, vocab_rows=ROWS, pad_position_id=None, needs_mask=True)


def test_a_named_mask_becomes_a_special_token(make_folder: Callable[..., Path]) -> None:
    """transformers#16798: the mask id must be one that masking leaves alone."""
    tokenizer = load_tokenizer(make_folder(tokenizer_config={"mask_token": {"content": "x"}}))
    assert tokenizer.mask_id == 10
    assert tokenizer.mask_id in tokenizer.special_ids
    ids, _, _ = tokenizer.encode_ids(["cat x"], policy=None, special_tokens_in_text="parse")
    assert ids == [[2, 6, 10, 3]]


def test_a_padding_id_unlike_the_one_of_the_positions_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="padding id is 0, but .* from padding id 1"):
        check_fits(tiny, vocab_rows=ROWS, pad_position_id=1, needs_mask=False)


def test_a_template_that_adds_nothing_is_refused(make_folder: Callable[..., Path]) -> None:
    """GLiNER PR#373, #324: a changed setting dropped [CLS] and [SEP]; scores fell near zero."""
    folder = make_folder(tokenizer_config={"cls_token": "[CLS]", "sep_token": "[SEP]"})
    load_tokenizer(folder).save(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(content))
    bare = load_tokenizer(folder)
    assert bare.encode("the cat").ids == [5, 6]
    with pytest.raises(TokenizerError, match=r"puts nothing before.*expected \[CLS\] and \[SEP\]"):
        check_fits(bare, vocab_rows=ROWS, pad_position_id=None, needs_mask=False)


@pytest.mark.parametrize(
    ("rows", "odd"),
    [(ROWS, False), (ROWS + 128, False), (ROWS + 129, True), (50_000, True)],
)
def test_a_vocabulary_much_smaller_than_the_table_is_odd(
    tiny: Tokenizer, rows: int, odd: bool
) -> None:
    """A vocab.txt that was cut off keeps its special pieces and spells most words by letters."""
    told = odd_size(tiny, rows)
    assert (told is not None) == odd
    if told is not None:
        assert f"has 24 pieces and the token embedding {rows:,} rows" in told


def test_all_problems_are_in_one_error(make_folder: Callable[..., Path]) -> None:
    tokenizer = load_tokenizer(make_folder(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a")))
    with pytest.raises(TokenizerError, match="largest id.*no mask token.*padding id is 0"):
        check_fits(tokenizer, vocab_rows=2, pad_position_id=1, needs_mask=True)
