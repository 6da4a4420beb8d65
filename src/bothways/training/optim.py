"""The optimizer and the clipping of gradients.

Here: which parameters decay, AdamW over them, the global norm. Not here: how the learning rate
moves (`schedule.py`) and when a step is taken (`loop.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bothways.errors import TrainingError


def parameter_groups(module: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that learn, in two groups: matrices and tables decay, biases and norms do not.

    Biases and the scales of norms are the parameters with fewer than two dimensions. A parameter
    that is used twice (a tied table) stands in one group once.

    Args:
        module: its parameters with a gradient are taken.
        weight_decay: of the first group.

    Raises:
        TrainingError: when no parameter has a gradient.
    """
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not learned:
        raise TrainingError(
            "nothing is left to train: every parameter is frozen; freeze fewer layers"
        )
    groups = [
        {"params": [p for p in learned if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in learned if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def adamw(
    module: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> torch.optim.AdamW:
    """AdamW in one fused pass over all parameters that learn.

    Args:
        module: what is trained.
        learning_rate: the peak; kept in each group as `initial_lr`, which `set_learning_rate`
            multiplies.
        weight_decay: decoupled from the gradient; not on biases and norms.
        betas: decay of the two moments.
        eps: added to the root of the second moment.

    Source: Loshchilov and Hutter 2019.
    """
    groups = parameter_groups(module, weight_decay=weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, fused=True)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Set each group to its peak times a factor; returns the largest rate of all groups."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
    return max(float(group["lr"]) for group in optimizer.param_groups)


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients together so that their global norm is at most `max_norm`.

    The norm takes one pass; the scaling, a second one, is left out on a CPU where the norm is
    small enough already (elsewhere the question would cost a synchronisation).

    Args:
        parameters: those without a gradient are left out.
        max_norm: the limit; 0 for none, where only the norm is computed.

    Returns:
        The norm before clipping; not finite where a gradient is not.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients, foreach=True)
    if max_norm > 0.0 and (norm.device.type != "cpu" or float(norm) > max_norm):
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm, foreach=True)
    return norm
