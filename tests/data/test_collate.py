"""Encodings to packed batches."""

from __future__ import annotations

import torch

from bothways.data.collate import Source, collate
from bothways.tokenization.encoding import Encoding


def source(example: int, ids: list[int], types: list[int] | None = None) -> Source:
    length = len(ids)
    special = [True, *[False] * (length - 2), True][:length]
    encoding = Encoding(ids, types or [0] * length, [(0, 0)] * length, [None] * length, special)
    return Source(example, 0, encoding)


def test_sequences_lie_one_after_another_in_the_given_order() -> None:
    sources = [source(1, [2, 7, 3]), source(0, [2, 3])]
    batch = collate(sources, {"label": torch.tensor([1, 0])})
    assert batch.ids.tolist() == [2, 7, 3, 2, 3]
    assert batch.layout.lengths == (3, 2)
    assert batch.special is not None
    assert batch.special.tolist() == [True, False, True, True, True]
    assert batch.targets["label"].tolist() == [1, 0]
    assert batch.sources == tuple(sources)


def test_segments_are_there_only_when_they_say_something() -> None:
    assert collate([source(0, [2, 3])]).type_ids is None
    batch = collate([source(0, [2, 3]), source(1, [2, 5, 3], [0, 1, 1])])
    assert batch.type_ids is not None
    assert batch.type_ids.tolist() == [0, 0, 0, 1, 1]


def test_nothing_is_padded() -> None:
    """transformers#12998: a collator without a mask, and padding attended to."""
    batch = collate([source(0, [2, 3]), source(1, [2, 5, 6, 7, 3])])
    assert batch.layout.is_packed
    assert len(batch.ids) == batch.layout.num_tokens == 7
