"""Dropout that draws its mask cheaply on a CPU.

torch draws one float a value and compares; drawing 64 random bits and cutting them into four
16-bit numbers decides four values at once. The rate is then a multiple of 1/65536, and the scale
is the inverse of the exact keep rate, so the expectation is unchanged. Masks come from torch's
global generator, so the training loop's seeds decide them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_STEPS = 1 << 16


def dropout(values: Tensor, rate: float) -> Tensor:
    """Values with a share `rate` set to zero and the rest scaled up.

    Args:
        values: any shape.
        rate: share to drop, in [0, 1).
    """
    if rate == 0.0:
        return values
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return nn.functional.dropout(values, rate)
    return values * keep_mask(values, rate)


def keep_mask(values: Tensor, rate: float) -> Tensor:
    """A tensor like `values` of 0 where dropped and 1 / keep rate elsewhere."""
    count = values.numel()
    drop = min(round(rate * _STEPS), _STEPS - 1)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    # Signed 16-bit numbers are uniform on [-32768, 32767]: `drop` of them lie below the cut.
    keep = bits.view(torch.int16)[:count] >= drop - _STEPS // 2
    return keep.to(values.dtype).mul_(_STEPS / (_STEPS - drop)).view(values.shape)


class Dropout(nn.Module):
    """`dropout` in training, nothing otherwise.

    Args:
        rate: share to drop, in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        """The values, dropped in training."""
        return dropout(values, self.rate) if self.training else values

    def extra_repr(self) -> str:
        """The rate, for printing."""
        return f"rate={self.rate}"
