"""Plans of batches, chunks, and the generator that runs an encoder over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bothways.errors import UsageError
from bothways.inference.batches import plan_batches
from bothways.inference.predictor import chunks, evaluating, run
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch
from tests.inference.encoders import batch_of, draw_ids, encoder

# The kept rows go through the same products, in other shapes: float32 rounding.
ROUNDING = 1e-5

any_lengths = st.lists(st.integers(1, 40), max_size=40)
budgets = st.integers(1, 120)


@given(any_lengths, budgets)
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(
    lengths: list[int], budget: int
) -> None:
    plan = plan_batches(lengths, budget)
    assert sorted(index for batch in plan for index in batch) == list(range(len(lengths)))
    for batch in plan:
        assert batch
        assert sum(lengths[index] for index in batch) <= budget or len(batch) == 1


@given(any_lengths, budgets)
def test_longest_batch_first_shortest_text_first(lengths: list[int], budget: int) -> None:
    plan = plan_batches(lengths, budget)
    for batch in plan:
        inside = [lengths[index] for index in batch]
        assert inside == sorted(inside)
    for longer, shorter in itertools.pairwise(plan):
        assert lengths[longer[0]] >= lengths[shorter[-1]]


@given(any_lengths, budgets)
def test_no_batch_could_take_the_next_text_too(lengths: list[int], budget: int) -> None:
    """Filled one after another, no batch ends before it must."""
    plan = plan_batches(lengths, budget)
    for batch, after in itertools.pairwise(plan):
        assert sum(lengths[index] for index in batch) + lengths[after[-1]] > budget


def test_the_example_of_the_documentation() -> None:
    assert plan_batches([3, 9, 4, 3], 8) == [[1], [3, 2], [0]]
    assert plan_batches([], 8) == []


@pytest.mark.parametrize("budget", [0, -3])
def test_a_budget_below_one_is_refused(budget: int) -> None:
    with pytest.raises(UsageError, match=f"batch_tokens is {budget}"):
        plan_batches([1, 2], budget)


# --- chunks -------------------------------------------------------------------------------------


@given(st.lists(st.integers()), st.integers(1, 7))
def test_chunks_put_together_are_the_items(items: list[int], size: int) -> None:
    found = list(chunks(items, size))
    assert [item for chunk in found for item in chunk] == items
    assert all(len(chunk) == size for chunk in found[:-1])
    assert all(found)


def test_chunks_read_no_further_than_needed() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    stream = chunks(numbers(), 10)
    assert next(stream) == list(range(10))
    assert read == list(range(10))


def test_a_single_text_is_not_a_list_of_letters() -> None:
    with pytest.raises(UsageError, match=r"expected several texts, got one: 'a single text'"):
        list(chunks("a single text", 3))


# --- run ----------------------------------------------------------------------------------------


def last(output: EncoderOutput, batch: Batch) -> Tensor:
    return output.last_hidden


@pytest.mark.parametrize("budget", [1, 9, 1000])
def test_outputs_are_those_of_each_text_alone(budget: int) -> None:
    model = encoder()
    ids = draw_ids([5, 1, 8, 5, 2])
    found: dict[int, Tensor] = {}
    for indices, rows, batch in run(model, last, ids, batch_tokens=budget):
        assert [len(ids[index]) for index in indices] == list(batch.layout.lengths)
        found.update(zip(indices, batch.layout.split(rows), strict=True))
    with torch.no_grad():
        for index, pieces in enumerate(ids):
            expected = model(batch_of([pieces])).last_hidden
            torch.testing.assert_close(found[index], expected, atol=ROUNDING, rtol=ROUNDING)


def test_segments_reach_the_encoder() -> None:
    model = encoder()
    ids = draw_ids([4, 6])
    types = [[0, 0, 1, 1], [0, 1, 1, 1, 1, 1]]
    for _, _, batch in run(model, last, ids, type_ids=types, batch_tokens=100):
        assert batch.type_ids is not None
        assert batch.type_ids.tolist() == [kind for kinds in types for kind in kinds]


def test_only_the_wanted_rows_are_computed() -> None:
    model = encoder()
    ids = draw_ids([4, 6, 2])

    def second(batch: Batch) -> Tensor:
        return batch.layout.first_index + 1

    (whole,) = [(i, r, b) for i, r, b in run(model, last, ids, batch_tokens=100)]
    (some,) = run(model, last, ids, rows=second, batch_tokens=100)
    assert some[0] == whole[0]
    expected = whole[1][second(whole[2])]
    torch.testing.assert_close(some[1], expected, atol=ROUNDING, rtol=ROUNDING)


def test_progress_is_told_after_each_batch() -> None:
    told: list[int] = []
    stream = run(encoder(), last, draw_ids([5, 5, 5]), batch_tokens=10, on_batch=told.append)
    assert [len(indices) for indices, _, _ in stream] == told == [2, 1]


def test_whoever_takes_outputs_is_not_in_inference_mode() -> None:
    """An error in the middle, kept by a debugger, would leave all of torch without gradients."""
    model = encoder()
    stream = run(model, last, draw_ids([5, 5, 5]), batch_tokens=5)
    _, rows, _ = next(stream)
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()
    assert rows.is_inference()
    assert (rows * 1).sum().isfinite()


def test_modules_get_their_mode_back_after_an_error() -> None:
    model, other = encoder().train(), encoder()
    context = evaluating(model, None, other)
    context.__enter__()
    seen = [module.training for module in (model, model.layers[0], other)]
    context.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert seen == [False, False, False]
    assert model.training
    assert model.layers[0].training
    assert not other.training
