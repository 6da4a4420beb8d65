"""The order of pretraining: everything once an epoch, full packs, any place at once."""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data import packing
from bothways.data.packing import Pack, Packer, Place, fill
from bothways.data.shards import Shards
from bothways.errors import UsageError
from tests.data.corpora import documents, make_shards

LENGTHS = st.lists(st.integers(1, 70), max_size=200)
# Share of the budget that packs of real text fill.
FILLED = 0.97
STEPS = 260  # packs read where the small corpus has about 100 an epoch


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    folder = tmp_path_factory.mktemp("packing")
    make_shards(folder)
    return Shards(folder / "shards")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Shards:
    """Speeches and glosses: long and very short documents."""
    folder = tmp_path_factory.mktemp("real")
    text = real_data / "rawtext"
    speeches = (text / "us_speeches_pd.txt").read_text().split("\n\n")
    glosses = (text / "wordnet_glosses.txt").read_text().split("\n")
    make_shards(folder, tuple(t for t in speeches[:400] + glosses[:9000] if t.strip()))
    return Shards(folder / "shards")


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 32 rows, so that a small corpus has several."""
    monkeypatch.setattr(packing, "WINDOW_ROWS", 32)
    monkeypatch.setattr(packing, "WINDOW_PACKS", 1)


def packer(shards: Shards, seed: int = 1) -> Packer:
    return Packer(shards, max_length=32, num_special=2, pack_tokens=256, seed=seed)


def passages(packs: list[Pack]) -> list[tuple[int, int, int]]:
    return [
        (row, start, stop)
        for pack in packs
        for row, start, stop in zip(
            pack.rows.tolist(), pack.starts.tolist(), pack.stops.tolist(), strict=True
        )
    ]


@given(LENGTHS, st.integers(70, 300))
def test_every_sequence_is_in_one_pack_within_the_budget(sizes: list[int], budget: int) -> None:
    lengths = np.array(sizes, dtype=np.int64)
    packs = fill(lengths, budget)
    assert sorted(np.concatenate([*packs, np.array([], int)]).tolist()) == list(range(len(sizes)))
    for pack in packs:
        inside = lengths[pack].tolist()
        assert sum(inside) <= budget
        assert inside == sorted(inside)
    # No pack is left with room for what stands in a later one.
    rooms = [budget - int(lengths[pack].sum()) for pack in packs]
    for index, room in enumerate(rooms):
        assert all(lengths[later].min() > room for later in packs[index + 1 :])


def test_what_is_longer_than_the_budget_stands_alone() -> None:
    packs = fill(np.array([3, 900, 4, 1000]), 8)
    assert sorted(pack.tolist() for pack in packs) == [[0, 2], [1], [3]]


@pytest.mark.usefixtures("small_windows")
def test_an_epoch_reads_every_token_of_every_document_once(shards: Shards) -> None:
    plan = packer(shards)
    assert plan.num_windows > 4
    long = [row for row in range(len(shards)) if len(shards.row(row).ids) > 30]
    assert plan.count_long() == len(long) > 10
    for epoch in range(2):
        packs = list(plan.epoch(epoch))
        seen = Counter(
            (row, piece) for row, start, stop in passages(packs) for piece in range(start, stop)
        )
        assert set(seen.values()) == {1}
        assert len(seen) == shards.num_tokens
        assert all((pack.lengths + 2 <= 32).all() for pack in packs)
        assert all((pack.lengths + 2).sum() <= 256 for pack in packs)


@pytest.mark.usefixtures("small_windows")
def test_a_seek_equals_a_replay(shards: Shards) -> None:
    """ModernBERT#246, composer#3649, #1090: going on iterated the loader for hours."""
    run = list(islice(packer(shards).packs(Place()), STEPS))
    assert {place.epoch for _, place in run} == {0, 1, 2}
    for done in (0, 1, 7, 48, 49, 50, 51, 99, 230, STEPS - 1):
        cursor = run[done][1].cursor()
        assert set(cursor) == {"epoch", "window", "offset"}
        again = islice(packer(shards).packs(Place.at(cursor)), STEPS - done - 1)
        for (pack, place), (expected, after) in zip(again, run[done + 1 :], strict=True):
            assert passages([pack]) == passages([expected])
            assert place == after
    assert Place.at({}) == Place()


@pytest.mark.usefixtures("small_windows")
def test_a_seek_plans_one_window(shards: Shards) -> None:
    plan = packer(shards)
    next(plan.packs(Place(7, 3, 2)))
    assert plan._planned is not None
    assert plan._planned[0] == (7, 3)
    start = time.perf_counter()
    next(packer(shards).packs(Place(1_000_000, 5, 0)))
    assert time.perf_counter() - start < 1.0  # no epoch is counted through


def test_a_place_at_the_end_of_a_window_goes_on_with_the_next(shards: Shards) -> None:
    plan = packer(shards)
    last = len(plan.window(0, plan.num_windows - 1))
    pack, _ = next(plan.packs(Place(0, plan.num_windows - 1, last)))
    assert passages([pack]) == passages([plan.window(1, 0)[0]])


@pytest.mark.usefixtures("small_windows")
def test_epochs_and_seeds_have_orders_of_their_own(shards: Shards) -> None:
    """transformers PR#40691: a run resumed at epoch 1 read in the order of epoch 0."""
    first = passages(list(packer(shards).epoch(0)))
    assert first == passages(list(packer(shards).epoch(0)))
    assert first != passages(list(packer(shards).epoch(1)))
    assert first != passages(list(packer(shards, seed=2).epoch(0)))
    assert sorted(first) == sorted(passages(list(packer(shards, seed=2).epoch(1))))


def test_ranks_share_a_pack_evenly_and_lose_nothing(real: Shards) -> None:
    plan = Packer(real, max_length=128, num_special=2, pack_tokens=16_384)
    for pack in plan.window(0, 0)[:20]:
        for ranks in (1, 2, 4, 8):
            parts = pack.split(ranks)
            assert sorted(passages(list(parts))) == sorted(passages([pack]))
            tokens = [part.lengths.sum() for part in parts]
            # Neighbours have about the same length: one passage of difference at most.
            assert max(tokens) - min(tokens) <= 128
    assert len(pack.split(len(pack) + 1)[-1]) == 0


@pytest.mark.parametrize(("max_length", "pack_tokens"), [(64, 4096), (128, 4096), (512, 16_384)])
def test_packs_of_real_text_are_full_and_of_few_lengths(
    real: Shards, max_length: int, pack_tokens: int
) -> None:
    plan = Packer(real, max_length=max_length, num_special=2, pack_tokens=pack_tokens)
    packs = list(plan.epoch())
    assert len(packs) > 15
    filled = [(pack.lengths + 2).sum() / pack_tokens for pack in packs]
    assert np.mean(filled) >= FILLED
    # Attention runs once for each length of a pack.
    assert np.mean([len(np.unique(pack.lengths)) for pack in packs]) < 8


def test_neighbouring_packs_are_not_alike(real: Shards) -> None:
    plan = Packer(real, max_length=128, num_special=2, pack_tokens=4096)
    longest = np.array([pack.lengths.max() for pack in plan.epoch()])
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.3


def test_one_short_document_is_a_corpus(tmp_path: Path) -> None:
    make_shards(tmp_path, (documents()[9],))
    plan = packer(Shards(tmp_path / "shards"))
    run = list(islice(plan.packs(Place()), 3))
    assert [len(pack) for pack, _ in run] == [1, 1, 1]
    assert [place for _, place in run] == [Place(1), Place(2), Place(3)]


@pytest.mark.parametrize(
    ("length", "budget", "said"),
    [(2, 64, "no room beside 2 special"), (64, 63, "smaller than a sequence of 64")],
)
def test_impossible_sizes_are_refused(shards: Shards, length: int, budget: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Packer(shards, max_length=length, num_special=2, pack_tokens=budget)
