"""Shards: what was written is read, any part of it; damage is named before it is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bothways.data import shard_writing, units
from bothways.data.manifest import MANIFEST, Manifest, id_type, schema
from bothways.data.shards import Shards, ranges
from bothways.errors import DataError
from bothways.tokenization.documents import read_documents
from bothways.tokenization.tokenizer import load_tokenizer
from tests.data.corpora import documents, make_shards, tokenizer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shards of several files of several record batches."""
    monkeypatch.setattr(shard_writing, "BATCH_TOKENS", 3000)
    monkeypatch.setattr(shard_writing, "FILE_TOKENS", 6000)
    make_shards(tmp_path, held_out=0.05)
    return tmp_path / "shards"


def test_columns_are_as_they_are_described(folder: Path) -> None:
    files = Manifest.read(folder).files
    assert len(files["train"]) > 2
    assert min(len(file.batches) for file in files["train"][:-1]) > 1
    reader = pa.ipc.open_file(pa.memory_map(str(folder / "train-00000.arrow")))
    names = ["ids", "word_starts", "sentence_starts", "document"]
    assert reader.schema.names == names
    assert reader.schema.field("ids").type.value_type == pa.uint16()
    assert (id_type(65_536), id_type(65_537)) == (pa.uint16(), pa.uint32())
    assert schema(70_000).field("ids").type.value_type == pa.uint32()
    table = reader.read_all()
    lists = [table.column(name).to_pylist() for name in names[:3]]
    assert all(len(set(map(len, row))) == 1 for row in zip(*lists, strict=True))


def test_both_splits_hold_the_documents_as_they_are_tokenised(folder: Path) -> None:
    expected, _ = read_documents(tokenizer(), documents())
    seen = set()
    for split in ("train", "heldout"):
        shards = Shards(folder, split)
        numbers = [shards.document(row) for row in range(len(shards))]
        assert numbers == sorted(numbers)
        for row, number in enumerate(numbers):
            arrays = shards.row(row)
            assert np.array_equal(arrays.ids, expected[number].ids)
            assert np.array_equal(arrays.word_starts, expected[number].word_starts)
            assert np.array_equal(arrays.sentence_starts, expected[number].sentence_starts)
        seen |= set(numbers)
        assert shards.num_tokens == sum(len(expected[number]) for number in numbers)
    assert seen == set(range(len(documents())))


def test_any_rows_have_their_lengths_and_parts(folder: Path) -> None:
    shards = Shards(folder)
    order = np.random.default_rng(0).permutation(len(shards))
    lengths = shards.lengths(order)
    assert lengths.tolist() == [len(shards.row(row).ids) for row in order.tolist()]
    starts = lengths // 3
    stops = np.maximum(lengths - 1, starts)
    ids, words = shards.gather(order, starts, stops)
    parts = [
        (shards.row(row).ids[start:stop], shards.row(row).word_starts[start:stop])
        for row, start, stop in zip(order.tolist(), starts.tolist(), stops.tolist(), strict=True)
    ]
    assert np.array_equal(ids, np.concatenate([part[0] for part in parts]))
    assert np.array_equal(words, np.concatenate([part[1] for part in parts]))
    none = np.empty(0, np.int64)
    assert len(shards.gather(none, none, none)[0]) == 0
    with pytest.raises(IndexError):
        shards.row(len(shards))


def test_ranges_of_numbers() -> None:
    assert ranges(np.array([5, 9, 0]), np.array([2, 0, 3])).tolist() == [5, 6, 0, 1, 2]


def test_the_tokenizer_lies_beside_them(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert load_tokenizer(folder / "tokenizer").fingerprint == manifest.fingerprint
    assert manifest.vocab_size == tokenizer().largest_id + 1


def damage(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_one_wrong_bit_is_named_with_file_and_batch(folder: Path) -> None:
    entry = Manifest.read(folder).files["train"][1].batches[1]
    damage(folder / "train-00001.arrow", entry.offset + entry.length // 2)
    with pytest.raises(DataError, match=r"train-00001\.arrow is damaged in record batch 1,"):
        Shards(folder)
    assert len(Shards(folder, "heldout")) > 0  # the other files are fine
    Shards(folder, verify=False)


def test_all_damaged_files_are_named_at_once(folder: Path) -> None:
    path = folder / "train-00000.arrow"
    path.write_bytes(path.read_bytes()[:-100])
    (folder / "train-00001.arrow").unlink()
    with pytest.raises(DataError) as caught:
        Shards(folder, verify=False)  # sizes are always compared
    said = str(caught.value)
    assert "train-00000.arrow has" in said
    assert "and should have" in said
    assert "train-00001.arrow is missing" in said
    assert "prepare the corpus again" in said


def test_damage_outside_of_the_batches_is_named_too(folder: Path) -> None:
    path = folder / "train-00000.arrow"
    damage(path, path.stat().st_size - 3)  # Arrow's mark at the end
    with pytest.raises(DataError, match=r"train-00000\.arrow cannot be read"):
        Shards(folder).row(0)


def test_files_that_do_not_belong_together_are_named(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    content["vocab_size"] = 70_000
    (folder / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(DataError, match="holds other data than the manifest says"):
        Shards(folder).row(0)
    content["vocab_size"] = 20
    (folder / MANIFEST).write_text(json.dumps(content))
    shards = Shards(folder)
    rows = np.arange(len(shards))
    with pytest.raises(DataError, match=r"hold the id \d+, and the vocabulary has 20"):
        shards.gather(rows, np.zeros_like(rows), shards.lengths(rows))


def test_a_folder_without_shards_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no finished shards.*bothways prepare.*--resume"):
        Shards(tmp_path)
    (tmp_path / MANIFEST).write_text('{"format": 9}')
    with pytest.raises(DataError, match="has format 9; this version reads format 1"):
        Shards(tmp_path)
    for odd in ('"odd": 2', '"files": []', '"files": {"train": 5}'):
        (tmp_path / MANIFEST).write_text(f'{{"format": 1, {odd}}}')
        with pytest.raises(DataError, match="no finished shards"):
            Shards(tmp_path)


def test_a_split_without_documents_is_refused(tmp_path: Path) -> None:
    make_shards(tmp_path, held_out=0.0)
    with pytest.raises(DataError, match="has no heldout documents"):
        Shards(tmp_path / "shards", "heldout")


def test_a_file_without_batches_is_no_problem(folder: Path) -> None:
    """An empty shard, as another tool may write one."""
    columns = schema(tokenizer().largest_id + 1)
    path = folder / "train-00099.arrow"
    with pa.ipc.new_file(str(path), columns):
        pass
    content = json.loads((folder / MANIFEST).read_text())
    empty = {"name": path.name, "bytes": path.stat().st_size, "batches": []}
    before = len(Shards(folder))
    content["files"]["train"].insert(0, empty)
    (folder / MANIFEST).write_text(json.dumps(content))
    assert len(Shards(folder)) == before


def test_very_long_documents_lie_in_several_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "ROW_TOKENS", 300)
    text = " ".join(documents()[:100])
    manifest = make_shards(tmp_path, (text, *documents()[:20]), held_out=0.0)
    shards = Shards(tmp_path / "shards")
    [pieces], _ = read_documents(tokenizer(), [text])
    rows = [row for row in range(len(shards)) if shards.document(row) == 0]
    assert len(rows) > 5
    assert np.array_equal(np.concatenate([shards.row(row).ids for row in rows]), pieces.ids)
    assert shards.lengths(np.array(rows)).max() <= 300
    assert manifest.counts["documents_split"] >= 1
    assert manifest.counts["documents_train"] == 21


def test_shards_can_be_moved(folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    assert len(Shards(moved)) > 0
