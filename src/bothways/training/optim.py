"""The optimizers and the clipping of gradients.

Here: which parameters decay, AdamW over them, Muon over the matrices of layers, the global norm.
Not here: how the learning rate moves (`schedule.py`), when a step is taken (`loop.py`), and AdamW
with bounded updates (`stable_adamw.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from bothways.errors import TrainingError
from bothways.training.stable_adamw import StableAdamW

OptimizerName = Literal["adamw", "stable-adamw", "muon"]
Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def parameter_groups(
    module: nn.Module,
    *,
    weight_decay: float,
    learning_rate: float | None = None,
    factors: Mapping[int, float] | None = None,
) -> list[dict[str, Any]]:
    """Parameters that learn, in two groups: matrices and tables decay, biases and norms do not.

    Biases and the scales of norms are the parameters with fewer than two dimensions. A parameter
    that is used twice (a tied table) stands in one group once.

    Args:
        module: its parameters with a gradient are taken.
        weight_decay: of the first group.
        learning_rate: the peak that factors are of.
        factors: on the rate, by identity of the parameter; there are then two groups a factor.

    Raises:
        TrainingError: when no parameter has a gradient.
    """
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not learned:
        raise TrainingError(
            "nothing is left to train: every parameter is frozen; freeze fewer layers"
        )
    if factors is not None:
        assert learning_rate is not None
        return [
            group | {"lr": learning_rate * factor}
            for factor in sorted({factors[id(p)] for p in learned}, reverse=True)
            for group in _two([p for p in learned if factors[id(p)] == factor], weight_decay)
        ]
    return _two(learned, weight_decay)


def _two(learned: Sequence[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
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
    factors: Mapping[int, float] | None = None,
) -> torch.optim.AdamW:
    """AdamW in one fused pass over all parameters that learn.

    Args:
        module: what is trained.
        learning_rate: the peak; kept in each group as `initial_lr`, which `set_learning_rate`
            multiplies.
        weight_decay: decoupled from the gradient; not on biases and norms.
        betas: decay of the two moments.
        eps: added to the root of the second moment.
        factors: on the rate of each parameter, by its identity; None for 1.

    Source: Loshchilov and Hutter 2019.
    """
    groups = parameter_groups(
        module, weight_decay=weight_decay, learning_rate=learning_rate, factors=factors
    )
    return _with_peak(torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, fused=True))


def stable_adamw(
    module: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.99),
    eps: float = 1e-8,
) -> StableAdamW:
    """AdamW whose updates are bounded, parameter by parameter; arguments as in `adamw`."""
    groups = parameter_groups(module, weight_decay=weight_decay)
    return _with_peak(StableAdamW(groups, lr=learning_rate, betas=betas, eps=eps))


def muon(
    module: nn.Module,
    *,
    learning_rate: float,
    matrix_learning_rate: float = 0.02,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> Together:
    """torch's Muon over the matrices of layers, fused AdamW over everything else.

    Muon makes the update of a matrix orthogonal, so that all its directions learn alike. It does
    so in bfloat16, which is slow on processors without it. Tables, heads, biases and norms are
    not what it is for.

    Args:
        module: what is trained; layers are what stands in a list called `layers`.
        learning_rate: peak of AdamW.
        matrix_learning_rate: peak of Muon.
        weight_decay, betas, eps: as in `adamw`.

    Raises:
        TrainingError: when no such matrix learns.

    Source: Jordan et al. 2024.
    """
    names = {id(p): f".{name}" for name, p in module.named_parameters()}
    groups = []
    matrices: list[nn.Parameter] = []
    for group in parameter_groups(module, weight_decay=weight_decay):
        inside = [p for p in group["params"] if p.ndim == 2 and ".layers." in names[id(p)]]
        taken = set(map(id, inside))
        matrices += inside
        groups.append(group | {"params": [p for p in group["params"] if id(p) not in taken]})
    groups = [group for group in groups if group["params"]]
    if not matrices:
        raise TrainingError("no matrix of a layer learns, so there is nothing for Muon; use adamw")
    members: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=matrix_learning_rate, weight_decay=weight_decay)
    ]
    if groups:
        members.append(
            torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, fused=True)
        )
    return Together([_with_peak(member) for member in members])


class Together(torch.optim.Optimizer):
    """Several optimizers, each over its own parameters, that look like one.

    Args:
        members: no parameter in more than one of them; they share their groups and state with
            this one.
    """

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        groups = [group for member in members for group in member.param_groups]
        super().__init__([dict(group) for group in groups], {})
        self.param_groups = groups
        self.members = tuple(members)
        for member in self.members:
            member.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move all parameters.

        Args:
            closure: not used; torch's signature has it.
        """
        del closure
        for member in self.members:
            member.step()


def make_optimizer(
    name: OptimizerName,
    module: nn.Module,
    *,
    learning_rate: float,
    matrix_learning_rate: float = 0.02,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-8,
) -> torch.optim.Optimizer:
    """The optimizer of that name, with its peak rates; arguments as in `muon`."""
    values: dict[str, Any] = {
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "betas": betas,
        "eps": eps,
    }
    if name == "muon":
        return muon(module, matrix_learning_rate=matrix_learning_rate, **values)
    makers: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adamw": adamw,
        "stable-adamw": stable_adamw,
    }
    return makers[name](module, **values)


def _with_peak(optimizer: Kind) -> Kind:
    """Keep each group's rate as the peak that `set_learning_rate` multiplies."""
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
    gather = getattr(norm, "full_tensor", None)  # of tensors that are spread over processes
    norm = norm if gather is None else gather()
    if max_norm > 0.0 and (norm.device.type != "cpu" or float(norm) > max_norm):
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm, foreach=True)
    return norm
