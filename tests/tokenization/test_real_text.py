"""More than a thousand real lines in many scripts: ids equal to the engine's and to transformers'.

transformers 5 changed several tokenizers; where a class of it is an oracle here it reads the same
vocabulary files and agrees with `tokenizers` itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers

from bothways.tokenization.tokenizer import Tokenizer

NUM_LINES = 100  # of each file
LANGUAGES = ("tha_Thai", "arb_Arab", "zho_Hans", "deu_Latn", "swh_Latn")


@pytest.fixture(scope="module")
def lines(real_data: Path) -> list[str]:
    def read() -> Iterator[list[str]]:
        yield (real_data / "mr" / "rt-polarity.all").read_text(encoding="latin-1").split("\n")
        for language in LANGUAGES:
            table = (real_data / "sib200" / language / "train.tsv").read_text().split("\n")
            yield [line.split("\t")[-1] for line in table]
        for path in sorted((real_data / "rawtext").glob("*.txt")):
            yield path.read_text().split("\n")
        squad = json.loads((real_data / "xquad" / "xquad.zh.json").read_text())
        yield [part["context"] for article in squad["data"] for part in article["paragraphs"]]

    chosen = random.Random(5)
    return [
        line for file in read() for line in chosen.sample(file, min(NUM_LINES, len(file)))
    ]  # fmt: skip


def test_ids_are_the_engines_and_offsets_cover_the_text(
    real_tokenizer: Tokenizer, lines: list[str]
) -> None:
    """What no piece covers is space, becomes space, or is counted as dropped."""
    assert len(lines) > 1000
    encodings, ledger = real_tokenizer.encode_many(lines, policy=None)
    expected = real_tokenizer._reader.parsing.encode_batch_fast(lines)
    assert [encoding.ids for [encoding] in encodings] == [encoding.ids for encoding in expected]
    assert ledger.tokens == sum(len(encoding) - 2 for [encoding] in encodings)
    normalizer = real_tokenizer._reader.engine.normalizer
    uncovered = 0
    for line, [encoding] in zip(lines, encodings, strict=True):
        seen = {index for start, end in encoding.offsets for index in range(start, end)}
        missing = [line[index] for index in range(len(line)) if index not in seen]
        uncovered += sum(
            bool(normalizer.normalize_str(character).strip() if normalizer else character.strip())
            for character in missing
        )
    assert uncovered <= ledger.dropped_characters


def test_saved_files_give_transformers_the_same_ids(
    real_tokenizer: Tokenizer, lines: list[str], tmp_path: Path
) -> None:
    real_tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    some = lines[::2]
    ids, _, _ = real_tokenizer.encode_ids(some, policy=None)
    assert theirs(some, truncation=False)["input_ids"] == ids
    pairs, types, _ = real_tokenizer.encode_ids(some[:50], some[50:100], policy=None)
    read = theirs(some[:50], some[50:100], return_token_type_ids=True)
    assert read["input_ids"] == pairs
    assert types is None or read["token_type_ids"] == types
    assert (theirs.mask_token_id, theirs.pad_token_id, theirs.cls_token_id) == (
        real_tokenizer.mask_id,
        real_tokenizer.pad_id,
        real_tokenizer.cls_id,
    )


def test_bert_classes_of_transformers_read_the_same(
    uncased: Tokenizer, cased: Tokenizer, lines: list[str], minilm: Path, real_data: Path
) -> None:
    for tokenizer, folder, lower in (
        (uncased, minilm, True),
        (cased, real_data / "tokenizers" / "bert_cased", False),
    ):
        theirs = transformers.BertTokenizer.from_pretrained(folder, do_lower_case=lower)
        ids, _, _ = tokenizer.encode_ids(lines, policy=None)
        assert theirs(lines, truncation=False)["input_ids"] == ids


def test_roberta_of_transformers_reads_the_same(
    roberta: Tokenizer, lines: list[str], real_data: Path
) -> None:
    """transformers#9165, #5256; bert_score#147: ids differed between releases and engines."""
    folder = real_data / "tokenizers" / "roberta"
    theirs = transformers.RobertaTokenizer.from_pretrained(folder)
    ids, _, _ = roberta.encode_ids(lines, policy=None)
    assert theirs(lines, truncation=False)["input_ids"] == ids
