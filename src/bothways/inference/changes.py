"""Whether a parameter was changed in place: what torch counts, and what it does not.

Fused optimizers change weights without raising their version, so the steps of all optimizers are
counted beside it. Changes of values through `.data` are counted by nobody.
"""

from __future__ import annotations

from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook


class _Steps:
    """Counts the steps of all optimizers, from the first question on."""

    def __init__(self) -> None:
        self.count = 0
        self._watching = False

    def now(self) -> int:
        """Steps so far."""
        if not self._watching:
            register_optimizer_step_post_hook(self._count)
            self._watching = True
        return self.count

    def _count(self, *call: object) -> None:
        del call
        self.count += 1


_STEPS = _Steps()


def version(parameter: nn.Parameter) -> tuple[int, int]:
    """Another value after a change in place; also after any optimizer's step.

    A parameter made in inference mode does not count its changes.
    """
    return (0 if parameter.is_inference() else parameter._version, _STEPS.now())


class Known:
    """A parameter as it was when a copy of it was made.

    Parameter and memory are held, because an identity or an address alone may come again.
    """

    def __init__(self, parameter: nn.Parameter) -> None:
        self.parameter, self.memory = parameter, parameter.detach()
        self.version = version(parameter)

    def is_still(self, parameter: nn.Parameter) -> bool:
        """Whether nothing has changed; `module.to(...)` and back moves the memory alone."""
        return (
            parameter is self.parameter
            and version(parameter) == self.version
            and parameter.data_ptr() == self.memory.data_ptr()
        )
