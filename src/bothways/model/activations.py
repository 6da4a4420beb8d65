"""The activations that configurations can name."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.model.config import Activation


def _gelu_tanh(values: Tensor) -> Tensor:
    return F.gelu(values, approximate="tanh")


def _identity(values: Tensor) -> Tensor:
    return values


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "identity": _identity,
}
