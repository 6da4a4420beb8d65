"""Settings of how an encoder is run that change no number: less memory, fewer kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bothways.errors import UsageError
from bothways.model.encoder import Encoder


def recompute_activations(encoder: Encoder) -> None:
    """Keep only what goes into each layer; its inside is computed again in the backward pass.

    Dropout draws the same masks the second time.
    """
    for block in encoder.layers:
        block.forward = _recomputed(block.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def again(*given: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*given, **named)
        return checkpoint(forward, *given, use_reentrant=False, **named)

    return again


def compile_layers(encoder: Encoder, device: torch.device) -> None:
    """Compile the feed-forward networks, which need not know how a batch is laid out.

    Attention over packed sequences has a kernel of its own and is left as it is: a graph of it
    would be made anew for each batch's lengths.

    Raises:
        UsageError: on a CPU, where the plain kernels are as fast.
    """
    if device.type == "cpu":
        raise UsageError(
            "--compile is for accelerators; on a CPU the plain kernels are as fast, and compiling "
            "takes a minute"
        )
    for block in encoder.layers:
        network = block.get_submodule("feedforward")
        compile_forward(network)


def compile_forward(module: nn.Module, backend: str = "inductor") -> None:
    """Compile a module's forward for any number of rows; names of parameters stay."""
    compiled: Any = torch.compile(module.forward, dynamic=True, backend=backend)
    module.forward = compiled
