"""What a layout says about its tokens, against loops that anyone can check."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bothways.model.layout import Batch, Layout, pack, pad

WIDTH = 3
# Sums of at most 10 numbers of size 1 in float32.
ROUNDING = 1e-5

lengths_lists = st.lists(st.integers(1, 6), min_size=1, max_size=9)


@st.composite
def masks(draw: st.DrawFn) -> Tensor:
    """Rectangles in which each row keeps at least one token, anywhere."""
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    row = st.lists(st.booleans(), min_size=length, max_size=length).filter(any)
    return torch.tensor(draw(st.lists(row, min_size=batch, max_size=batch)))


def rows_for(layout: Layout) -> Tensor:
    return torch.randn(layout.num_tokens, WIDTH, generator=torch.Generator().manual_seed(1))


def sequences(rows: Tensor, lengths: list[int]) -> list[Tensor]:
    """The definition: cut the row where each sequence ends."""
    parts, start = [], 0
    for length in lengths:
        parts.append(rows[start : start + length])
        start += length
    return parts


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=ROUNDING, atol=ROUNDING)


@given(lengths_lists)
def test_indices_of_a_packed_row(lengths: list[int]) -> None:
    layout = Layout.packed(lengths)
    assert layout.is_packed
    assert layout.lengths == tuple(lengths)
    assert layout.num_sequences == len(lengths)
    assert layout.num_tokens == sum(lengths)
    assert layout.longest == max(lengths)
    starts = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
    assert layout.starts.tolist() == starts
    assert layout.starts.dtype == torch.int32  # what variable-length kernels take
    assert layout.first_index.tolist() == starts[:-1]
    assert layout.positions.tolist() == [i for length in lengths for i in range(length)]
    expected = [sequence for sequence, length in enumerate(lengths) for _ in range(length)]
    assert layout.sequence_of_token.tolist() == expected


@given(masks())
def test_indices_of_a_rectangle(mask: Tensor) -> None:
    layout = Layout.rectangular(mask.long())
    batch, length = mask.shape
    assert not layout.is_packed
    assert layout.shape == (batch, length)
    assert layout.lengths == tuple(sum(row) for row in mask.tolist())
    assert layout.num_sequences == batch
    assert layout.num_tokens == batch * length
    assert layout.longest == length
    firsts = [row.index(True) + i * length for i, row in enumerate(mask.tolist())]
    assert layout.first_index.tolist() == firsts
    assert layout.sequence_of_token.tolist() == [i for i in range(batch) for _ in range(length)]
    positions = layout.positions.view(batch, length)
    for row, kept in zip(positions, mask, strict=True):
        assert row[kept].tolist() == list(range(int(kept.sum())))  # holes are not counted
    assert positions.min() >= 0


@given(lengths_lists)
def test_groups_hold_every_token_once_and_merge_puts_them_back(lengths: list[int]) -> None:
    layout = Layout.packed(lengths)
    rows = rows_for(layout)
    parts = sequences(rows, lengths)
    assert [group.length for group in layout.groups] == sorted(set(lengths))
    seen = [sequence for group in layout.groups for sequence in group.sequences]
    assert sorted(seen) == list(range(len(lengths)))
    for group in layout.groups:
        taken = group.take(rows)
        assert taken.shape == (len(group.sequences), group.length, WIDTH)
        for sequence, part in zip(group.sequences, taken, strict=True):
            assert torch.equal(part, parts[sequence])
    assert torch.equal(layout.merge([group.take(rows) for group in layout.groups]), rows)


def test_sorted_lengths_are_taken_without_a_copy() -> None:
    layout = Layout.packed([2, 2, 3, 3, 3])
    rows = rows_for(layout)
    start = rows.data_ptr()
    taken = [group.take(rows) for group in layout.groups]
    assert [part.data_ptr() for part in taken] == [start, start + 4 * WIDTH * rows.element_size()]
    scattered = Layout.packed([2, 3, 2]).groups[0]
    assert scattered.index is not None


@given(lengths_lists, st.data())
def test_first_mean_and_max_of_a_packed_row(lengths: list[int], data: st.DataObject) -> None:
    layout = Layout.packed(lengths)
    rows = rows_for(layout)
    parts = sequences(rows, lengths)
    assert torch.equal(layout.first(rows), torch.stack([part[0] for part in parts]))
    close(layout.mean(rows), torch.stack([part.mean(0) for part in parts]))
    close(layout.max(rows), torch.stack([part.amax(0) for part in parts]))
    assert all(
        torch.equal(left, right) for left, right in zip(layout.split(rows), parts, strict=True)
    )
    # Some tokens only, at least one of each sequence.
    keep = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    keep[layout.starts[1:].long() - 1] = True
    kept = [part[chosen] for part, chosen in zip(parts, sequences(keep, lengths), strict=True)]
    close(layout.mean(rows, keep), torch.stack([part.mean(0) for part in kept]))
    close(layout.max(rows, keep), torch.stack([part.amax(0) for part in kept]))


@given(masks(), st.data())
def test_a_rectangle_pools_as_the_packed_row_does(mask: Tensor, data: st.DataObject) -> None:
    wide = Layout.rectangular(mask)
    narrow = Layout.packed(wide.lengths)
    rows = rows_for(wide)
    packed = rows[mask.flatten()]
    close(wide.first(rows), narrow.first(packed))
    close(wide.mean(rows), narrow.mean(packed))
    close(wide.max(rows), narrow.max(packed))
    for left, right in zip(wide.split(rows), narrow.split(packed), strict=True):
        assert torch.equal(left, right)
    keep = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    keep[wide.first_index] = True
    close(wide.mean(rows, keep), narrow.mean(packed, keep[mask.flatten()]))
    close(wide.max(rows, keep), narrow.max(packed, keep[mask.flatten()]))


@given(masks())
def test_pad_puts_back_what_pack_takes_out(mask: Tensor) -> None:
    ids = torch.arange(1, mask.numel() + 1).view(mask.shape)
    batch = pack(ids, mask, ids * 2)
    assert batch.ids.tolist() == ids[mask].tolist()
    assert batch.type_ids is not None
    assert batch.type_ids.tolist() == (ids[mask] * 2).tolist()
    assert batch.layout.lengths == tuple(mask.sum(1).tolist())
    assert torch.equal(pad(batch.ids, mask), ids * mask)


def test_pack_without_a_mask_keeps_everything() -> None:
    batch = pack(torch.tensor([[1, 2], [3, 4]]))
    assert batch.ids.tolist() == [1, 2, 3, 4]
    assert batch.layout.lengths == (2, 2)
    assert batch.type_ids is None


@pytest.mark.parametrize("form", ["packed", "rectangular"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_mean_of_a_long_text_in_half_precision(form: str, dtype: torch.dtype) -> None:
    """A sum of 8,000 tens is beyond float16, and bfloat16 cannot count to 8,000."""
    length = 8_000
    rows = torch.full((2 * length, 2), 10.0, dtype=dtype)
    layout = (
        Layout.packed([length, length])
        if form == "packed"
        else Layout.rectangular(torch.ones(2, length))
    )
    keep = torch.arange(2 * length) % 8 != 0  # 7,000 of each text
    for mean in (layout.mean(rows), layout.mean(rows, keep)):
        assert mean.dtype == dtype
        assert torch.equal(mean, torch.full((2, 2), 10.0, dtype=dtype))


def test_a_text_that_keeps_nothing_has_a_finite_mean() -> None:
    layout = Layout.packed([2, 3])
    keep = torch.tensor([False, False, True, True, True])
    assert torch.equal(layout.mean(torch.ones(5, 2), keep), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


def test_a_batch_moves_as_a_whole() -> None:
    batch = Batch(
        torch.tensor([4, 5, 6]),
        Layout.packed([2, 1]),
        torch.tensor([0, 1, 0]),
        torch.tensor([True, False, True]),
        {"label": torch.tensor([1, 0])},
        ("a", "b"),
    )
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    assert moved.type_ids is not None
    assert moved.special is not None
    for tensor in (moved.ids, moved.type_ids, moved.special, moved.targets["label"]):
        assert tensor.is_meta
    assert moved.layout.lengths == (2, 1)
    assert moved.layout.device == torch.device("meta")
    assert moved.layout.positions.is_meta
    assert moved.sources == ("a", "b")
    rectangle = Batch(torch.tensor([4, 5]), Layout.rectangular(torch.ones(1, 2))).to("meta")
    assert rectangle.layout.mask is not None
    assert rectangle.layout.mask.is_meta
