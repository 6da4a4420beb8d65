"""Products of learning: the numbers and gradients of torch's own, on either library."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bothways.model import linear as module
from bothways.model.linear import Linear, has_onednn, linear, suits

# Sums of at most 1,024 products of float32, in another order, relative to numbers near 30.
SAME = 2e-4


@pytest.fixture(params=[True, False], ids=["onednn", "torch"], autouse=True)
def onednn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    chosen: bool = request.param
    if chosen and not has_onednn():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(module, "onednn_is_faster", lambda: chosen)
    monkeypatch.setattr(module, "FEWEST", 1)
    return chosen


def given(*shape: int, out: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = (shape, (out, shape[-1]), (out,))
    rows, weight, bias = (torch.randn(*size, generator=generator) for size in sizes)
    return rows.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 16), (7, 16), (3, 5, 16), (1024, 24), (3, 50, 24)])
def test_numbers_and_gradients(shape: tuple[int, ...], with_bias: bool) -> None:
    rows, weight, bias = given(*shape)
    inputs = (rows, weight, bias) if with_bias else (rows, weight)
    exact = F.linear(*(each.double() for each in inputs))
    found = linear(*inputs)
    torch.testing.assert_close(found.double(), exact, rtol=0.0, atol=SAME)
    slope = torch.linspace(-1, 1, found.numel()).view(found.shape)
    wanted = torch.autograd.grad(exact, inputs, slope.double())
    for one, other in zip(torch.autograd.grad(found, inputs, slope), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=SAME)


def test_rows_and_slopes_may_be_views() -> None:
    rows, weight, _ = given(6, 20)
    view = rows.t()[:16].t()
    found = linear(view, weight[:, :16])
    torch.testing.assert_close(found, view @ weight[:, :16].t(), rtol=0.0, atol=SAME)
    (of_rows,) = torch.autograd.grad(found.t().sum(), rows)
    wanted = F.pad(weight[:, :16].sum(0).expand(6, 16), (0, 4))
    torch.testing.assert_close(of_rows, wanted, rtol=0.0, atol=SAME)


def test_gradients_have_gradients() -> None:
    rows, weight, bias = given(5, 16)
    found = linear(rows, weight, bias).tanh().sum()
    exact = F.linear(rows.double(), weight.double(), bias.double()).tanh().sum()
    seconds = []
    for value in (found, exact):
        (first,) = torch.autograd.grad(value, rows, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), weight)[0])
    torch.testing.assert_close(*seconds, rtol=1e-3, atol=SAME)


def test_frozen_weights_keep_no_rows_for_the_backward_pass() -> None:
    """Rows are most of the memory of a step; only gradients of weights need them."""
    layer = Linear(16, 24).requires_grad_(False)
    rows = torch.randn(7, 16).requires_grad_()
    kept: list[tuple[int, ...]] = []
    hooks = torch.autograd.graph.saved_tensors_hooks

    def keep(saved: Tensor) -> Tensor:
        kept.append(tuple(saved.shape))
        return saved

    with hooks(keep, lambda saved: saved):
        layer(rows)
    assert (7, 16) not in kept
    assert kept


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_torch(dtype: torch.dtype) -> None:
    rows, weight, bias = (each.to(dtype) for each in given(7, 16))
    assert torch.equal(linear(rows, weight, bias), F.linear(rows, weight, bias))


def test_no_rows() -> None:
    layer = Linear(16, 24)
    assert layer(torch.empty(0, 16)).shape == (0, 24)


@pytest.mark.usefixtures("unchecked")
def test_transforms_and_autocast_work_as_with_torch() -> None:
    layer, plain = Linear(16, 24), nn.Linear(16, 24)
    plain.load_state_dict(layer.state_dict())
    rows = torch.randn(3, 7, 16)
    for run in (
        torch.func.vmap,
        torch.func.jacrev,
        lambda each: torch.export.export(each, (rows[0],)).module(),
    ):
        one, other = (
            run(each)(rows if run is torch.func.vmap else rows[0]) for each in (layer, plain)
        )
        torch.testing.assert_close(one, other, rtol=0.0, atol=SAME)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(rows[0]).dtype == torch.bfloat16


def test_small_products_stay_with_torch(monkeypatch: pytest.MonkeyPatch, onednn: bool) -> None:
    rows, weight, _ = given(7, 16)
    monkeypatch.setattr(module, "FEWEST", 7 * 16 * 24 + 1)
    assert not suits(rows, weight, 24)
    monkeypatch.setattr(module, "FEWEST", 7 * 16 * 24)
    assert suits(rows, weight, 24) == onednn


@pytest.mark.parametrize("rows", [64, 100])
def test_results_may_be_changed_in_place(rows: int) -> None:
    """Zeros fill rows up and are cut off again; what is left must not be a view to autograd."""
    given_rows, weight, bias = given(rows, 16)
    found = linear(given_rows, weight, bias)
    found += 1
    found.mul_(2).sum().backward()
    torch.testing.assert_close(given_rows.grad, (2 * weight.sum(0)).expand(rows, 16))


def test_kernels_of_few_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel a number of rows took gigabytes in an epoch of texts of all lengths."""
    shapes = set[tuple[int, ...]]()
    plain = module.product

    def noted(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        shapes.add((*rows.shape, *weight.shape))
        return plain(rows, weight, bias)

    monkeypatch.setattr(module, "product", noted)
    layer = Linear(16, 24)
    for rows in range(1, 200):
        layer(torch.randn(rows, 16).requires_grad_()).sum().backward()
    assert len(shapes) <= 3 * 4
