"""Steps from any cursor, cut for any number of ranks and micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.model.layout import Batch
from bothways.training.feed import ExampleFeed, StepBatches, split_evenly
from tests.training.runs import Texts

TEXTS = Texts.draw(23)


def feed(micro_batches: int = 1, rank: int = 0, num_ranks: int = 1) -> ExampleFeed:
    return ExampleFeed(
        TEXTS.batch,
        lambda epoch: TEXTS.plan(epoch, 5),
        epochs=3,
        micro_batches=micro_batches,
        rank=rank,
        num_ranks=num_ranks,
    )


def examples(step: StepBatches) -> list[int]:
    return [
        source.example for micro in step.micro if micro.counted for source in micro.batch.sources
    ]


@given(st.lists(st.integers(), max_size=40), st.integers(1, 9))
def test_parts_are_even_and_lose_nothing(items: list[int], parts: int) -> None:
    cut = split_evenly(items, parts)
    assert len(cut) == parts
    assert [item for part in cut for item in part] == items
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_every_epoch_reads_every_example_once_in_another_order() -> None:
    steps = list(feed().steps({}))
    assert len(steps) == feed().num_steps == 15
    orders = []
    for epoch in range(3):
        read = [e for step in steps if step.epoch == epoch for e in examples(step)]
        assert sorted(read) == list(range(23))
        orders.append(read)
    assert orders[0] != orders[1]
    assert [step.ends_epoch for step in steps] == [False, False, False, False, True] * 3


@pytest.mark.parametrize("start", range(15))
def test_any_cursor_goes_on_where_it_was_taken(start: int) -> None:
    """transformers PR#40691: a run resumed after the first epoch read the data in wrong order."""
    whole = list(feed().steps({}))
    rest = list(feed().steps(whole[start].cursor))
    assert [examples(step) for step in rest] == [examples(step) for step in whole[start + 1 :]]
    assert [step.cursor for step in rest] == [step.cursor for step in whole[start + 1 :]]


def test_going_on_makes_no_batch_of_the_past() -> None:
    """ModernBERT#246, composer#3649: a resumed run iterated the loader for hours."""
    made: list[Sequence[int]] = []

    def counting(indices: Sequence[int]) -> Batch:
        made.append(indices)
        return TEXTS.batch(indices)

    later = ExampleFeed(counting, lambda epoch: TEXTS.plan(epoch, 5), epochs=3)
    next(later.steps({"epoch": 2, "step": 3}))
    assert len(made) == 1


@pytest.mark.parametrize(("micro_batches", "num_ranks"), [(1, 2), (4, 1), (2, 3), (3, 4)])
def test_ranks_and_micro_batches_share_each_step(micro_batches: int, num_ranks: int) -> None:
    feeds = [feed(micro_batches, rank, num_ranks) for rank in range(num_ranks)]
    for single, *parts in zip(feed().steps({}), *(f.steps({}) for f in feeds), strict=True):
        size = len(examples(single))
        assert {len(part.micro) for part in parts} == {min(micro_batches, -(-size // num_ranks))}
        read = [example for part in parts for example in examples(part)]
        assert sorted(read) == sorted(examples(single))
        assert all(part.cursor == single.cursor for part in parts)


def test_there_are_no_more_parts_than_examples() -> None:
    """Each part costs a forward pass, also one that would read nothing."""
    assert [len(step.micro) for step in feed(100).steps({})][:5] == [5, 5, 5, 5, 3]


def test_a_rank_with_nothing_left_runs_an_uncounted_stand_in() -> None:
    last = [list(feed(4, rank, 2).steps({}))[4] for rank in range(2)]  # 3 examples, 4 parts
    counted = [micro.counted for step in last for micro in step.micro]
    assert counted.count(True) == 3
    assert all(micro.batch.layout.num_sequences == 1 for step in last for micro in step.micro)


def test_a_step_names_its_examples() -> None:
    step = next(feed().steps({}))
    assert feed().describe(step) == "examples " + ", ".join(map(str, examples(step)))
