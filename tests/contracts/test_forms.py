"""Every encoder gives a text the same states: packed, in a rectangle, alone, in any company."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bothways.errors import ConfigError, LengthError
from bothways.model.config import EncoderConfig
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch, Layout, pack
from tests.contracts.cases import (
    CASES,
    MASKS,
    SAME,
    alone,
    draw_ids,
    make_batch,
    make_rectangle,
    same_encoder,
)

every_case = pytest.mark.parametrize("config", CASES.values(), ids=CASES.keys())
LENGTHS = (4, 1, 9, 4, 2, 9, 9)  # groups of one and of several, in a row and scattered


def close(left: Tensor | None, right: Tensor | None) -> None:
    torch.testing.assert_close(left, right, rtol=SAME, atol=SAME)


@every_case
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_rectangular_equals_packed_equals_alone_for_any_mask(
    config: EncoderConfig, mask: Tensor
) -> None:
    """Also transformers#278, #3150: what the mask hides (random tokens here) changes nothing."""
    encoder = same_encoder(config)
    rectangle = make_rectangle(config, mask)
    assert rectangle.type_ids is not None
    packed = pack(rectangle.ids.view(mask.shape), mask, rectangle.type_ids.view(mask.shape))
    wide, narrow = (
        encoder(batch, all_hidden=True, attentions=True) for batch in (rectangle, packed)
    )
    for left, right in zip(wide.all_hidden, narrow.all_hidden, strict=True):
        close(left[mask.flatten()], right)
    for left_layer, right_layer in zip(wide.attentions, narrow.attentions, strict=True):
        for left, right in zip(left_layer, right_layer, strict=True):
            close(left, right)
    without_weights = encoder(rectangle)
    close(without_weights.last_hidden[mask.flatten()], narrow.last_hidden)
    if config.pooler:
        close(wide.pooled, narrow.pooled)
        close(without_weights.pooled, narrow.pooled)
    for text, states in zip(alone(packed), packed.layout.split(narrow.last_hidden), strict=True):
        close(encoder(text).last_hidden, states)


@pytest.mark.usefixtures("unchecked")
@every_case
def test_alone_equals_any_batch_in_any_order(config: EncoderConfig) -> None:
    encoder = same_encoder(config)
    batch = make_batch(config, LENGTHS)
    together = batch.layout.split(encoder(batch).last_hidden)
    texts = alone(batch)
    for text, states in zip(texts, together, strict=True):
        close(encoder(text).last_hidden, states)
    for order in ([6, 5, 4, 3, 2, 1, 0], [0, 3, 1, 4, 2, 5, 6], [2, 0, 5]):
        rows = torch.cat([torch.arange(*batch.layout.starts[i : i + 2]) for i in order])
        layout = Layout.packed([LENGTHS[i] for i in order])
        assert batch.type_ids is not None
        shuffled = Batch(batch.ids[rows], layout, batch.type_ids[rows])
        parts = shuffled.layout.split(encoder(shuffled).last_hidden)
        for index, part in zip(order, parts, strict=True):
            close(part, together[index])


@pytest.mark.usefixtures("unchecked")
@every_case
def test_one_changed_text_leaves_the_bits_of_the_others(config: EncoderConfig) -> None:
    encoder = same_encoder(config, dtype=torch.float32)
    batch = make_batch(config, LENGTHS)
    changed_ids = batch.ids.clone()
    second, third = int(batch.layout.starts[2]), int(batch.layout.starts[3])
    changed_ids[second:third] = (changed_ids[second:third] + 1) % config.embeddings.vocab_size
    before = batch.layout.split(encoder(batch).last_hidden)
    after = batch.layout.split(
        encoder(Batch(changed_ids, batch.layout, batch.type_ids)).last_hidden
    )
    same = [torch.equal(left, right) for left, right in zip(before, after, strict=True)]
    assert same == [True, True, False, True, True, True, True]


@pytest.mark.usefixtures("unchecked")
@every_case
def test_every_token_sees_both_ways(config: EncoderConfig) -> None:
    """The first token's state depends on the last token, and the last one's on the first."""
    encoder = same_encoder(config)
    length = 4
    batch = make_batch(config, [length])
    states = encoder(batch).last_hidden
    for changed, seen in ((0, length - 1), (length - 1, 0)):
        ids = batch.ids.clone()
        ids[changed] = (ids[changed] + 1) % config.embeddings.vocab_size
        other = encoder(Batch(ids, batch.layout, batch.type_ids)).last_hidden
        assert (other[seen] - states[seen]).abs().max() > 1e-6


@pytest.mark.usefixtures("unchecked")
@every_case
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_padded_equals_packed_and_is_zero_at_padding(config: EncoderConfig, mask: Tensor) -> None:
    encoder = same_encoder(config)
    ids, types = draw_ids(config, mask.shape)
    packed = encoder(pack(ids, mask, types))
    for form in (mask, mask.long()):
        padded = encoder.padded(ids, form, types)
        assert padded.last_hidden.shape == (*mask.shape, config.hidden_size)
        close(padded.last_hidden[mask], packed.last_hidden)
        assert not padded.last_hidden[~mask].any()
        if config.pooler:
            close(padded.pooled, packed.pooled)


@pytest.mark.usefixtures("unchecked")
@every_case
def test_padded_without_mask_and_types(config: EncoderConfig) -> None:
    encoder = same_encoder(config)
    ids, _ = draw_ids(config, (3, 4))
    ones, zeros = torch.ones_like(ids), torch.zeros_like(ids)
    close(encoder.padded(ids).last_hidden, encoder.padded(ids, ones, zeros).last_hidden)


@pytest.mark.usefixtures("unchecked")
@every_case
def test_weights_of_each_sequence_sum_to_one_and_do_not_change_the_states(
    config: EncoderConfig,
) -> None:
    encoder = same_encoder(config)
    batch = make_batch(config, LENGTHS)
    output: EncoderOutput = encoder(batch, attentions=True, all_hidden=True)
    close(output.last_hidden, encoder(batch).last_hidden)
    assert output.all_hidden is not None
    assert output.attentions is not None
    assert len(output.all_hidden) == config.num_layers + 1
    assert output.all_hidden[-1] is output.last_hidden
    assert len(output.attentions) == sum(len(blocks) for blocks in config.block_order)
    heads, window = config.attention.num_heads, config.attention.window
    for layer, weights in enumerate(output.attentions):
        kind = config.layer_kinds[layer * config.num_layers // len(output.attentions)]
        assert [tuple(w.shape) for w in weights] == [(heads, n, n) for n in LENGTHS]
        for w in weights:
            close(w.sum(-1), torch.ones(w.shape[:-1], dtype=w.dtype))
            index = torch.arange(w.shape[-1])
            near = (index[:, None] - index[None]).abs() <= window
            seen = near if kind == "local" else torch.ones_like(near)
            assert torch.equal((w > 0).all(0), seen)


@pytest.mark.usefixtures("unchecked")
@every_case
def test_what_is_not_asked_for_is_none(config: EncoderConfig) -> None:
    output = same_encoder(config)(make_batch(config, [3]))
    assert output.all_hidden is None
    assert output.attentions is None
    assert (output.pooled is not None) == config.pooler


@pytest.mark.usefixtures("unchecked")
@every_case
def test_the_longest_text_fits_and_one_more_token_names_the_usable_length(
    config: EncoderConfig,
) -> None:
    """transformers#1363, #10736, #11242; curated-transformers#359: rows are not usable length."""
    axis = config.embeddings
    usable = axis.max_positions - axis.position_start
    encoder = same_encoder(config)
    assert encoder(make_batch(config, [2, usable])).last_hidden.isfinite().all()
    with pytest.raises(LengthError, match=f"{usable + 1} tokens.* usable length {usable};"):
        encoder(make_batch(config, [2, usable + 1]))
    with pytest.raises(LengthError, match=f"max_length={usable}"):
        encoder.padded(*draw_ids(config, (1, usable + 1))[:1])


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "rectangle": (lambda: Batch(torch.zeros(2, 3).long(), Layout.packed([3, 3])), r"\(2, 3\)"),
    "too-few": (lambda: Batch(torch.zeros(5).long(), Layout.packed([3, 3])), r"\(6,\).*\(5,\)"),
    "empty-row": (lambda: pack(torch.zeros(2, 3).long(), torch.eye(2, 3) * 0), "{0: 0, 1: 0}"),
    "mask-shape": (lambda: pack(torch.zeros(2, 3).long(), torch.ones(2, 4)), r"\(2, 4\)"),
    "no-text": (lambda: Layout.packed([]), "at least one token"),
    "no-token": (lambda: Layout.packed([3, 0, 2]), "{1: 0}"),
    "flat-mask": (lambda: Layout.rectangular(torch.ones(3)), r"\(3,\)"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("make", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_batch_that_does_not_fit_its_layout_is_refused(
    make: Callable[[], object], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        make()


@pytest.mark.usefixtures("unchecked")
@every_case
def test_states_of_some_tokens_are_those_of_all(config: EncoderConfig) -> None:
    encoder = same_encoder(config)
    batch = make_batch(config, LENGTHS)
    whole = encoder(batch)
    first = encoder(batch, rows=batch.layout.first_index)
    close(first.last_hidden, batch.layout.first(whole.last_hidden))
    if config.pooler:
        close(first.pooled, whole.pooled)
    some = torch.tensor([7, 0, 7, 20])
    given = encoder(batch, rows=some, attentions=True)
    close(given.last_hidden, whole.last_hidden[some])
    assert given.pooled is None
