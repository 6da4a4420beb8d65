"""Every kernel gives what the eager definition gives, and so do its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from bothways.model.attention import rotary_table, rotate
from bothways.model.kernels import Attended, attend, attend_eager, band
from bothways.model.layout import Layout

HEADS, SIZE = 3, 8
# Two ways to the same float64 numbers.
SAME = 1e-10
# float32, and the three decimals that the worked example is given in.
SHOWN = 5e-4

MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1], [1, 1, 0, 0, 0, 0]]
)
LAYOUTS: dict[str, Callable[[], Layout]] = {
    "one-group": lambda: Layout.packed([4, 4, 4]),
    "sorted": lambda: Layout.packed([2, 2, 5, 7, 7]),
    "scattered": lambda: Layout.packed([5, 2, 7, 5, 1, 7, 2]),
    "one-token": lambda: Layout.packed([1]),
    "rectangle": lambda: Layout.rectangular(MASK),
}


@dataclass
class Inputs:
    """Random queries, keys, values, and a bias made from queries, keys and a weight."""

    query: Tensor
    key: Tensor
    value: Tensor
    weight: Tensor

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        """A score that depends on everything a bias may depend on."""
        return torch.einsum("nhid,nhjd->nhij", torch.tanh(q @ self.weight), k)

    def leaves(self) -> list[Tensor]:
        return [self.query, self.key, self.value, self.weight]


def make(tokens: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Inputs:
    generator = torch.Generator().manual_seed(tokens)

    def draw(*shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.to(device, dtype).requires_grad_()

    query, key, value = (draw(tokens, HEADS, SIZE) for _ in range(3))
    return Inputs(query, key, value, draw(SIZE, SIZE))


def by_hand(inputs: Inputs, layout: Layout, window: int | None, biased: bool) -> Attended:
    """The definition once more, one number at a time."""
    values, weights = [], []
    parts = zip(
        *(layout.split(rows) for rows in (inputs.query, inputs.key, inputs.value)), strict=True
    )
    for query, key, value in parts:
        length = len(query)
        scores = torch.full((HEADS, length, length), -math.inf, dtype=query.dtype)
        for head in range(HEADS):
            added = inputs.bias(query[None, :, head][:, None], key[None, :, head][:, None])[0, 0]
            for i in range(length):
                for j in range(length):
                    if window is None or abs(i - j) <= window:
                        score = query[i, head] @ key[j, head] * 0.3
                        scores[head, i, j] = score + (added[i, j] if biased else 0.0)
        weight = scores.softmax(-1)
        weights.append(weight)
        values.append(torch.einsum("hij,jhd->ihd", weight, value))
    return Attended(torch.cat(values), tuple(weights))


def kept(values: Tensor, layout: Layout) -> Tensor:
    return torch.cat(layout.split(values))


def gradients(values: Tensor, inputs: Inputs, biased: bool) -> list[Tensor]:
    leaves = inputs.leaves()[: 4 if biased else 3]
    return list(torch.autograd.grad(values.sin().sum(), leaves))


every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
every_window = pytest.mark.parametrize("window", [None, 1, 3], ids=["all", "window-1", "window-3"])
with_bias = pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])


@every_layout
@every_window
@with_bias
def test_eager_is_the_definition_and_every_kernel_equals_eager(
    layout: Callable[[], Layout], window: int | None, biased: bool
) -> None:
    geometry = layout()
    inputs = make(geometry.num_tokens)
    bias = inputs.bias if biased else None
    expected = by_hand(inputs, geometry, window, biased)
    wanted = gradients(expected.values, inputs, biased)
    for kernel in (attend_eager, attend):
        given = kernel(
            inputs.query, inputs.key, inputs.value, geometry, scale=0.3, window=window, bias=bias
        )
        values = kept(given.values, geometry)
        torch.testing.assert_close(values, expected.values, rtol=SAME, atol=SAME)
        torch.testing.assert_close(gradients(values, inputs, biased), wanted, rtol=SAME, atol=SAME)
        if kernel is attend_eager:
            assert given.weights is not None
            torch.testing.assert_close(given.weights, expected.weights, rtol=SAME, atol=SAME)
        else:
            assert given.weights is None


@every_layout
@every_window
def test_dropout_acts_on_the_weights_in_every_form(
    layout: Callable[[], Layout], window: int | None
) -> None:
    """With values of one, each output is the sum of the kept weights: it varies around 1."""
    geometry = layout()
    inputs = make(geometry.num_tokens)
    ones = torch.ones_like(inputs.value)
    results = []
    for _ in range(200):
        given = attend(
            inputs.query, inputs.key, ones, geometry, scale=0.3, window=window, dropout=0.5
        )
        results.append(kept(given.values, geometry).detach())
    sums = torch.stack(results)
    assert sums.std(0).min() > 0.05
    # 200 draws of a spread of at most 1 have a mean within 5 standard errors.
    assert (sums.mean(0) - 1).abs().max() < 5 / math.sqrt(200)


@pytest.mark.parametrize("layout", ["scattered", "rectangle"])
def test_asked_for_weights_are_those_before_dropout(layout: str) -> None:
    geometry = LAYOUTS[layout]()
    inputs = make(geometry.num_tokens)
    arguments = (inputs.query, inputs.key, inputs.value, geometry)
    dropped = attend_eager(*arguments, scale=0.3, dropout=0.5)
    plain = attend_eager(*arguments, scale=0.3)
    assert dropped.weights is not None
    assert plain.weights is not None
    assert all(map(torch.equal, dropped.weights, plain.weights))
    assert not torch.allclose(dropped.values, plain.values)


def test_a_rectangle_row_that_keeps_nothing_stays_finite() -> None:
    layout = Layout.rectangular(torch.tensor([[1, 1, 0], [0, 0, 0]]))
    for window in (None, 1):
        for biased in (False, True):
            for kernel in (attend, attend_eager):
                inputs = make(6, torch.float32)
                given = kernel(
                    inputs.query,
                    inputs.key,
                    inputs.value,
                    layout,
                    scale=0.3,
                    window=window,
                    bias=inputs.bias if biased else None,
                )
                assert given.values.isfinite().all()
                assert all(g.isfinite().all() for g in gradients(given.values, inputs, biased))


def test_a_band_is_only_made_where_it_hides_something() -> None:
    device = torch.device("cpu")
    assert band(5, None, device) is None
    assert band(4, 3, device) is None
    made = band(5, 3, device)
    assert made is not None
    hidden = {tuple(pair) for pair in (~made).nonzero().tolist()}
    assert hidden == {(0, 4), (4, 0)}


def test_the_worked_example() -> None:
    """Row 0 reads both ways: 0.742 of its attention lies on later positions."""
    torch.manual_seed(7)
    x = torch.randn(4, 3)
    wq, wk = torch.randn(3, 3), torch.randn(3, 3)
    attended = attend_eager(
        (x @ wq)[:, None], (x @ wk)[:, None], x[:, None], Layout.packed([4]), scale=3**-0.5
    )
    assert attended.weights is not None
    row = attended.weights[0][0, 0]
    assert row.tolist() == pytest.approx([0.258, 0.020, 0.044, 0.677], abs=SHOWN)
    assert row[1:].sum().item() == pytest.approx(0.742, abs=SHOWN)
    assert torch.allclose(attended.values[0, 0], row @ x)


def test_rotary_scores_depend_on_distance_only_and_lengths_stay() -> None:
    q, k = torch.randn(2, SIZE, dtype=torch.float64)
    scores: dict[int, list[float]] = {}
    for position in (0, 3, 50):
        for distance in (-2, 0, 1, 40):
            table = rotary_table(torch.tensor([position, max(position + distance, 0)]), SIZE, 100.0)
            rows = rotate(torch.stack([q, k])[:, None], table)[:, 0]
            assert rows.norm(dim=1).tolist() == pytest.approx(
                [q.norm().item(), k.norm().item()], rel=1e-6
            )
            if position + distance >= 0:
                scores.setdefault(distance, []).append((rows[0] @ rows[1]).item())
    assert scores[0][0] == pytest.approx((q @ k).item(), rel=1e-6)
    for values in scores.values():
        assert values == pytest.approx([values[0]] * len(values), abs=1e-4)
    assert len({round(values[0], 6) for values in scores.values()}) == len(scores)


def test_rotary_pairs_the_halves_of_a_head() -> None:
    theta, position = 100.0, 5
    table = rotary_table(torch.tensor([position]), 4, theta)
    row = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    given = rotate(row, table)[0, 0].tolist()
    slow = position * theta**-0.5
    expected = [
        1 * math.cos(position) - 3 * math.sin(position),
        2 * math.cos(slow) - 4 * math.sin(slow),
        3 * math.cos(position) + 1 * math.sin(position),
        4 * math.cos(slow) + 2 * math.sin(slow),
    ]
    assert given == pytest.approx(expected, abs=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch's variable-length kernel: CUDA")
@every_window
@pytest.mark.parametrize("layout", ["one-group", "scattered"])
def test_the_variable_length_kernel_equals_eager(layout: str, window: int | None) -> None:
    lengths = LAYOUTS[layout]().lengths
    geometry = Layout.packed(lengths, "cuda")
    inputs = make(geometry.num_tokens, torch.bfloat16, "cuda")
    arguments = (inputs.query, inputs.key, inputs.value, geometry)
    given = attend(*arguments, scale=0.3, window=window).values
    expected = attend_eager(*arguments, scale=0.3, window=window).values
    # bfloat16 keeps 8 bits.
    torch.testing.assert_close(given, expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(
        gradients(given, inputs, False), gradients(expected, inputs, False), rtol=5e-2, atol=5e-2
    )
