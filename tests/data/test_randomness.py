"""Numbers that are functions of keys: scattered, the same everywhere, orders without a store."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.randomness import keyed_hash, mix, permuted, to_range, to_unit

# Standard deviations that a count may be off; one in 15,000 tests would fail by chance, and the
# keys are fixed.
SIGMAS = 4.0


def test_a_number_does_not_depend_on_its_company() -> None:
    rows, places = np.arange(50), np.arange(7)[:, None]
    table = keyed_hash("masks", 5, 2, rows, places)
    assert table.shape == (7, 50)
    assert keyed_hash("masks", 5, 2, 31, 4)[0] == table[4, 31]
    assert len(np.unique(table)) == table.size


def test_every_key_counts() -> None:
    base = ("masks", 5, 2, 31)
    others = [("pairs", 5, 2, 31), ("masks", 6, 2, 31), ("masks", 5, 3, 31), ("masks", 5, 2, 32),
              ("masks", 2, 5, 31), ("masks", 5, 2), ("masks", -5, 2, 31)]  # fmt: skip
    numbers = {int(keyed_hash(use, *keys)[0]) for use, *keys in (base, *others)}  # type: ignore[arg-type]
    assert len(numbers) == 1 + len(others)


def test_golden_numbers() -> None:
    """Runs on disk resume with them: a change here changes every run and every evaluation."""
    assert keyed_hash("masks", 7, 0, [12, 13]).tolist() == [
        14485792516748012992,
        3249752002151784313,
    ]
    assert permuted(range(8), 8, keyed_hash("order", 1, 0)).tolist() == GOLDEN_ORDER


GOLDEN_ORDER = [2, 7, 1, 0, 4, 3, 5, 6]


def test_mixing_is_one_to_one_and_scatters() -> None:
    values = np.arange(100_000, dtype=np.uint64)
    mixed = mix(values)
    assert len(np.unique(mixed)) == len(values)
    # Each of 64 bits is set in half of the numbers.
    ones = np.unpackbits(mixed.view(np.uint8).reshape(-1, 8), axis=1).sum(0)
    assert np.abs(ones.astype(int) - 50_000).max() < SIGMAS * np.sqrt(100_000 / 4)


def test_units_and_ranges_are_even() -> None:
    hashes = keyed_hash("masks", 0, np.arange(60_000))
    unit = to_unit(hashes)
    assert 0.0 <= unit.min() < 0.001
    assert 0.999 < unit.max() < 1.0
    counts = np.bincount(to_range(hashes, 6), minlength=6)
    assert np.abs(counts - 10_000).max() < SIGMAS * np.sqrt(60_000 / 6 * 5 / 6)
    assert len(counts) == 6


@given(st.integers(1, 3000), st.integers(0, 2**64), st.integers(0, 5))
def test_an_order_holds_everything_once(count: int, seed: int, epoch: int) -> None:
    key = keyed_hash("order", seed, epoch)
    order = permuted(np.arange(count), count, key)
    assert sorted(order.tolist()) == list(range(count))
    # Any part of it is made alone.
    some = np.arange(count)[count // 3 : count // 2 + 1]
    assert permuted(some, count, key).tolist() == order[some].tolist()


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_orders_of_few_things_are_even(count: int) -> None:
    runs = 800
    table = np.zeros((count, count))
    for seed in range(runs):
        table[np.arange(count), permuted(np.arange(count), count, keyed_hash("order", seed))] += 1
    expected = runs / count
    assert np.abs(table - expected).max() < SIGMAS * np.sqrt(expected * (1 - 1 / count))


def test_all_orders_of_four_things_occur() -> None:
    seen = Counter(
        tuple(permuted(np.arange(4), 4, keyed_hash("order", seed)).tolist()) for seed in range(2000)
    )
    assert len(seen) == 24
    assert max(seen.values()) < 3 * min(seen.values())


def test_neighbours_of_a_large_corpus_come_from_everywhere() -> None:
    count = 1_000_000_007
    order = permuted(np.arange(4096) + 700_000_000, count, keyed_hash("order", 3, 1))
    assert len(np.unique(order)) == 4096
    tenths = np.bincount(order * 10 // count, minlength=10)
    assert np.abs(tenths - 409.6).max() < SIGMAS * np.sqrt(409.6 * 0.9)
