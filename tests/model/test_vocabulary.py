"""The loss over a vocabulary: the same numbers and gradients as written out, in any chunks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bothways.model.vocabulary import vocabulary_loss, vocabulary_loss_and_draw

ROWS, WIDTH, VOCAB_SIZE = 23, 8, 50
# Sums in another order, in float64.
SAME = 1e-12
# bfloat16 has 8 bits; products over 8 numbers and a softmax stay within a hundredth.
HALF = 2e-2


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    features, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((ROWS, WIDTH), (VOCAB_SIZE, WIDTH), (VOCAB_SIZE,))
    )
    return features, weight, bias, torch.randint(0, VOCAB_SIZE, (ROWS,), generator=generator)


def gradients(loss: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss * 0.37, inputs)


@pytest.mark.parametrize("rows", [1, 7, 22, 23, 1000])
def test_chunks_give_the_loss_and_gradients_of_the_whole(rows: int) -> None:
    features, weight, bias, targets = inputs()
    logits = F.linear(features, weight, bias)
    whole = F.cross_entropy(logits, targets, reduction="sum")
    loss, right = vocabulary_loss(features, weight, bias, targets, chunk_logits=rows * VOCAB_SIZE)
    torch.testing.assert_close(loss, whole, rtol=SAME, atol=0.0)
    assert int(right) == int((logits.argmax(1) == targets).sum()) > 0
    expected = gradients(whole, (features, weight, bias))
    for found, wanted in zip(gradients(loss, (features, weight, bias)), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=SAME, atol=SAME)


def test_the_largest_tensor_is_a_chunk() -> None:
    """The table of all logits is what made training and evaluation run out of memory."""
    sizes: list[int] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, operation: Any, types: Any, arguments: Any = (), named: Any = None
        ) -> Any:
            made = operation(*arguments, **(named or {}))
            sizes.append(made.numel() if isinstance(made, Tensor) else 0)
            return made

    given = inputs(torch.float32)
    watch: Any = Watch
    with watch():
        loss, _ = vocabulary_loss(*given, chunk_logits=2 * VOCAB_SIZE)
        torch.autograd.backward(loss)
    assert max(sizes) == max(VOCAB_SIZE * WIDTH, 2 * VOCAB_SIZE)
    assert max(sizes) < ROWS * VOCAB_SIZE


def test_large_logits_stay_finite() -> None:
    features, weight, bias, targets = inputs(torch.float32)
    loss, _ = vocabulary_loss(features * 1e4, weight, bias, targets)
    expected = F.cross_entropy(F.linear(features * 1e4, weight, bias), targets, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_half_precision_sums_in_single() -> None:
    features, weight, bias, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = vocabulary_loss(features, weight, bias, targets)
    assert loss.dtype == torch.float32
    whole = F.cross_entropy(F.linear(features, weight, bias), targets, reduction="sum")
    assert loss.item() == pytest.approx(whole.item(), rel=HALF)
    assert loss.item() != whole.item()  # autocast was on
    expected = gradients(whole, (features, weight, bias))
    for found, wanted in zip(gradients(loss, (features, weight, bias)), expected, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted, rtol=HALF, atol=HALF)


def test_without_gradients_none_are_made() -> None:
    features, weight, bias, targets = inputs()
    with torch.no_grad():
        loss, right = vocabulary_loss(features, weight, bias, targets, chunk_logits=60)
    assert not loss.requires_grad
    recorded, again = vocabulary_loss(features, weight, bias, targets)
    assert loss.item() == pytest.approx(recorded.item(), rel=SAME)
    assert not right.requires_grad
    assert not again.requires_grad


def test_the_gradients_are_there_once() -> None:
    loss, _ = vocabulary_loss(*inputs())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute it again"):
        loss.backward()


def test_no_rows_are_no_loss() -> None:
    features, weight, bias, targets = inputs()
    loss, right = vocabulary_loss(features[:0], weight, bias, targets[:0])
    assert loss.item() == right.item() == 0.0
    assert gradients(loss, (weight,))[0].abs().max() == 0.0


# --- drawing ----------------------------------------------------------------------------------


def test_draws_follow_the_softmax() -> None:
    features, weight, bias, targets = inputs()
    rows = 4000
    one = features.detach()[:1].expand(rows, -1)
    expected = F.softmax(F.linear(one[0], weight, bias), 0)
    _, _, drawn = vocabulary_loss_and_draw(one, weight, bias, targets[:1].expand(rows))
    found = torch.bincount(drawn, minlength=VOCAB_SIZE) / rows
    # Five standard deviations of a share.
    bound = 5 * (expected * (1 - expected) / rows).sqrt() + 1 / rows
    assert bool(((found - expected).abs() < bound).all())
    assert len(drawn.unique()) > 5


def test_draws_are_a_function_of_the_seed_and_not_of_the_chunks() -> None:
    given = inputs()

    def draw(seed: int, rows: int) -> list[int]:
        torch.manual_seed(seed)
        _, _, drawn = vocabulary_loss_and_draw(*given, chunk_logits=rows * VOCAB_SIZE)
        return [int(token) for token in drawn]

    assert draw(1, 5) == draw(1, 23)
    assert draw(1, 5) != draw(2, 5)


def test_drawing_changes_no_loss() -> None:
    given = inputs()
    loss, right, _ = vocabulary_loss_and_draw(*given)
    plain, same = vocabulary_loss(*given)
    assert loss.item() == plain.item()
    assert right.item() == same.item()
