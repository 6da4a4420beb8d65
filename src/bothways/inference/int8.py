"""Linear layers in 8-bit integers, for inference on a CPU.

    y = W x + b        W ~ r C, one r for each output; x ~ s q + l, one s and l for each token
      ~ r s (C q) + l (r C 1) + b        C in -largest..largest, q in 0..255

C q is a product of integers, which no order of adding changes; the rest is done in float32, a
number at a time, so that a token gets the same bits whatever stands beside it.

Processors without VNNI or AMX add two products in 16 bits, where 255 * 127 * 2 does not fit: the
sum saturates and the result is wrong without a word. With weights of at most 64 it fits.
`largest_exact` finds out by multiplying, since neither a list of processors nor the flags of one
say what the library at hand does.

Which layers of a model are in int8 is in `int8_layers.py`, which of them should be in
`quantize.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.model.config import Activation

# Weights of 8 bits, and the largest whose two products with 255 fit into 16 bits.
EIGHT_BITS, SEVEN_BITS = 127, 64
_LEVELS = 255  # of a token's numbers, from its lowest to its highest
_TAIL = 8  # bytes that torch's kernel puts behind each row: its step and its lowest number

# What is done to the outputs, in place.
_AFTER: dict[Activation, Callable[[Tensor], Tensor]] = {
    "identity": lambda rows: rows,
    "gelu": torch.ops.aten.gelu_.default,
    "relu": F.relu_,
    "tanh": torch.tanh_,
}

# Instruction sets by which products of integers are told apart, best first.
_SETS = (
    ("amx_int8", "AMX"),
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx_vnni", "AVX-VNNI"),
    ("avx512_bw", "AVX-512 without VNNI"),
    ("avx2", "AVX2 without VNNI"),
)


@dataclass(frozen=True, eq=False)
class Int8Weight:
    """A weight matrix in int8.

    Attributes:
        codes: (out, in) int8.
        steps: (out,) float32; a weight is its code times the step of its row.
    """

    codes: Tensor
    steps: Tensor

    @classmethod
    def of(cls, weight: Tensor, largest: int = EIGHT_BITS) -> Int8Weight:
        """The nearest codes, with the step of each row so that its largest weight is `largest`.

        Args:
            weight: (out, in) float.
            largest: code, by magnitude.
        """
        wide = weight.detach().float()
        # Of a row of zeros the codes are zero, whatever the step.
        steps = wide.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / largest
        codes = (wide / steps[:, None]).round_().clamp_(-largest, largest)
        return cls(codes.to(torch.int8), steps)

    @classmethod
    def joined(cls, weights: Sequence[Int8Weight]) -> Int8Weight:
        """Several under one another, for layers that read the same rows."""
        return cls(
            torch.cat([each.codes for each in weights]), torch.cat([each.steps for each in weights])
        )

    @property
    def largest(self) -> int:
        """Magnitude of the largest code."""
        return int(self.codes.abs().max()) if self.codes.numel() else 0

    def dense(self) -> Tensor:
        """What the codes stand for, (out, in) float32."""
        return self.codes * self.steps[:, None]


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row in 255 steps from its lowest to its highest number: the definition.

    Args:
        rows: (T, in) float32.

    Returns:
        Codes (T, in) uint8, the step of each row (T, 1) and its lowest number (T, 1); a number is
        about step * code + lowest.
    """
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    span = high - low
    codes = ((rows - low) * (_LEVELS / (span + 1e-8))).round_().clamp_(0, _LEVELS)
    return codes.to(torch.uint8), span / _LEVELS, low


def _quantised(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same by one pass of torch's kernel; codes are (T, in + 8), the last 8 are none."""
    codes: Tensor = torch.ops.quantized.embedding_bag_byte_prepack(rows)
    tail = codes[:, rows.shape[1] :]
    step, low = (
        (tail if rows.shape[1] % 4 == 0 else tail.contiguous()).view(torch.float32).split(1, 1)
    )
    return codes, step, low


class Int8Linear:
    """activation(rows weight^T + bias) with the product in int8; in the place of `PackedLinear`.

    Args:
        weight: in int8.
        bias: (out,) float32, or None.
        activation: after the product.
    """

    def __init__(self, weight: Int8Weight, bias: Tensor | None, activation: Activation) -> None:
        self.bias = None if bias is None else bias.detach()
        self.after = _AFTER[activation]
        self.steps = weight.steps
        # In float64, since a sum over a wide row may not fit into the 24 bits of float32.
        self.sums = (weight.codes.sum(1).double() * weight.steps.double()).float()
        self.zeros = torch.zeros(len(weight.steps), dtype=torch.int64)
        # The 8 bytes behind each row meet weights of zero.
        self.weight = _packed(F.pad(weight.codes, (0, _TAIL)))

    def __call__(self, rows: Tensor) -> Tensor:
        """(..., in) float32 to (..., out)."""
        codes, step, low = _quantised(rows.reshape(-1, rows.shape[-1]))
        product = _product(codes, self.weight, self.steps, self.zeros)
        base = low * self.sums if self.bias is None else torch.addcmul(self.bias, low, self.sums)
        return self.after(base.addcmul_(product, step)).view(*rows.shape[:-1], len(self.steps))


def _packed(codes: Tensor) -> Tensor:
    """(out, in) int8, laid out for oneDNN; the hint is a typical number of rows."""
    packed: Tensor = torch.ops.onednn.qlinear_prepack(codes, [1024, codes.shape[1]])
    return packed


def _product(rows: Tensor, packed: Tensor, steps: Tensor, zeros: Tensor) -> Tensor:
    """rows (T, in) uint8 times the packed codes, times the steps: (T, out) float32."""
    made: Tensor = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, steps, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return made


@cache
def largest_exact() -> int:
    """The largest code that this processor and this torch multiply exactly: 127, 64, or 0.

    0 means that there is no product of integers here, or none that is right.
    """
    there = (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.onednn, "qlinear_pointwise")
        and hasattr(torch.ops.onednn, "qlinear_prepack")
        and hasattr(torch.ops.quantized, "embedding_bag_byte_prepack")
    )
    return next((each for each in (EIGHT_BITS, SEVEN_BITS) if there and is_exact(each)), 0)


def is_exact(largest: int) -> bool:
    """Whether products of the largest numbers are right, of as many rows as kernels differ by.

    Args:
        largest: code of all weights; the rows hold 255.
    """
    width, outputs = 72, 24
    codes = torch.full((outputs, width), largest, dtype=torch.int8)
    codes[1::2] = -largest
    ones, zeros = torch.ones(outputs), torch.zeros(outputs, dtype=torch.int64)
    wanted = (255 * codes.long().sum(1)).float()
    try:
        with torch.inference_mode():
            packed = _packed(codes)
            return all(
                torch.equal(
                    _product(
                        torch.full((count, width), 255, dtype=torch.uint8), packed, ones, zeros
                    ),
                    wanted.expand(count, -1),
                )
                for count in (1, 3, 64, 130)
            )
    except RuntimeError:  # oneDNN has no kernel for this processor
        return False


def instruction_set() -> str:
    """What this processor has for products of integers, in words.

    Example:
        >>> instruction_set()  # doctest: +SKIP
        'AVX2 without VNNI'
    """
    found = torch.cpu.get_capabilities()
    return next((name for flag, name in _SETS if found.get(flag)), str(found["architecture"]))
