"""Splits: a function of the seed, fair to labels, and without a leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.splits import duplicates_between, split
from bothways.errors import DataError, UsageError

SHARES = st.floats(0.05, 0.95)
SEEDS = st.integers(-(2**70), 2**70)
# A share is reached in whole examples: rounding moves it by less than one.
ROUNDING = 1.0


def test_sides_are_in_file_order_and_together_everything() -> None:
    train, dev = split(range(1000), dev_share=0.1, seed=3)
    assert (len(train), len(dev)) == (900, 100)
    assert train == sorted(train)
    assert dev == sorted(dev)
    assert sorted(train + dev) == list(range(1000))


def test_the_seed_decides() -> None:
    def dev(seed: int) -> list[int]:
        return split(range(500), dev_share=0.2, seed=seed)[1]

    assert dev(1) == dev(1)
    assert dev(1) != dev(2)
    assert dev(-1) != dev(1)


def test_every_place_is_chosen_equally_often() -> None:
    counts = Counter[int]()
    runs = 400
    for seed in range(runs):
        counts.update(split(range(20), dev_share=0.25, seed=seed)[1])
    # 100 of 400 expected, standard deviation 8.7; five of them are met by no place in 20 by chance.
    assert all(abs(counts[place] - 100) < 44 for place in range(20))


@given(st.lists(st.sampled_from("abcde"), min_size=3, max_size=120), SHARES, SEEDS)
def test_stratified_shares_are_right_within_rounding(
    labels: list[str], share: float, seed: int
) -> None:
    counts = Counter(labels)
    try:
        train, dev = split(labels, dev_share=share, seed=seed, stratify=labels)
    except DataError:
        # Only where rounding, or keeping a label in train, leaves nothing to split.
        assert share * len(labels) < len(counts) or max(counts.values()) == 1
        return
    on_dev = Counter(dev)
    for label, count in counts.items():
        assert abs(on_dev[label] - share * count) <= ROUNDING
        assert on_dev[label] < count
    assert Counter(train) + on_dev == counts


def test_the_sum_of_stratified_shares_is_right_too() -> None:
    labels = [f"intent {number % 77}" for number in range(77 * 13)]
    train, dev = split(labels, dev_share=0.1, seed=0, stratify=labels)
    assert len(dev) == round(0.1 * len(labels))  # and not 77 times round(1.3)
    assert set(Counter(dev).values()) == {1, 2}
    assert len(set(train)) == 77


@given(st.lists(st.integers(0, 12), min_size=4, max_size=80), SHARES, SEEDS)
def test_groups_are_never_torn_apart(groups: list[int], share: float, seed: int) -> None:
    try:
        train, dev = split(groups, dev_share=share, seed=seed, group=groups)
    except DataError:
        return
    assert not set(train) & set(dev)
    assert sorted(train + dev) == sorted(groups)


def test_shares_with_groups_are_as_near_as_whole_groups_allow() -> None:
    groups = [number // 5 for number in range(1000)]
    labels = ["a" if group % 4 else "b" for group in groups]
    rows = list(zip(groups, labels, strict=True))
    train, dev = split(rows, dev_share=0.2, seed=7, stratify=labels, group=groups)
    assert not {group for group, _ in train} & {group for group, _ in dev}
    assert Counter(label for _, label in dev) == {"a": 150, "b": 50}


@pytest.mark.parametrize("seed", range(5))
def test_equal_texts_stay_on_one_side_and_chains_hold(seed: int) -> None:
    texts = [f"text {number % 60}" for number in range(200)]
    train, dev = split(texts, dev_share=0.3, seed=seed, texts=texts)
    assert duplicates_between(train, dev) == 0
    # A group and a text join through each other: 0-1 by group, 1-2 by text, 2-3 by group.
    group = [1, 1, 2, 2, *range(10, 26)]
    texts = ["a", "b", "b", "c", *map(str, range(16))]
    _, dev_rows = split(range(20), dev_share=0.5, seed=seed, group=group, texts=texts)
    assert len({0, 1, 2, 3} & set(dev_rows)) in (0, 4)


def test_without_the_option_equal_texts_do_leak_and_are_counted() -> None:
    texts = ["same"] * 50 + ["other"] * 50
    train, dev = split(texts, dev_share=0.2, seed=0)
    assert duplicates_between(train, dev) == len(dev) == 20
    assert duplicates_between(["a", "b"], ["b ", "B", "c"]) == 0


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 10.0, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="dev_share is"):
        split(range(10), dev_share=share, seed=0)


@pytest.mark.parametrize(
    "cut",
    [
        lambda: split(range(3), dev_share=0.1, seed=0),
        lambda: split(range(10), dev_share=0.2, seed=0, group=["one"] * 10),
        lambda: split([], dev_share=0.2, seed=0),
        lambda: split(range(4), dev_share=0.5, seed=0, stratify=list("abcd")),
    ],
)
def test_an_empty_side_is_an_error(cut: Callable[[], object]) -> None:
    with pytest.raises(DataError, match="both sides need at least one"):
        cut()


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError, match="2 labels, groups or texts for 3 examples"):
        split(range(3), dev_share=0.5, seed=0, group=["a", "b"])
