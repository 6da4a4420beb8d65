"""The plan of an epoch: every example once, alike in length, the same from the same seed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.randomness import USES, keyed_random
from bothways.data.sampling import epoch_order, plan_batches
from bothways.errors import UsageError

LENGTHS = st.lists(st.integers(1, 200), max_size=150)
BUDGETS = st.one_of(
    st.builds(lambda size: {"batch_size": size}, st.integers(1, 20)),
    st.builds(lambda tokens: {"batch_tokens": tokens}, st.integers(1, 500)),
)
# Seconds for a million examples; about 0.5 on a slow core, and the rest for a busy machine.
MILLION_SECONDS = 5.0


def lengths(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(3, 300, count)


@given(
    LENGTHS,
    BUDGETS,
    st.integers(-5, 2**65),
    st.integers(0, 9),
    st.integers(1, 60),
    st.booleans(),
)
def test_every_index_once_within_the_budget_and_shortest_first(
    sizes: list[int], budget: dict[str, int], seed: int, epoch: int, pool: int, grouped: bool
) -> None:
    plan = plan_batches(
        sizes, **budget, seed=seed, epoch=epoch, pool_batches=pool, group_by_length=grouped
    )
    assert sorted(index for batch in plan for index in batch) == list(range(len(sizes)))
    for batch in plan:
        ordered = [sizes[index] for index in batch]
        assert ordered == sorted(ordered)
        if "batch_size" in budget:
            assert 1 <= len(batch) <= budget["batch_size"]
        else:
            assert len(batch) == 1 or sum(ordered) <= budget["batch_tokens"]
    if "batch_size" in budget:
        assert sum(len(batch) < budget["batch_size"] for batch in plan) <= 1
    # Plain integers: they index lists and stand in JSON.
    assert all(type(index) is int for batch in plan for index in batch)


@pytest.mark.parametrize("budget", [{"batch_size": 32}, {"batch_tokens": 4096}])
def test_grouping_makes_batches_alike(budget: dict[str, int]) -> None:
    sizes = lengths(20_000)

    def share_of_padding(grouped: bool) -> float:
        plan = plan_batches(sizes, **budget, seed=0, epoch=0, group_by_length=grouped)
        padded = sum(len(batch) * sizes[batch[-1]] for batch in plan)
        return float(1 - sizes.sum() / padded)

    assert share_of_padding(True) < 0.05
    assert share_of_padding(False) > 0.4


@pytest.mark.parametrize("grouped", [True, False])
def test_token_budgets_are_well_used(grouped: bool) -> None:
    sizes = lengths(20_000)
    plan = plan_batches(sizes, batch_tokens=4096, seed=0, epoch=0, group_by_length=grouped)
    filled = [sizes[batch].sum() / 4096 for batch in plan]
    # Greedy cutting leaves on average half an example, 150 of 4,096 tokens.
    assert np.mean(filled) > 0.95


def test_examples_longer_than_the_budget_stand_alone() -> None:
    plan = plan_batches([3, 900, 4, 1000], batch_tokens=8, seed=0, epoch=0)
    assert sorted(plan) == [[0, 2], [1], [3]]


def test_a_budget_is_used_to_its_last_token() -> None:
    plan = plan_batches([4, 4, 4, 4], batch_tokens=8, seed=0, epoch=0)
    assert [len(batch) for batch in plan] == [2, 2]


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    sizes = lengths(1000)

    def plan(seed: int, epoch: int) -> list[list[int]]:
        return plan_batches(sizes, batch_size=8, seed=seed, epoch=epoch)

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(2, 0)
    assert plan(1, 0) != plan(1, 1)
    assert plan(0, 1) != plan(1, 0)


def test_resume_in_a_later_epoch_meets_that_epochs_order() -> None:
    """transformers PR#40691: a run resumed at epoch 1 replayed the order of epoch 0."""
    sizes = lengths(1000)
    whole = [plan_batches(sizes, batch_size=8, seed=5, epoch=epoch) for epoch in range(3)]
    assert whole[0] != whole[1]
    # What a resumed process does, knowing only (epoch, batch): nothing of epoch 0 is made.
    resumed = plan_batches(sizes, batch_size=8, seed=5, epoch=2)[40:]
    assert resumed == whole[2][40:]


def test_a_million_examples_are_planned_at_once_so_a_seek_costs_no_replay() -> None:
    """ModernBERT#246, composer#3649, #1090: resuming iterated the data for hours."""
    sizes = lengths(1_000_000)
    start = time.perf_counter()
    plan = plan_batches(sizes, batch_tokens=8192, seed=0, epoch=3)
    assert time.perf_counter() - start < MILLION_SECONDS
    assert sum(map(len, plan)) == 1_000_000


def test_batches_are_in_random_order_and_their_company_changes() -> None:
    sizes = lengths(6400)
    plan = plan_batches(sizes, batch_size=32, seed=0, epoch=0)
    longest = np.array([sizes[batch[-1]] for batch in plan])
    # Neighbouring batches would be much alike if pools stayed sorted (correlation 0.99).
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.3
    first = next(batch for batch in plan if 0 in batch)
    again = plan_batches(sizes, batch_size=32, seed=0, epoch=1)
    second = next(batch for batch in again if 0 in batch)
    assert len(set(first) & set(second)) < 16


def test_orders_are_uniform() -> None:
    runs, count = 2000, 5
    table = np.zeros((count, count))
    for epoch in range(runs):
        table[np.arange(count), epoch_order(count, 0, epoch)] += 1
    # Each index at each place in a fifth of the epochs, 400; standard deviation 17.9.
    assert np.abs(table - runs / count).max() < 5 * 17.9


def test_streams_of_one_seed_differ() -> None:
    numbers = {
        keyed_random(seed, epoch=epoch, use=use).random()
        for seed in (0, 1)
        for epoch in (0, 1)
        for use in USES
    }
    assert len(numbers) == 4 * len(USES)
    assert keyed_random(-1, use="order").random() == keyed_random(2**64 - 1, use="order").random()


def test_golden_order() -> None:
    """Runs on disk resume with it: a change here is a change of every resumed run."""
    assert epoch_order(8, seed=1, epoch=2).tolist() == [7, 0, 5, 4, 6, 2, 3, 1]
    assert plan_batches([5, 3, 9, 1, 4], batch_size=2, seed=1, epoch=0) == [[4, 0], [2], [3, 1]]


@pytest.mark.parametrize(
    ("size", "tokens", "pool", "said"),
    [
        (None, None, 50, "give one of"),
        (2, 9, 50, "give one of"),
        (0, None, 50, "batch size is 0"),
        (None, -1, 50, "batch size is -1"),
        (2, None, 0, "pool_batches is 0"),
    ],
)
def test_impossible_settings_are_refused(
    size: int | None, tokens: int | None, pool: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        plan_batches(
            [1, 2], batch_size=size, batch_tokens=tokens, seed=0, epoch=0, pool_batches=pool
        )


@pytest.mark.parametrize("grouped", [True, False])
def test_no_examples_make_no_batches(grouped: bool) -> None:
    assert plan_batches([], batch_size=4, seed=0, epoch=0, group_by_length=grouped) == []
