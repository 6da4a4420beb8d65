"""AdamW whose update of a parameter is never larger than its second moment allows.

When gradients suddenly grow, the second moment lags behind and AdamW takes a step that is far too
large, a known source of loss spikes. Here the learning rate of each parameter is divided by the
root mean square of gradient over second moment where that is above 1, so gradient clipping is not
needed. The other optimizers are in `optim.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class StableAdamW(torch.optim.Optimizer):
    """AdamW with update clipping.

    Args:
        params: parameters or groups.
        lr: the learning rate.
        betas: decay of the two moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled from the gradient.

    Source: Wortsman et al. 2023, algorithm 2, with moments that are debiased by their decays.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move all parameters that have a gradient.

        Args:
            closure: not used; torch's signature has it.
        """
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        step, first, second = state["step"], state["exp_avg"], state["exp_avg_sq"]
        step += 1
        # With these decays both moments are unbiased as they are.
        fast, slow = (
            1.0 - beta * (1.0 - beta ** (step - 1)) / (1.0 - beta**step) for beta in group["betas"]
        )
        square = gradient * gradient
        first.lerp_(gradient, fast)
        second.lerp_(square, slow)
        eps = group["eps"]
        size = (square / second.clamp(min=eps**2)).mean().sqrt()
        rate = group["lr"] / size.clamp(min=1.0)
        parameter.mul_(1.0 - rate * group["weight_decay"])
        parameter.sub_(rate * first / (second.sqrt() + eps))
