"""Linear layers whose products, forward and backward, run on the faster of two libraries.

torch multiplies float32 matrices on a CPU with MKL, which keeps its wide instructions for Intel's
processors: on an AMD EPYC with AVX-512 it reached 110 GFLOP/s a core where oneDNN, which torch
carries too, reached 250. So elsewhere the products of learning go to oneDNN as well. What decides
is the processor alone, so that two runs on one machine have the same bits.
"""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Multiplications and additions below which the calls from Python cost more than is won.
FEWEST = 1 << 22
# oneDNN compiles and keeps a kernel for each shape, half a megabyte or more: rows are filled up.
ROWS = 64


class Linear(nn.Linear):
    """`torch.nn.Linear`, by `linear`."""

    def forward(self, rows: Tensor) -> Tensor:
        """rows weight^T + bias, (..., out)."""
        return linear(rows, self.weight, self.bias)


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows weight^T + bias, differentiable any number of times.

    Args:
        rows: (..., in).
        weight: (out, in).
        bias: (out,), or None.
    """
    if not suits(rows, weight, weight.shape[0]):
        return F.linear(rows, weight, bias)
    flat = rows.reshape(-1, rows.shape[-1])
    filled: Tensor = _Linear.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    return filled[: len(flat)].view(*rows.shape[:-1], -1)


def sum_of_outer(left: Tensor, right: Tensor) -> Tensor:
    """left^T right, (n, k), of (R, n) and (R, k): what R rows add to the gradient of a weight."""
    if torch.is_grad_enabled() or not suits(left, right, right.shape[1]):
        return left.t() @ right
    return product(_aligned(left).t(), _aligned(right).t())


def suits(first: Tensor, second: Tensor, width: int) -> bool:
    """Whether a product goes to oneDNN: plain float32 on a CPU where that is faster, large enough.

    Args:
        first, second: its factors.
        width: numbers of the product for each row of the first.
    """
    if torch.compiler.is_compiling():  # sizes may be symbols, which a question would fix
        return False
    return (
        first.dtype == second.dtype == torch.float32
        and first.is_cpu
        and second.is_cpu
        and first.numel() * width >= FEWEST
        and type(first) in (Tensor, nn.Parameter)
        and type(second) in (Tensor, nn.Parameter)
        and onednn_is_faster()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


def has_onednn() -> bool:
    """Whether the torch at hand lends oneDNN's product."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@lru_cache
def onednn_is_faster() -> bool:
    """Whether this is a processor of x86 that MKL does not give its best, and oneDNN is there."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not has_onednn():
        return False
    try:
        about = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        about = platform.processor()
    return "GenuineIntel" not in about


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows weight^T + bias in oneDNN, of what `suits`; either may be a view."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


def _aligned(rows: Tensor) -> Tensor:
    """Rows, and rows of zeros up to a multiple of `ROWS`."""
    spare = -len(rows) % ROWS
    return F.pad(rows, (0, 0, 0, spare)) if spare else rows


class _Linear(torch.autograd.Function):
    """`product` of (rows, in), with what `_aligned` adds; so slopes come in aligned."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_rows, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(rows if of_weight else None, weight if of_rows else None)
        ctx.count = len(rows)
        return product(_aligned(rows), weight, bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = slopes
        rows, weight = ctx.saved_tensors
        return (
            None if weight is None else linear(slope, weight.t())[: ctx.count],
            None if rows is None else sum_of_outer(slope, _aligned(rows)),
            slope.sum(0) if ctx.needs_input_grad[2] else None,
        )
