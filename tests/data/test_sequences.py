"""Passages between special pieces, and pairs that follow each other or do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bothways.data.collate import masked_batch
from bothways.data.masking import Masking, MaskVocabulary, mask_tokens
from bothways.data.packing import Pack, Packer
from bothways.data.sequences import (
    IN_ORDER,
    NO_PAIR,
    NOT_IN_ORDER,
    Relation,
    Sequences,
    paired,
    single,
)
from bothways.data.shards import Shards
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.train import Algorithm
from tests.data.corpora import documents, make_shards, tokenizer

RELATIONS: tuple[Relation, ...] = ("next-sentence", "sentence-order")
KINDS: tuple[tuple[Algorithm, str], ...] = (("wordpiece", "bert"), ("bpe", "roberta"))
SIGMAS = 4.0


@pytest.fixture(scope="module", params=KINDS, ids=["bert", "roberta"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, Shards]:
    """A tokenizer whose pairs have types and one separator, and one with two and without."""
    reader = tokenizer(*request.param)
    folder = tmp_path_factory.mktemp("sequences")
    make_shards(folder, tokenizer=reader)
    return reader, Shards(folder / "shards")


def whole(shards: Shards, max_length: int = 48, special: int = 4) -> Pack:
    packer = Packer(shards, max_length=max_length, num_special=special, pack_tokens=1 << 20)
    [pack] = packer.epoch()
    return pack


def inner(sequences: Sequences) -> list[list[int]]:
    """The ids of each sequence without what the template added."""
    ends = np.cumsum(sequences.lengths).tolist()
    starts = [0, *ends[:-1]]
    return [
        sequences.ids[start:end][~sequences.special[start:end]].tolist()
        for start, end in zip(starts, ends, strict=True)
    ]


def passage(shards: Shards, pack: Pack, index: int) -> list[int]:
    row = shards.row(int(pack.rows[index]))
    return row.ids[int(pack.starts[index]) : int(pack.stops[index])].tolist()  # type: ignore[no-any-return]


def test_a_passage_reads_as_the_tokenizer_reads_a_text(case: tuple[Tokenizer, Shards]) -> None:
    reader, shards = case
    texts = documents()
    fits = np.array([r for r in range(len(shards)) if len(shards.row(r).ids) < 200])[:50]
    pack = Pack(fits, np.zeros_like(fits), shards.lengths(fits))
    sequences = single(shards, pack, reader.template)
    ends = np.cumsum(sequences.lengths).tolist()
    for index, row in enumerate(fits.tolist()):
        encoding = reader.encode(texts[shards.document(row)])
        inside = slice(ends[index] - len(encoding), ends[index])
        assert sequences.ids[inside].tolist() == encoding.ids
        assert sequences.special[inside].tolist() == encoding.special
        words = [a != b for a, b in zip(encoding.words[1:], encoding.words[:-1], strict=True)]
        assert sequences.word_starts[inside].tolist() == [True, *words]
    assert sequences.type_ids is None
    assert sequences.keys.tolist() == [[row, 0] for row in fits.tolist()]


def test_a_passage_that_begins_inside_a_word_begins_a_word(case: tuple[Tokenizer, Shards]) -> None:
    reader, shards = case
    row = next(r for r in range(len(shards)) if not shards.row(r).word_starts[1:3].all())
    inside = 1 + int(np.flatnonzero(~shards.row(row).word_starts[1:])[0])
    pack = Pack(np.array([row]), np.array([inside]), np.array([inside + 1]))
    assert single(shards, pack, reader.template).word_starts.all()


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_have_the_template_of_pairs(
    case: tuple[Tokenizer, Shards], relation: Relation
) -> None:
    reader, shards = case
    pack = whole(shards)
    made = paired(shards, pack, reader.pair_template, relation, seed=0, epoch=0)
    around = reader.pair_template
    ends = np.cumsum(made.lengths).tolist()
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        ids, special = made.ids[start:end].tolist(), made.special[start:end]
        assert [i for i, s in zip(ids, special, strict=True) if s] == [
            piece for group in around.specials for piece in group
        ]
        assert ids[0] == reader.cls_id
        assert end - start <= 48
        if made.type_ids is not None:  # zeros up to the first separator, then ones
            types = made.type_ids[start:end]
            assert types.tolist() == sorted(types.tolist())
            assert types[special.nonzero()[0][1]] == 0
    assert (made.type_ids is not None) == around.has_types


def test_sentence_order_exchanges_the_parts_of_half_the_passages(
    case: tuple[Tokenizer, Shards],
) -> None:
    reader, shards = case
    pack = whole(shards)
    made = paired(shards, pack, reader.pair_template, "sentence-order", seed=0, epoch=0)
    assert made.relations is not None
    turned = 0
    for index, ids in enumerate(inner(made)):
        original = passage(shards, pack, index)
        relation = made.relations[index]
        if len(original) == 1:
            assert relation == NO_PAIR
            assert ids == original
        elif relation == IN_ORDER:
            assert ids == original
        else:
            turned += 1
            assert ids != original or len(set(ids)) < len(ids)
            assert any(ids[k:] + ids[:k] == original for k in range(1, len(ids)))
    pairs = int((made.relations != NO_PAIR).sum())
    assert abs(turned - pairs / 2) < SIGMAS * np.sqrt(pairs / 4)


def test_next_sentences_come_from_other_documents_in_half_the_pairs(
    case: tuple[Tokenizer, Shards],
) -> None:
    reader, shards = case
    pack = whole(shards)
    made = paired(shards, pack, reader.pair_template, "next-sentence", seed=0, epoch=0)
    assert made.relations is not None
    texts = {row: shards.row(row).ids.tolist() for row in range(len(shards))}

    def holds(ids: list[int], part: list[int]) -> bool:
        return any(ids[k : k + len(part)] == part for k in range(len(ids) - len(part) + 1))

    apart = 0
    for index, ids in enumerate(inner(made)):
        original = passage(shards, pack, index)
        if made.relations[index] != NOT_IN_ORDER:
            assert ids == original
            continue
        apart += 1
        assert len(ids) <= len(original)
        common = next((k for k in range(len(ids)) if ids[k] != original[k]), len(ids))
        own = int(pack.rows[index])
        if len(ids) - common > 3:  # the rest stands in another document
            rest = ids[common:]
            assert any(holds(texts[row], rest) for row in texts if row != own)
    pairs = int((made.relations != NO_PAIR).sum())
    assert abs(apart - pairs / 2) < SIGMAS * np.sqrt(pairs / 4)


def test_pairs_are_cut_where_sentences_start(case: tuple[Tokenizer, Shards]) -> None:
    reader, shards = case
    pack = whole(shards)
    made = paired(shards, pack, reader.pair_template, "sentence-order", seed=0, epoch=0)
    assert made.relations is not None
    ends = np.cumsum(made.lengths).tolist()
    between = len(reader.pair_template.specials[1])
    checked = 0
    for index, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        arrays = shards.row(int(pack.rows[index]))
        inside = slice(int(pack.starts[index]) + 1, int(pack.stops[index]))
        if made.relations[index] == NO_PAIR or not arrays.sentence_starts[inside].any():
            continue
        first = int(np.flatnonzero(made.special[start:end])[1]) - 1
        size = first if made.relations[index] == IN_ORDER else end - start - first - 2 - between
        assert arrays.sentence_starts[int(pack.starts[index]) + size]
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_are_functions_of_seed_epoch_and_passage(
    case: tuple[Tokenizer, Shards], relation: Relation
) -> None:
    reader, shards = case
    pack = whole(shards)

    def pairs(part: Pack, seed: int = 0, epoch: int = 0) -> dict[tuple[int, ...], list[int]]:
        made = paired(shards, part, reader.pair_template, relation, seed=seed, epoch=epoch)
        return dict(zip(map(tuple, made.keys.tolist()), inner(made), strict=True))

    all_of_them = pairs(pack)
    halves = [pairs(part) for part in pack.split(2)]
    assert halves[0] | halves[1] == all_of_them
    assert pairs(pack, epoch=1) != all_of_them != pairs(pack, seed=1)


def test_a_corpus_of_one_document_has_next_sentences_only(tmp_path: Path) -> None:
    make_shards(tmp_path, (documents()[4],))
    shards = Shards(tmp_path / "shards")
    template = tokenizer().pair_template
    made = paired(shards, whole(shards, 16), template, "next-sentence", seed=0, epoch=0)
    assert made.relations is not None
    assert set(made.relations.tolist()) <= {IN_ORDER, NO_PAIR}


def test_a_batch_of_pairs_brings_relations(case: tuple[Tokenizer, Shards]) -> None:
    reader, shards = case
    pack = whole(shards)
    made = paired(shards, pack, reader.pair_template, "sentence-order", seed=0, epoch=0)
    hidden = mask_tokens(made, Masking(), MaskVocabulary.of(reader), seed=0, epoch=0)
    batch = masked_batch(made, hidden)
    assert made.relations is not None
    assert batch.targets["relation"].tolist() == made.relations.tolist()
    assert (batch.type_ids is not None) == reader.pair_template.has_types


def test_no_passages_make_no_sequences(case: tuple[Tokenizer, Shards]) -> None:
    reader, shards = case
    none = whole(shards).take(slice(0, 0))
    assert len(single(shards, none, reader.template).ids) == 0
    made = paired(shards, none, reader.pair_template, "next-sentence", seed=0, epoch=0)
    assert len(made.ids) == len(made.lengths) == 0
