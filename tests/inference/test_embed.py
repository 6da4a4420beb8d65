"""Vectors of texts and tokens, similarity, and what is said about what was lost."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from bothways.errors import DataError, TaskError, UsageError
from bothways.inference.model import Model, load
from bothways.inference.results import Similarities
from bothways.tokenization.encoding import Ledger
from tests.checkpoints.models import edit_json

# Float32 over six layers, sums in another order; entries of the vectors are about 0.05.
PARITY = 2e-5
# One vector beside another of the same model, from the same products.
ROUNDING = 2e-6
TEXTS = [
    "A man is playing a guitar.",
    "",
    "Nothing of the kind, 42!",
    "naïve café, ÅNGSTRÖM, 東京 and 😀",
    "word " * 700,
    "a",
    "[SEP] is not the end [MASK]",
]


def test_vectors_are_those_of_sentence_transformers(real: Model, minilm: Path) -> None:
    texts = [text for text in TEXTS if "[" not in text]
    theirs = SentenceTransformer(str(minilm), device="cpu")
    expected = theirs.encode(texts)
    given = real.embed(texts)
    assert given.vectors.dtype == np.float32
    assert np.abs(given.vectors - expected).max() < PARITY
    raw = real.embed(texts, normalize=False).vectors
    assert np.abs(np.linalg.norm(raw, axis=1) - 1).min() > 0.1


def test_what_a_user_types_is_no_special_piece(real: Model) -> None:
    """The vector of "[SEP]" differs from that of a text that the tokenizer cuts there."""
    given = real.embed(["[SEP] is not the end [MASK]"])
    assert given.ledger.special_in_text == 2
    parsed = real.embed(["is not the end"]).vectors
    assert float(given.vectors[0] @ parsed[0]) < 0.99


def test_the_ledger_counts_what_was_cut(real: Model) -> None:
    """sentence-transformers#4060, #181, #285: texts silently cut."""
    ledger = real.embed(TEXTS).ledger
    assert ledger.texts == len(TEXTS)
    assert (ledger.texts_cut, ledger.end) == (1, "tail")
    assert ledger.tokens_cut == 700 - (256 - 2)
    tail = real.embed(["word " * 700], policy="tail", max_length=100).ledger
    assert (tail.tokens_cut, tail.end) == (700 - 98, "head")


def test_order_is_that_of_the_input(real: Model) -> None:
    together = real.embed(TEXTS).vectors
    for index, text in enumerate(TEXTS):
        alone = real.embed([text]).vectors[0]
        assert np.abs(alone - together[index]).max() < ROUNDING
    backwards = real.embed(TEXTS[::-1], batch_tokens=50).vectors[::-1]
    assert np.abs(backwards - together).max() < ROUNDING


def test_pairs_are_one_text_with_segments(real: Model) -> None:
    pairs = [("a man", "plays"), ("a", "man plays")]
    one, other = real.embed(pairs).vectors
    assert np.abs(one - other).max() > 1e-3
    encoding = real.tokenizer.encode(*pairs[0])
    states = real.embed_tokens(pairs)[0]
    assert states.shape == (len(encoding), 384)
    with pytest.raises(UsageError, match="1 of 2 inputs are pairs"):
        real.embed([("a", "b"), "c"])


def test_nothing_in_nothing_out(real: Model) -> None:
    assert real.embed([]).vectors.shape == (0, 384)
    assert real.embed(iter([])).ledger == Ledger()
    assert real.embed_tokens([]) == []
    assert real.similarity([], ["a"]).shape == (0, 1)


def test_a_text_of_fifty_thousand_tokens_is_cut_and_counted(real: Model) -> None:
    given = real.embed(["word " * 50_000, "word " * 254])
    assert given.ledger.tokens_cut == 50_000 - 254
    assert np.abs(given.vectors[0] - given.vectors[1]).max() < ROUNDING


def test_dropped_characters_are_counted(real: Model) -> None:
    given = real.embed(["no\0thing", "nothing"])
    assert given.ledger.dropped_characters == 1
    assert np.abs(given.vectors[0] - given.vectors[1]).max() < ROUNDING


def test_a_lone_surrogate_is_refused_with_its_place(real: Model) -> None:
    with pytest.raises(DataError, match=r"1 of 2 rows.*row 1, character 3 \(U\+D800\)"):
        real.embed(["fine", "bad\ud800"])


# --- streams ------------------------------------------------------------------------------------


def test_a_stream_in_chunks_is_the_whole(real: Model) -> None:
    whole = real.embed(TEXTS)
    parts = list(real.embed_stream(iter(TEXTS), chunk_texts=3))
    assert [len(part.vectors) for part in parts] == [3, 3, 1]
    vectors = np.concatenate([part.vectors for part in parts])
    assert np.abs(vectors - whole.vectors).max() < ROUNDING
    assert Ledger.total(part.ledger for part in parts) == whole.ledger
    tokens = real.embed_tokens(iter(TEXTS[:4]), chunk_texts=3)
    assert [len(each) for each in tokens] == [len(e) for e in real.embed_tokens(TEXTS[:4])]


def test_a_stream_reads_no_more_than_a_chunk_ahead(tiny: Model) -> None:
    read: list[int] = []

    def endless() -> Iterator[str]:
        for number in itertools.count():
            read.append(number)
            yield "the film was long"

    stream = tiny.embed_stream(endless(), chunk_texts=10)
    assert next(stream).vectors.shape == (10, 16)
    assert len(read) == 10


def test_progress_counts_every_text(tiny: Model) -> None:
    told: list[int] = []
    tiny.embed(["the film"] * 30, batch_tokens=40, on_batch=told.append)
    assert (sum(told), len(told)) == (30, 3)


# --- tokens -------------------------------------------------------------------------------------


def test_one_array_a_text_special_pieces_included(real: Model) -> None:
    arrays = real.embed_tokens(TEXTS)
    encodings, ledger = real.tokenizer.encode_many(TEXTS, policy=real.policy())
    assert [array.shape for array in arrays] == [(len(e), 384) for (e,) in encodings]
    assert all(array.dtype == np.float32 for array in arrays)
    assert arrays.ledger == ledger
    means = np.stack([array.mean(0) for array in arrays])
    expected = real.embed(TEXTS, normalize=False).vectors
    assert np.abs(means - expected).max() < PARITY


def test_a_kept_array_does_not_keep_its_batch(tiny: Model) -> None:
    (first, *_) = tiny.embed_tokens(["the film", "a story", "it ended"])
    assert first.base is None or first.base.nbytes == first.nbytes
    first[:] = 0.0  # and it is the caller's own
    assert first.sum() == 0.0


# --- similarity ---------------------------------------------------------------------------------


def test_similarity_is_the_cosine_of_every_pair(real: Model) -> None:
    texts, others = ["a cat", "a boat"], ["kitten", "ship", "the stock exchange"]
    found = real.similarity(texts, others)
    assert isinstance(found, Similarities)
    left, right = real.embed(texts).vectors, real.embed(others).vectors
    assert np.abs(np.asarray(found) - left @ right.T).max() < ROUNDING
    assert found[0].argmax() == 0
    assert found[1].argmax() == 1
    among = real.similarity(texts)
    assert np.abs(np.diag(among) - 1).max() < ROUNDING


def test_similarity_says_what_was_cut(real: Model) -> None:
    found = real.similarity(["word " * 700], ["a", "b"])
    assert (found.ledger.texts, found.ledger.texts_cut) == (3, 1)
    row = found[0]
    assert isinstance(row, Similarities)
    assert row.ledger is found.ledger
    assert real.similarity(["one two"], ["b"], max_length=3).ledger.tokens_cut == 1


@pytest.mark.parametrize("kind", ["dot", "euclidean"])
def test_similarity_is_what_the_folder_says(kind: str, minilm: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(minilm, tmp_path / "model")
    edit_json(folder / "config_sentence_transformers.json", similarity_fn_name=kind)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))  # without the norm
    model = load(folder)
    if kind == "dot":
        vectors = model.embed(["a", "b"]).vectors
        assert np.abs(model.similarity(["a", "b"]) - vectors @ vectors.T).max() < 1e-4
        assert model.similarity(["a"])[0, 0] > 1.5
    else:
        with pytest.raises(TaskError, match=r"'euclidean'; supported: cosine, dot"):
            model.similarity(["a"])


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["embed", "embed_tokens", "similarity"])
def test_one_text_is_not_a_list_of_letters(method: str, real: Model) -> None:
    with pytest.raises(UsageError, match="expected several texts, got one: 'abc'"):
        getattr(real, method)("abc")


@pytest.mark.parametrize("method", ["embed", "embed_tokens", "similarity"])
def test_windows_are_for_tasks(method: str, real: Model) -> None:
    with pytest.raises(UsageError, match="policy 'windows' does not fit"):
        getattr(real, method)(["abc"], policy="windows")


@pytest.mark.parametrize(
    ("length", "expected"), [(513, "max_length is 513.*at most 512"), (0, "is 0"), (2, "2")]
)
def test_a_length_that_cannot_be_is_refused(length: int, expected: str, real: Model) -> None:
    """RoBERTa#1363 and others: the longest length is named."""
    with pytest.raises(UsageError, match=expected):
        real.embed(["abc"], max_length=length)


def test_the_longest_length_is_the_first_that_is_said(real: Model, tiny: Model) -> None:
    assert real.policy().max_length == 256  # sentence_bert_config
    assert real.policy(512).max_length == 512  # as asked, up to the usable positions
    assert tiny.policy().max_length == 24  # the usable positions


def test_texts_of_another_kind_are_refused(real: Model) -> None:
    with pytest.raises(UsageError, match=r"numbers \[1\].*type int"):
        real.embed(["a", 3])  # type: ignore[list-item]


def test_an_encoder_continues_no_text(real: Model, masked: Model) -> None:
    with pytest.raises(TaskError, match=r"does not continue it.*embed, embed_tokens, similarity$"):
        real.generate("Once upon a time")
    with pytest.raises(TaskError, match="fill, embed_sparse$"):
        masked.generate("Once upon a time", max_new_tokens=3)


def test_without_a_tokenizer_nothing_can_be_read(tiny_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_folder, tmp_path / "model")
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (tmp_path / "model" / name).unlink(missing_ok=True)
    model = load(tmp_path / "model")
    assert model.abilities() == []
    with pytest.raises(TaskError, match=r"has no tokenizer.*tokenizer\.json"):
        model.embed(["a"])
    with pytest.raises(TaskError, match="This model can: nothing, because it has no tokenizer"):
        model.generate("a")
